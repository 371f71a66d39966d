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

// String is the text of the section; empty if it has no keys. All values are quoted, so that nothing in them has a meaning.
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

// quote writes a text so that gcfg reads the same. Between double quotes, only the quote and the backslash have a meaning, and a backslash before
// them takes it away (scanner/scanner.go scanValString and scanEscape, read.go unquote). That is so for values and for names of subsections. The text
// must be plain: gcfg ends a value at the end of the line, drops carriage returns without a word, and refuses what is no UTF-8 (next, stripCR).
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
