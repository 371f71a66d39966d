// Package cloudconfig parses the cloud configuration of vSphere, and the credentials. It rejects ambiguous input, because other programs may read
// such input differently. It does not import govmomi, so that operators of other drivers don't link govmomi.
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

// Config is the parsed cloud configuration. See Parse.
type Config struct {
	// VCenters are in file order.
	VCenters []VCenterConfig
	// ZoneCategory and RegionCategory are tag categories, from section Labels of the file.
	ZoneCategory, RegionCategory string
	// Workspace is the default location in a file of the legacy format. It is for clusters without failure domains.
	Workspace Workspace
}

// VCenterConfig is the connection to one vCenter.
type VCenterConfig struct {
	// Server is a host name or IP address. Port is usually 443.
	Server string
	Port   int
	// Insecure means that the file disables the verification of the vCenter's certificate.
	Insecure bool
	// CAFile and Thumbprint are the values in the file. CAFile is a path in the driver's pods.
	CAFile, Thumbprint string
	// Datacenters are names or paths.
	Datacenters []string
}

// Workspace is the default location of VMs and volumes.
type Workspace struct {
	Server, Datacenter, Folder, Datastore, ResourcePool string
}

// ConfigKey is the key of the cloud configuration in its ConfigMap.
const ConfigKey = "cloud.conf"

const (
	// longestConfig limits the size of the file, in bytes. The files that installers write have less than 2,000 bytes.
	longestConfig = 256 << 10
	// mostVCenters limits the vCenters of a file. The driver accepts five (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/common/config/config.go).
	mostVCenters = 16
	defaultPort  = 443
)

// Parse parses a cluster's cloud configuration, INI or YAML. It reads section Workspace like Kubernetes' in-tree plugin, and all other sections like
// k8s.io/cloud-provider-vsphere (openshift/cloud-provider-vsphere 854aeeabab63, pkg/common/config). The file is INI if its first character outside of
// comments is [. Parse ignores keys that this project does not need.
//
// Parse rejects ambiguous input. Errors name the line, but quote no values, because the file can contain passwords.
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

// problem says why Parse rejects a file. If line is 0, the problem concerns the whole file. If field "why" is empty, there is no problem.
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

// isINI reports whether the file is INI, not YAML.
func isINI(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != ';' {
			return line[0] == '['
		}
	}
	return false
}

// oddities finds the first line that is not UTF-8 or has invisible characters. It also rejects an empty file.
func oddities(text string) problem {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case !utf8.ValidString(line):
			return problem{number, "is not UTF-8"}
		case strings.ContainsFunc(strings.ReplaceAll(line, "\t", " "), invisible):
			return problem{number, "has invisible characters"}
		}
	}
	if number == 0 {
		return problem{why: "is empty"}
	}
	return problem{}
}

// invisible reports whether a character is a control or format character, or a line separator.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// rawFile is a parsed file, before defaults are inherited.
type rawFile struct {
	global    rawCenter
	centers   []*rawCenter
	zone      string
	region    string
	workspace Workspace
}

// rawCenter is a vCenter, or the defaults for all vCenters.
type rawCenter struct {
	// name is the vCenter's name in the file: in a section header of INI, or as a key of YAML.
	name string
	line int

	server, port, caFile, thumbprint string
	insecure                         bool
	datacenters                      []string
}

// resolve applies defaults and validates the result, like validateConfig of k8s.io/cloud-provider-vsphere (see Parse).
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
		// Host names are case-insensitive.
		key := strings.ToLower(one.Server)
		if lines[key] != 0 {
			return Config{}, problem{center.line, fmt.Sprintf("repeats the vCenter of line %d", lines[key])}
		}
		lines[key] = center.line
		config.VCenters = append(config.VCenters, one)
	}
	return config, problem{}
}

// resolve applies the defaults of the global section.
func (c *rawCenter) resolve(global rawCenter) (one VCenterConfig, why string) {
	one = VCenterConfig{
		Server: c.server, Port: defaultPort, Insecure: c.insecure || global.insecure,
		CAFile: cmp.Or(c.caFile, global.caFile), Thumbprint: cmp.Or(c.thumbprint, global.thumbprint), Datacenters: c.datacenters,
	}
	if len(one.Datacenters) == 0 {
		one.Datacenters = global.datacenters
	}
	if !isHost(one.Server) {
		return one, "has a vCenter that is neither a host name nor an IP address"
	}
	if port := cmp.Or(c.port, global.port); port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 || port[0] == '0' || port[0] == '+' {
			return one, "has a vCenter with a port that is not a number from 1 to 65535"
		}
		one.Port = int(number)
	}
	return one, ""
}

// isHost reports whether a text is a host name or address, without scheme, port and user. As in DNS, the name can contain underscores.
func isHost(text string) bool {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Zone() == ""
	}
	labels := strings.Split(text, ".")
	// Other programs could take an all-numeric name for an address.
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" || len(text) > 253 {
		return false
	}
	label := regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	return !slices.ContainsFunc(labels, func(one string) bool { return !label.MatchString(one) })
}

// listOf splits a comma-separated list, and drops empty items.
func listOf(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}
