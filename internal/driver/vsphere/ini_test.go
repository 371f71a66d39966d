package vsphere

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// printable has all printable ASCII characters.
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
		got, err := variants.ReadGcfg(written.String())
		want := map[string]string{
			"virtualcenter " + text + "/user": "a", "virtualcenter " + text + "/password": text, "virtualcenter " + text + "/port": "443",
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !accept.IsPlain(text) {
			t.Fatalf("%q is read back otherwise: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

// The test's parser must parse unquoted values like gcfg.
func TestTheReaderReadsAsGcfgDoes(t *testing.T) {
	for text, want := range map[string]string{
		"[a]\nk = v ; comment\n":            "v",
		"[a]\nk = \"v ; no comment\"\n":     "v ; no comment",
		"[a]\nk = v\n[A]\nk = w\n":          "w",
		"[a]\nk = v\r\n":                    "v",
		"[a]\nk = \"v\rw\"\n":               "vw",
		"[a]\nk = \"two\" \"parts\" more\n": "two parts more",
	} {
		got, err := variants.ReadGcfg(text)
		if err != nil || got["a/k"] != want {
			t.Errorf("%q: %q, %v; want %q", text, got["a/k"], err, want)
		}
	}
	for _, text := range []string{"[a]\nk = \"v\n", "k = v\n", "[a\nk = v\n", "[a]\nk = \"\\x\"\n", "[a]\nk = \xff\n"} {
		if got, err := variants.ReadGcfg(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestWhatGcfgWouldChangeIsNotPlain(t *testing.T) {
	for _, text := range []string{"a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7fb", "a\tb", "a\xffb", "a\u2028b", "\ufeffa", "a\u0085b"} {
		if accept.IsPlain(text) {
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
