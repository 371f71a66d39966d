package accept

import (
	"slices"
	"testing"
)

func TestARowHoldsForItsVersions(t *testing.T) {
	table := Table{
		{Of: Attribute, Name: "old", Before: "2.0.0"}, {Of: Attribute, Name: "new", Since: "2.0.0"}, {Of: Attribute, Name: "always"},
		{Of: Attribute, Name: "between", Since: "1.5.0", Before: "2.1.0"},
	}
	for version, want := range map[string][]string{
		"1.0.0": {"always", "old"}, "v1.5.0": {"always", "between", "old"}, "2.0.0": {"always", "between", "new"}, "2.1.0": {"always", "new"},
		"2.0.0-rc.1": {"always", "between", "old"}, "": {"always", "new"}, "latest": {"always", "new"},
	} {
		if got := table.At(version).Names(Attribute); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}

func TestTheTagOfAnImageTellsTheVersion(t *testing.T) {
	for image, want := range map[string]string{
		"a/b:v1.2.3": "1.2.3", "a/b:1.2.3": "1.2.3", "a.example:5000/b:v1.2.3-eksbuild.1": "1.2.3", "a/b:v1.2.3@sha256:00": "1.2.3",
		"a.example:5000/b": "", "a/b": "", "a/b:latest": "", "a/b:v1": "", "a/b@sha256:00": "", "a/b:v4.20": "", "1.2.3": "", "": "",
	} {
		if got := VersionOf(image); got != want {
			t.Errorf("%q: %q, want %q", image, got, want)
		}
	}
}

func TestTheFirstRowThatRefusesAValueSaysWhy(t *testing.T) {
	table := Table{
		{Of: File, Name: "a", Most: 3, Why: "long"}, {Of: File, Name: "a", Match: "x*", Why: "letters"}, {Of: File, Name: "a", Except: "xx", Why: "twice"},
		{Of: File, Name: "b", Values: []string{"y", "n"}, Why: "values"},
	}
	for _, tc := range [][3]string{
		{"a", "x", ""}, {"a", "", ""}, {"a", "yyyy", "long"}, {"a", "y", "letters"}, {"a", "x\n", "letters"}, {"a", "xx", "twice"}, {"a", "äöü", "letters"},
		{"b", "y", ""}, {"b", "", "values"}, {"c", "anything", ""},
	} {
		// Only a table of one version keeps its compiled expressions.
		for _, one := range []Table{table, table.At("1.0.0")} {
			if got := one.Refusal(File, tc[0], tc[1]); got != tc[2] {
				t.Errorf("%s=%q: %q, want %q", tc[0], tc[1], got, tc[2])
			}
		}
	}
}

// A plan asks the table about each PersistentVolume of a cluster.
func TestATableOfOneVersionCompilesItsExpressionsOnce(t *testing.T) {
	table := Table{{Of: File, Name: "a", Match: "x*", Except: "xx", Why: "letters"}}.At("1.0.0")
	table.Refusal(File, "a", "x")
	if again := testing.AllocsPerRun(10, func() { table.Refusal(File, "a", "x") }); again > 0 {
		t.Errorf("each value costs %v allocations", again)
	}
}

func TestAddressesThatProgramsCanNotReadAreRefused(t *testing.T) {
	for text, want := range map[string]bool{
		"http://proxy.example:3128": true, "https://u:p%40ss@10.0.0.1": true, "proxy.example:3128": true, "socks5://[2001:db8::1]:1080": true,
		"http://u:pa$$@proxy": true, "http://u:%zz@proxy": false, "http://proxy example": false, "http://": false, "http://a\nb": false, "ftp://a": false, " ": false,
	} {
		if got := IsProxy(text); got != want {
			t.Errorf("proxy %q: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"https://ec2.example": true, "https://ec2.example:8443/path/": true, "https://": false, "https://a b": false, "https://u:p@a": false,
		"https://a?b=c": false, "https://a#b": false, "https://a#": false, "http://a": false, "https://x%zz": false, "https://a/\n": false,
	} {
		if got := IsURL(text); got != want {
			t.Errorf("URL %q: %v", text, got)
		}
	}
}
