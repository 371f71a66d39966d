package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func writeShare(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "share.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A test that Kubernetes has renamed must not vanish from CI unnoticed.
func TestAShareIsExactlyWhatRuns(t *testing.T) {
	file := writeShare(t, "# Why.\n\n[Testpattern: Dynamic PV (default fs)] volumes should store data\n[Testpattern: Dynamic PV (ext4)] volumes should store data\n")
	list, err := readShare(file)
	if err != nil {
		t.Fatal(err)
	}
	const first = `{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (default fs)] volumes"],
		"LeafNodeType": "It", "LeafNodeText": "should store data", "State": "passed"}`
	second := func(state, message string) string {
		return `{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (ext4)] volumes"],
			"LeafNodeType": "It", "LeafNodeText": "should store data", "State": "` + state + `", "Failure": {"Message": "` + message + `"}}`
	}
	const other = `{"LeafNodeType": "It", "LeafNodeText": "other", "State": "passed"}`
	const name = "[Testpattern: Dynamic PV (ext4)] volumes should store data"
	for _, tt := range []struct{ reports, want string }{
		{first + "," + second("passed", ""), ""},
		{first + "," + second("failed", "no pod"), ""},
		{first + "," + second("skipped", `Driver lacks ext4 - skipping`), file + ": this test does not apply (Driver lacks ext4): " + name},
		{first + "," + second("skipped", ""), file + ": the suite has no such test, or leaves it out: " + name},
		{first, file + ": the suite has no such test, or leaves it out: " + name},
		{first + "," + second("passed", "") + "," + other, file + ": 3 tests have run, and the list has 2"},
	} {
		var reports []ginkgoReport
		if err := json.Unmarshal([]byte(`[{"SpecReports": [`+tt.reports+`]}]`), &reports); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := list.compare(reports); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.reports, got, tt.want)
		}
	}
}

// The suite chooses tests by an expression over their whole names.
func TestAShareChoosesNoOtherTest(t *testing.T) {
	list, err := readShare(writeShare(t, "[Testpattern: Dynamic PV (default fs)] volumes should store data"))
	if err != nil {
		t.Fatal(err)
	}
	focus := regexp.MustCompile(list.focus())
	for name, want := range map[string]bool{
		"External Storage [Driver: a.b] [Testpattern: Dynamic PV (default fs)] volumes should store data":              true,
		"External Storage [Driver: a.b] [Testpattern: Dynamic PV (default fs)] volumes should store data twice":        false,
		"External Storage [Driver: a.b] [Testpattern: Dynamic PV (default fs)] [Slow] volumes should store data":       false,
		"External Storage [Driver: a.b] [Testpattern: Dynamic PV (block volmode)] volumes should store data":           false,
		"CSI Volumes [Driver: a.b] External [Testpattern: Dynamic PV (default fs)] volumes should store data [Serial]": false,
	} {
		if got := focus.MatchString(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestAShareWithoutSenseIsRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"# Nothing.\n\n", " has no name"},
		{"a\nb\na\n", " has this name twice: a"},
	} {
		file := writeShare(t, tt.text)
		if _, err := readShare(file); err == nil || err.Error() != "list of tests: "+file+tt.want {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
