package vsphere

import "strings"

// section is a section of a file that gcfg reads (gopkg.in/gcfg.v1 v1.2.3, which the driver uses: kubernetes-sigs/vsphere-csi-driver bf8090256,
// pkg/common/config/config.go ReadConfig).
type section struct {
	name, subsection string
	pairs            []pair
}

type pair struct{ key, value string }

// set adds a key, unless its value is empty.
func (s *section) set(key, value string) {
	if value != "" {
		s.pairs = append(s.pairs, pair{key, value})
	}
}

// String formats the section. The text is empty if the section has no keys. String quotes all values, so that no character in them is special.
func (s *section) String() string {
	if len(s.pairs) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("[" + s.name)
	if s.subsection != "" {
		text.WriteString(" " + quote(s.subsection))
	}
	text.WriteString("]\n")
	for _, pair := range s.pairs {
		text.WriteString(pair.key + " = " + quote(pair.value) + "\n")
	}
	return text.String()
}

// quote writes a text so that gcfg reads it back unchanged. In values and names of subsections, a backslash escapes quotes and backslashes between
// double quotes (scanner/scanner.go scanValString and scanEscape, read.go unquote). The text must be plain: gcfg ends a value at the end of the line,
// drops carriage returns, and rejects invalid UTF-8 (next, stripCR).
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
