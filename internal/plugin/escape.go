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

// Printable escapes control characters, line ends and direction marks, in the notation of Go and JSON. Unescaped, a text from the cluster could
// control the terminal, or imitate lines of the plugin's output.
func Printable(text string) string {
	if coloured.MatchString(text) {
		return text
	}
	return strings.NewReplacer("\n", `\n`, "\t", " ", "\x1b", `\u001b`).Replace(escape(text))
}

// PrintLine formats a line and escapes its values.
func PrintLine(out io.Writer, format string, values ...string) {
	printed := make([]any, len(values))
	for i, value := range values {
		printed[i] = Printable(value)
	}
	_, _ = fmt.Fprintf(out, format+"\n", printed...)
}

// allowed matches names that Kubernetes and AWS allow, and also such names behind the prefix of an annotation or behind a namespace.
var allowed = regexp.MustCompile(`^[A-Za-z0-9](?:[-A-Za-z0-9._/:]*[A-Za-z0-9])?$`)

// ToCopy formats a command for the user to copy. If one of the names is not allowed, the result is empty. Without this check, a tenant could create
// an object whose name adds another command to the text that the user copies.
func ToCopy(format string, names ...any) string {
	for _, one := range names {
		if !allowed.MatchString(fmt.Sprint(one)) {
			return ""
		}
	}
	return fmt.Sprintf(format, names...)
}

// coloured matches a word with a foreground colour, and colour matches the escape sequence that sets such a colour. The output keeps these texts
// unescaped, because they are harmless.
var (
	coloured = regexp.MustCompile("^\x1b\\[3[0-9]m[A-Za-z]+\x1b\\[39m$")
	colour   = regexp.MustCompile("^\x1b\\[3[0-9]m")
)

// escape escapes control and format characters, except line ends and tabs.
func escape(text string) string {
	if !strings.ContainsFunc(text, isControl) && utf8.ValidString(text) {
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
		case !isControl(letter):
			out.WriteRune(letter)
		case letter > 0xffff:
			// Escape the character as JSON does, as two UTF-16 code units.
			first, second := utf16.EncodeRune(letter)
			fmt.Fprintf(&out, `\u%04x\u%04x`, first, second)
		default:
			fmt.Fprintf(&out, `\u%04x`, letter)
		}
		i += size
	}
	return out.String()
}

// isControl reports whether a character is a control character, or a format character such as a direction mark (Unicode TR 36, 2.10).
func isControl(letter rune) bool {
	return letter != '\n' && letter != '\t' && (unicode.IsControl(letter) || unicode.In(letter, unicode.Cf, unicode.Zl, unicode.Zp))
}

// screen writes to a terminal and escapes control characters.
type screen struct {
	io.Writer

	// rest holds the first bytes of an incomplete UTF-8 character.
	rest []byte
	// pages is the address of the repository's files. The output shows this address before the name of each page.
	pages string
}

// page matches the name of a page of this repository, unless the name is part of an address. Messages of the operators contain such names, too.
var page = regexp.MustCompile(`(^|[^\w./-])(docs/(?:guide|contribute)/[\w./-]+\.md)`)

// released matches the version of a release, which is also its tag.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// linkPages makes the output show the full address of each page. In a released program, the address contains the program's version.
func (p *Plugin) linkPages(version string) {
	if !released.MatchString(version) {
		version = "main"
	}
	for _, stream := range []io.Writer{p.Streams.Out, p.Streams.ErrOut} {
		if out, ok := stream.(*screen); ok {
			out.pages = "https://github.com/csi-operators/csi-operators/blob/" + version + "/"
		}
	}
}

// Write escapes control characters.
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
	printed := escape(string(all[:whole]))
	if s.pages != "" {
		printed = page.ReplaceAllString(printed, "${1}"+s.pages+"${2}")
	}
	if _, err := io.WriteString(s.Writer, printed); err != nil {
		return 0, err //nolint:wrapcheck // It stands for the writer below.
	}
	return len(text), nil
}

// Fd returns the descriptor of the underlying file. Without such a file, it returns an invalid descriptor.
func (s *screen) Fd() uintptr {
	if file, ok := s.Writer.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
