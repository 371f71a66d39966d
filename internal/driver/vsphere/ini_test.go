package vsphere

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// gcfgReader reads as gcfg does (gopkg.in/gcfg.v1 v1.2.3, scanner/scanner.go and read.go), as far as our sections have it: quotes that open and
// close within a value, comments behind it, backslashes, and carriage returns that are dropped. What is written has been held against gcfg itself,
// too, which is no dependency.
type gcfgReader struct {
	text string
	at   int
	err  error
}

// read returns the values by section, subsection and key: a section that comes again goes on, and the last value of a key counts.
func readGcfg(text string) (map[string]string, error) {
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

// value reads up to one of the ends that is not in quotes.
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

// escaped is what a backslash and the next character stand for.
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

// printable has every character that can be typed on a keyboard of ASCII.
func printable() string {
	var all strings.Builder
	for c := byte(' '); c < 0x7f; c++ {
		all.WriteByte(c)
	}
	return all.String()
}

func TestWhatIsWrittenIsReadBackTheSame(t *testing.T) {
	texts := []string{
		"plain", printable(), `"`, `\`, `\"`, `"\`, `\\`, `\n`, "a;b", "#", "[Global]", "x]", "=", " leading and trailing ", "${PASSWORD}", "pässwörd",
		"日本語", `"""`, `" # comment`, `a" ; [VirtualCenter "x"]`, "'", "`", strings.Repeat(`"\`, 500),
	}
	for range 2000 {
		length := 1 + rand.IntN(12)
		var random strings.Builder
		for range length {
			random.WriteString([]string{`"`, `\`, ";", "#", "=", "[", "]", " ", "a", "é", `\n`, `"""`}[rand.IntN(12)])
		}
		texts = append(texts, random.String())
	}
	for _, text := range texts {
		written := section{name: "VirtualCenter", subsection: text, pairs: []pair{{"user", "a"}, {"password", text}, {"port", "443"}}}
		got, err := readGcfg(written.String())
		want := map[string]string{
			"virtualcenter " + text + "/user": "a", "virtualcenter " + text + "/password": text, "virtualcenter " + text + "/port": "443",
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !isPlain(text) {
			t.Fatalf("%q is read back otherwise: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

// The reader of the test is of use only if it reads what is not quoted as gcfg does.
func TestTheReaderReadsAsGcfgDoes(t *testing.T) {
	for text, want := range map[string]string{
		"[a]\nk = v ; comment\n":            "v",
		"[a]\nk = \"v ; no comment\"\n":     "v ; no comment",
		"[a]\nk = v\n[A]\nk = w\n":          "w",
		"[a]\nk = v\r\n":                    "v",
		"[a]\nk = \"v\rw\"\n":               "vw",
		"[a]\nk = \"two\" \"parts\" more\n": "two parts more",
	} {
		got, err := readGcfg(text)
		if err != nil || got["a/k"] != want {
			t.Errorf("%q: %q, %v; want %q", text, got["a/k"], err, want)
		}
	}
	for _, text := range []string{"[a]\nk = \"v\n", "k = v\n", "[a\nk = v\n", "[a]\nk = \"\\x\"\n", "[a]\nk = \xff\n"} {
		if got, err := readGcfg(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestWhatGcfgWouldChangeIsNotPlain(t *testing.T) {
	for _, text := range []string{"a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7fb", "a\tb", "a\xffb", "a\u2028b", "\ufeffa", "a\u0085b"} {
		if isPlain(text) {
			t.Errorf("%q counts as plain", text)
		}
	}
}

func TestASectionWithoutKeysIsNotWritten(t *testing.T) {
	empty := section{name: "Labels"}
	empty.set("topology-categories", "")
	if text := empty.String(); text != "" {
		t.Errorf("%q", text)
	}
}
