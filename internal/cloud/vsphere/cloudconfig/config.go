// Package cloudconfig reads the configuration of vSphere and its credentials, and refuses what two readers would read in two ways. It talks to no
// vCenter, so that the programs of other drivers don't have govmomi.
package cloudconfig

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config is the configuration of the cloud, parsed. See Parse.
type Config struct {
	// VCenters are in the order of the file.
	VCenters []VCenterConfig
	// Labels are the categories of tags of zones and regions, where the file names them.
	ZoneCategory, RegionCategory string
	// Workspace is that of the legacy form: where a cluster without failure domains has its VMs.
	Workspace Workspace
}

// VCenterConfig is how one vCenter is reached.
type VCenterConfig struct {
	// Server is a host name or IP address, Port usually 443.
	Server string
	Port   int
	// Insecure means that its certificate is not to be verified, by the user's word.
	Insecure bool
	// CAFile and Thumbprint are what the file says; files of other pods can't be read here.
	CAFile, Thumbprint string
	// Datacenters are names or paths.
	Datacenters []string
}

// Workspace is the default place.
type Workspace struct {
	Server, Datacenter, Folder, Datastore, ResourcePool string
}

// ConfigKey is the key of the cloud configuration in its ConfigMap.
const ConfigKey = "cloud.conf"

const (
	// longestConfig bounds what is parsed, in bytes. The files of installers have less than two thousand.
	longestConfig = 256 << 10
	// mostVCenters bounds how many a file may have. The driver takes five (kubernetes-sigs/vsphere-csi-driver, pkg/common/config).
	mostVCenters = 16
	defaultPort  = 443
)

// Parse reads the cloud configuration of a cluster, INI or YAML, as k8s.io/cloud-provider-vsphere reads it (openshift/cloud-provider-vsphere
// 854aeeabab63, pkg/common/config), and its section Workspace as Kubernetes' own plugin did. The first character that is of no comment
// tells the form: [ begins INI. Keys that are not needed here are ignored.
//
// It is strict: what could be read in two ways is refused. An error names the line, and quotes no value: the file may have passwords.
func Parse(data []byte) (Config, error) {
	text := string(data)
	if len(text) > longestConfig {
		return Config{}, badConfig(problem{why: fmt.Sprintf("has more than %d bytes", longestConfig)})
	}
	if found := oddities(text); found.why != "" {
		return Config{}, badConfig(found)
	}
	read := readYAML
	if isINI(text) {
		read = readINI
	}
	file, found := read(text)
	if found.why != "" {
		return Config{}, badConfig(found)
	}
	config, found := file.resolve()
	if found.why != "" {
		return Config{}, badConfig(found)
	}
	return config, nil
}

// problem is why a file is refused. Without a line it is about the whole file, without why there is none.
type problem struct {
	line int
	why  string
}

func badConfig(found problem) error {
	why := "it " + found.why
	if found.line > 0 {
		why = fmt.Sprintf("line %d %s", found.line, found.why)
	}
	const advice = "correct the ConfigMap that spec.cloudConfig of Infrastructure cluster names"
	return &Error{What: "read the cloud configuration", Reason: InvalidConfiguration, Why: why + ": " + advice}
}

// isINI tells the form.
func isINI(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != ';' {
			return line[0] == '['
		}
	}
	return false
}

// oddities finds characters that show as nothing, or as something else.
func oddities(text string) problem {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case !utf8.ValidString(line):
			return problem{number, "is not UTF-8"}
		case strings.ContainsFunc(strings.ReplaceAll(line, "\t", " "), invisible):
			return problem{number, "has characters that nobody sees"}
		}
	}
	if number == 0 {
		return problem{why: "is empty"}
	}
	return problem{}
}

// invisible tells whether a character is a control or format character, or a separator of lines.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// rawFile is what a file says, before anything is inherited.
type rawFile struct {
	global    rawCenter
	centers   []*rawCenter
	zone      string
	region    string
	workspace Workspace
}

// rawCenter is a vCenter, or what all vCenters inherit.
type rawCenter struct {
	// name is the one of the section or of the key.
	name string
	line int

	server, port, caFile, thumbprint string
	insecure                         bool
	datacenters                      []string
}

// resolve inherits, and checks. What is inherited by which rule is that of validateConfig in the files that Parse names.
func (f *rawFile) resolve() (Config, problem) {
	listed := func(one *rawCenter) bool { return one.name == f.global.server || one.server == f.global.server }
	if f.global.server != "" && !slices.ContainsFunc(f.centers, listed) {
		f.centers = append(f.centers, &rawCenter{name: f.global.server, server: f.global.server, line: f.global.line})
	}
	switch {
	case len(f.centers) == 0:
		return Config{}, problem{why: "names no vCenter"}
	case len(f.centers) > mostVCenters:
		return Config{}, problem{why: fmt.Sprintf("has more than %d vCenters", mostVCenters)}
	}
	config := Config{ZoneCategory: f.zone, RegionCategory: f.region, Workspace: f.workspace}
	lines := map[string]int{}
	for _, center := range f.centers {
		one, why := center.resolve(f.global)
		if why != "" {
			return Config{}, problem{center.line, why}
		}
		// Names of hosts are the same in upper case.
		key := strings.ToLower(one.Server)
		if lines[key] != 0 {
			return Config{}, problem{center.line, fmt.Sprintf("has the vCenter of line %d again", lines[key])}
		}
		lines[key] = center.line
		config.VCenters = append(config.VCenters, one)
	}
	return config, problem{}
}

// resolve inherits from the section for all.
func (c *rawCenter) resolve(global rawCenter) (one VCenterConfig, why string) {
	one = VCenterConfig{
		Server: c.server, Port: defaultPort, Insecure: c.insecure || global.insecure,
		CAFile: cmp.Or(c.caFile, global.caFile), Thumbprint: cmp.Or(c.thumbprint, global.thumbprint), Datacenters: c.datacenters,
	}
	if len(one.Datacenters) == 0 {
		one.Datacenters = global.datacenters
	}
	if !isHost(one.Server) {
		return one, "has a vCenter that is neither the name of a host nor an IP address"
	}
	if port := cmp.Or(c.port, global.port); port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 || port[0] == '0' || port[0] == '+' {
			return one, "has a vCenter with a port that is no number from 1 to 65535"
		}
		one.Port = int(number)
	}
	return one, ""
}

// isHost tells whether a text names a host: no URL, no port, no user. Names may have underscores, as DNS takes them.
func isHost(text string) bool {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Zone() == ""
	}
	labels := strings.Split(text, ".")
	// Numbers that are no address may be one for other programs.
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" || len(text) > 253 {
		return false
	}
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	return !slices.ContainsFunc(labels, func(one string) bool { return !label.MatchString(one) })
}

// listOf is a list with commas. Empty items do not count.
func listOf(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}
