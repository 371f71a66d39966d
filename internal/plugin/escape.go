package plugin

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is a text of others as it may be printed: a terminal obeys control characters, and people believe lines. What steers a terminal or the
// direction of a text, and the ends of lines, are written as Go and JSON write them.
func Printable(text string) string {
	if coloured.MatchString(text) {
		return text
	}
	return strings.NewReplacer("\n", `\n`, "\t", " ", "\x1b", `\u001b`).Replace(escape(text))
}

// coloured is a word in a colour, colour a colour of the foreground: they change what a word looks like, and nothing else.
var (
	coloured = regexp.MustCompile("^\x1b\\[3[0-9]m[A-Za-z]+\x1b\\[39m$")
	colour   = regexp.MustCompile("^\x1b\\[3[0-9]m")
)

// escape writes all that steers a terminal as text, but for ends of lines and tabs.
func escape(text string) string {
	if !strings.ContainsFunc(text, steers) && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		letter, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case letter == '\x1b' && colour.MatchString(text[i:]):
			out.WriteRune(letter)
		case letter == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case !steers(letter):
			out.WriteRune(letter)
		case letter > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, letter)
		default:
			fmt.Fprintf(&out, `\u%04x`, letter)
		}
		i += size
	}
	return out.String()
}

// steers tells control characters, and formats such as those that turn the direction of a text (Unicode TR 36, 2.10).
func steers(letter rune) bool {
	return letter != '\n' && letter != '\t' && (unicode.IsControl(letter) || unicode.In(letter, unicode.Cf, unicode.Zl, unicode.Zp))
}

// screen is where people read: nothing that is written there steers it.
type screen struct {
	io.Writer

	// rest is the beginning of a letter that has not been written as a whole.
	rest []byte
}

// Write escapes what steers a terminal.
func (s *screen) Write(text []byte) (int, error) {
	all := append(s.rest, text...)
	whole := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if tail := all[len(all)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole = len(all) - i
			}
			break
		}
	}
	s.rest = append([]byte(nil), all[whole:]...)
	if _, err := io.WriteString(s.Writer, escape(string(all[:whole]))); err != nil {
		return 0, err //nolint:wrapcheck // It stands for the writer below.
	}
	return len(text), nil
}

// Fd is that of the file below; no file has the greatest one.
func (s *screen) Fd() uintptr {
	if file, ok := s.Writer.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
