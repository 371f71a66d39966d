package openstack

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Section is a section of an INI file: keys and values in the order of the file.
type Section []Pair

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// longestConf limits the size of a configuration file, in bytes. Files of installers have a few hundred.
const longestConf = 64 << 10

// SectionOf reads one section of a configuration that the drivers parse with gcfg (cloud-provider-openstack c453fb7c9,
// pkg/csi/cinder/openstack/openstack.go GetConfigFromFiles). SectionOf rejects every ambiguous line. Errors name lines and keys, but no values,
// because other sections can contain passwords.
func SectionOf(text, name string) (Section, error) {
	if len(text) > longestConf {
		return nil, fmt.Errorf("the text has %d bytes, more than %d", len(text), longestConf)
	}
	var section Section
	inside, any := false, false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		problem := oddities(line)
		switch {
		case problem != "":
		case line == "" || line[0] == ';' || line[0] == '#':
		case line[0] == '[':
			header := patterns().header.FindStringSubmatch(line)
			if header == nil {
				problem = "is not a valid section header"
				break
			}
			any, inside = true, strings.EqualFold(header[1], name) && header[2] == ""
		case !any:
			problem = "belongs to no section"
		case inside:
			problem = section.add(line)
		}
		if problem != "" {
			return nil, fmt.Errorf("line %d %s", i+1, problem)
		}
	}
	return section, nil
}

// oddities returns why a line is ambiguous. It returns an empty text if the line is not ambiguous.
func oddities(line string) string {
	switch {
	case strings.ContainsFunc(line, func(r rune) bool {
		return (r < ' ' && r != '\t') || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\ufeff'
	}):
		return "has invisible characters"
	case strings.HasSuffix(line, `\`):
		return `ends with \, which would join the next line to it`
	case strings.Contains(line, `"""`):
		return `has """, which would join the next lines to it`
	default:
		return ""
	}
}

type linePatterns struct{ header, key, value *regexp.Regexp }

func patterns() linePatterns {
	return linePatterns{
		header: regexp.MustCompile(`^\[\s*([A-Za-z][A-Za-z0-9-]*)\s*("[^"\\]*")?\s*\]\s*([;#].*)?$`),
		key:    regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`),
		value:  regexp.MustCompile(`^[A-Za-z0-9._:/@,+-]+( [A-Za-z0-9._:/@,+-]+)*$`),
	}
}

// add parses a line. If a key occurs twice, the last value counts.
func (s *Section) add(line string) (problem string) {
	key, value, hasValue := strings.Cut(line, "=")
	key = strings.TrimSpace(key)
	if !hasValue {
		// For gcfg, a key without a value is true.
		key, value = strings.TrimSpace(uncommented(key)), "true"
	}
	if !patterns().key.MatchString(key) {
		return "has an invalid key"
	}
	value = strings.TrimSpace(uncommented(value))
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	if !patterns().value.MatchString(value) {
		return fmt.Sprintf("has an invalid value for key %s", key)
	}
	*s = slices.DeleteFunc(*s, func(pair Pair) bool { return strings.EqualFold(pair.Key, key) })
	*s = append(*s, Pair{key, value})
	return ""
}

// uncommented removes a comment at the end of a line. A ; or # always begins a comment, because add accepts no value with these characters.
func uncommented(text string) string {
	if at := strings.IndexAny(text, ";#"); at >= 0 {
		return text[:at]
	}
	return text
}

// Without returns the section without a key.
func (s Section) Without(key string) Section {
	return slices.DeleteFunc(slices.Clone(s), func(pair Pair) bool { return strings.EqualFold(pair.Key, key) })
}

// Write returns the section as text. The text is empty if the section has no keys.
func (s Section) Write(name string) string {
	if len(s) == 0 {
		return ""
	}
	text := "[" + name + "]\n"
	for _, pair := range s {
		text += pair.Key + " = " + pair.Value + "\n"
	}
	return text
}
