package plugin

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestATextOfOthersSteersNoTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain, with ümläuts and 日本": "plain, with ümläuts and 日本",
		"a\x1b[2Jb":                  `a\u001b[2Jb`,
		"a\nERROR forged":            `a\nERROR forged`,
		"\x1b[31mFailed\x1b[39m":     "\x1b[31mFailed\x1b[39m",
		"\x1b[31mFailed":             `\u001b[31mFailed`,
		"a\tb\rc":                    `a b\u000dc`,
		"a\u202eb\u2028c\u0085d":     `a\u202eb\u2028c\u0085d`,
		"a\U000e0067b":               `a\udb40\udc67b`,
		"a\xffb":                     `a\xffb`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}

func TestWhateverIsPrintedSteersNoTerminal(t *testing.T) {
	var out, errOut bytes.Buffer
	p := New(genericiooptions.IOStreams{Out: &out, ErrOut: &errOut})
	if err := p.Print(nil, [][]string{{"NAME", "SAYS"}, {"ü\x1b[31m", "a\nFORGED   line\tx"}, {"b", "c"}}); err != nil {
		t.Fatal(err)
	}
	const want = "NAME          SAYS\nü\\u001b[31m   a\\nFORGED   line x\nb             c\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	for _, part := range []string{"\xc3", "\xbc\x1b", "\xe6\x97", "\xa5\n"} {
		if n, err := p.Streams.Out.Write([]byte(part)); err != nil || n != len(part) {
			t.Errorf("%d, error %v", n, err)
		}
	}
	if out.String() != "ü\\u001b日\n" {
		t.Errorf("got %q", out.String())
	}
	progress := p.Progress()
	progress.terminal = true
	progress.Step(Step{Done: 1, Total: 2, What: "pod \x1b[2J", State: "x\ny", Problem: true})
	if text := errOut.String(); strings.Contains(text, "\x1b[2J") || strings.Contains(text, "x\ny") || !strings.Contains(text, "\r\x1b[K") {
		t.Errorf("progress %q", text)
	}
	if p.HasColours() {
		t.Error("a buffer has colours")
	}
}

func TestColoursAreLeftOutWhereTheUserForbidsThem(t *testing.T) {
	for _, tc := range []struct {
		forbidden, terminal string
		want                bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "", true}, {"", "dumb", false}} {
		if got := allowsColours(tc.forbidden, tc.terminal); got != tc.want {
			t.Errorf("NO_COLOR=%q TERM=%q: %t", tc.forbidden, tc.terminal, got)
		}
	}
}
