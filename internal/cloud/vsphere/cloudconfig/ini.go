package cloudconfig

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// iniReader parses INI line by line, in the format of gcfg (gopkg.in/gcfg.v1, scanner/scanner.go). It rejects continued lines, quotes within values,
// comments without a space before them, and duplicate sections and keys, because other INI parsers read these differently.
type iniReader struct {
	file rawFile
	// sections and keys map the names of sections and keys to their line numbers. keys has only the keys of the current section.
	sections, keys map[string]int
	// Function "set" handles a key of the current section, and returns the key's problem, or an empty text. If the function is nil, the reader ignores
	// the section.
	set func(key, value string) string

	header, key *regexp.Regexp
}

func readINI(text string) (*rawFile, problem) {
	reader := &iniReader{
		sections: map[string]int{},
		header:   regexp.MustCompile(`^\[\s*([A-Za-z][A-Za-z0-9-]*)(?:\s+"([^"\\]+)")?\s*\]\s*(?:[;#].*)?$`),
		key:      regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`),
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if why := reader.line(strings.TrimSpace(line), number); why != "" {
			return nil, problem{number, why}
		}
	}
	return &reader.file, problem{}
}

func (r *iniReader) line(line string, number int) (why string) {
	switch {
	case line == "" || line[0] == ';' || line[0] == '#':
		return ""
	case line[0] == '[':
		return r.section(line, number)
	case r.keys == nil:
		return "belongs to no section"
	}
	key, rest, hasValue := strings.Cut(line, "=")
	key = strings.ToLower(strings.TrimSpace(key))
	if !hasValue {
		return "is neither a section nor a key with a value"
	}
	if !r.key.MatchString(key) {
		return "has an invalid key"
	}
	if before := r.keys[key]; before != 0 {
		return fmt.Sprintf("repeats the key of line %d", before)
	}
	r.keys[key] = number
	value, why := iniValue(strings.TrimSpace(rest))
	if why == "" && r.set != nil {
		why = r.set(key, value)
	}
	return why
}

// section starts a section.
func (r *iniReader) section(line string, number int) (why string) {
	match := r.header.FindStringSubmatch(line)
	if match == nil {
		return "is not a valid section header"
	}
	name, sub := strings.ToLower(match[1]), match[2]
	id := name + " " + strings.ToLower(sub)
	if before := r.sections[id]; before != 0 {
		return fmt.Sprintf("repeats the section of line %d", before)
	}
	r.sections[id], r.keys, r.set = number, map[string]int{}, nil
	switch name {
	case "global":
		r.file.global.line = number
		r.set = r.file.global.setINI
	case "workspace":
		r.set = r.workspace
	case "labels":
		r.set = r.labels
	case "virtualcenter":
		if sub == "" {
			return `does not name the vCenter: write [VirtualCenter "SERVER"]`
		}
		center := &rawCenter{name: sub, server: sub, line: number}
		r.file.centers = append(r.file.centers, center)
		r.set = center.setINI
		return ""
	default:
		return ""
	}
	if sub != "" {
		return "is a section that takes no subsection"
	}
	return ""
}

// setINI sets a key of section Global or VirtualCenter (GlobalINI and VirtualCenterConfigINI in types_ini_legacy.go of
// k8s.io/cloud-provider-vsphere).
func (c *rawCenter) setINI(key, value string) (why string) {
	switch key {
	case "server":
		c.server = cmp.Or(value, c.server)
	case "port":
		c.port = value
	case "ca-file":
		c.caFile = value
	case "thumbprint":
		c.thumbprint = value
	case "datacenters":
		c.datacenters = listOf(value)
	case "insecure-flag":
		switch strings.ToLower(value) {
		case "true", "yes", "on", "1":
			c.insecure = true
		case "false", "no", "off", "0":
		default:
			return "has an insecure-flag that is neither true nor false"
		}
	}
	return ""
}

// workspace sets a key of Workspace (k8s.io/legacy-cloud-providers, vsphere/vsphere.go, VSphereConfig.Workspace).
func (r *iniReader) workspace(key, value string) (why string) {
	place := &r.file.workspace
	switch key {
	case "server":
		place.Server = value
	case "datacenter":
		place.Datacenter = value
	case "folder":
		place.Folder = value
	case "default-datastore":
		place.Datastore = value
	case "resourcepool-path":
		place.ResourcePool = value
	}
	return ""
}

func (r *iniReader) labels(key, value string) (why string) {
	switch key {
	case "zone":
		r.file.zone = value
	case "region":
		r.file.region = value
	}
	return ""
}

// iniValue parses a value, with or without double quotes.
func iniValue(text string) (value, why string) {
	if !strings.HasPrefix(text, `"`) {
		return bareValue(text)
	}
	var read strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			rest := strings.TrimSpace(text[i+1:])
			if rest != "" && rest[0] != ';' && rest[0] != '#' {
				return "", "continues after the closing quote"
			}
			if strings.ContainsFunc(read.String(), invisible) {
				return "", "has invisible characters"
			}
			return read.String(), ""
		case '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", `has a \ that is not before " or \`
			}
		}
		read.WriteByte(text[i])
	}
	return "", "has no closing quote"
}

func bareValue(text string) (value, why string) {
	value = text
	if at := strings.IndexAny(text, ";#"); at >= 0 {
		if at > 0 && text[at-1] != ' ' && text[at-1] != '\t' {
			return "", "has ; or # within a value: put the value in double quotes"
		}
		value = strings.TrimSpace(text[:at])
	}
	switch {
	case strings.ContainsAny(value, `"\`) || strings.HasPrefix(value, "'") || strings.HasPrefix(value, "`"):
		return "", `has a quote or a \ in a value: put the value in double quotes, with a \ before " and \`
	case strings.Contains(value, "\t"):
		return "", "has invisible characters"
	}
	return value, ""
}
