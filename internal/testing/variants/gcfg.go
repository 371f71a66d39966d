package variants

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// gcfgReader is the state of ReadGcfg.
type gcfgReader struct {
	text string
	at   int
	err  error
}

// ReadGcfg parses a text like gcfg (gopkg.in/gcfg.v1 v1.2.3, scanner/scanner.go and read.go). It supports the syntax in our sections: quotes inside
// of a value, trailing comments and backslashes. It drops carriage returns. It was compared with gcfg, which is not a dependency. It returns the
// values by section, subsection and key. A repeated section continues the first one, and the last value of a key wins.
func ReadGcfg(text string) (map[string]string, error) {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return nil, fmt.Errorf("illegal character")
	}
	r, section, values := &gcfgReader{text: text}, "", map[string]string{}
	for r.at < len(text) && r.err == nil {
		switch r.skip(" \t\r"); {
		case r.at == len(text):
		case r.is("\n"):
			r.at++
		case r.is(";#"):
			r.until("\n")
		case r.is("["):
			r.at++
			section = strings.ToLower(strings.TrimSpace(r.until(" \t\"]")))
			if r.skip(" \t"); r.is(`"`) {
				section += " " + r.value("]")
			}
			if !r.is("]") {
				return nil, fmt.Errorf("no end of section at %d", r.at)
			}
			r.at++
		default:
			key := strings.ToLower(strings.TrimSpace(r.until("=\n")))
			if section == "" || !r.is("=") {
				return nil, fmt.Errorf("no value of %q at %d", key, r.at)
			}
			r.at++
			r.skip(" \t\r")
			values[section+"/"+key] = r.value(";#\n")
		}
	}
	return values, r.err
}

func (r *gcfgReader) is(any string) bool {
	return r.at < len(r.text) && strings.IndexByte(any, r.text[r.at]) >= 0
}

func (r *gcfgReader) skip(any string) {
	for r.is(any) {
		r.at++
	}
}

func (r *gcfgReader) until(any string) string {
	from := r.at
	for r.at < len(r.text) && !r.is(any) {
		r.at++
	}
	return r.text[from:r.at]
}

// value reads up to the first unquoted end.
func (r *gcfgReader) value(ends string) string {
	var read strings.Builder
	inQuotes, kept := false, 0
	for r.at < len(r.text) && (inQuotes || !r.is(ends)) && r.err == nil {
		c := r.text[r.at]
		r.at++
		switch c {
		case '"':
			inQuotes = !inQuotes
		case '\\':
			read.WriteByte(r.escaped())
		case '\n':
			r.err = errors.New("string not terminated")
		case '\r':
		default:
			read.WriteByte(c)
		}
		if inQuotes || strings.IndexByte(" \t\r", c) < 0 {
			kept = read.Len()
		}
	}
	if inQuotes {
		r.err = errors.New("string not terminated")
	}
	return read.String()[:kept]
}

// escaped returns the character that a backslash and the next character stand for.
func (r *gcfgReader) escaped() byte {
	if r.at == len(r.text) {
		r.err = errors.New("string not terminated")
		return ' '
	}
	unescaped := map[byte]byte{'\\': '\\', '"': '"', 'n': '\n', 't': '\t'}[r.text[r.at]]
	r.at++
	if unescaped == 0 {
		r.err = errors.New("unknown escape sequence")
	}
	return unescaped
}
