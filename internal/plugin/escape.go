package plugin

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
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

// Say writes a line with texts of others.
func Say(out io.Writer, format string, values ...string) {
	printed := make([]any, len(values))
	for i, value := range values {
		printed[i] = Printable(value)
	}
	_, _ = fmt.Fprintf(out, format+"\n", printed...)
}

// allowed is what Kubernetes and AWS allow as the name of an object, also with the group of an annotation or the namespace before it.
var allowed = regexp.MustCompile(`^[A-Za-z0-9](?:[-A-Za-z0-9._/:]*[A-Za-z0-9])?$`)

// ToCopy is a command to copy. It is empty if a name in it is none that Kubernetes allows: what a tenant wrote is part of no command then.
func ToCopy(format string, names ...any) string {
	for _, one := range names {
		if !allowed.MatchString(fmt.Sprint(one)) {
			return ""
		}
	}
	return fmt.Sprintf(format, names...)
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
			// As JSON writes it.
			first, second := utf16.EncodeRune(letter)
			fmt.Fprintf(&out, `\u%04x\u%04x`, first, second)
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
