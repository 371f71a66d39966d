package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the table says is what the report says. Tests that were left out by their names are not in it.
func TestTheTableSaysWhatHasPassedAndWhatDoesNotApply(t *testing.T) {
	const text = `[{"SpecReports": [
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig-node]", "Pods"], "LeafNodeType": "It", "LeafNodeText": "start", "State": "skipped"},
		{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (default fs)] [Slow] subPath", ""],
			"LeafNodeType": "It", "LeafNodeText": "should support files", "State": "passed"},
		{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (ntfs)] subPath"],
			"LeafNodeType": "It", "LeafNodeText": "should support files", "State": "skipped",
			"Failure": {"Message": "Driver \"a\" doesn't support ntfs - skipping\nmore"}},
		{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (block volmode)] volumes"],
			"LeafNodeType": "It", "LeafNodeText": "should store data", "State": "timedout", "Failure": {"Message": "no pod\nmore"}},
		{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (block volmode)] volumes"],
			"LeafNodeType": "It", "LeafNodeText": "should be mounted", "State": "interrupted", "Failure": {"Message": "Interrupted by User"}}
	]}]`
	var reports []ginkgoReport
	if err := json.Unmarshal([]byte(text), &reports); err != nil {
		t.Fatal(err)
	}
	const want = `| Tests of | Passed | Failed | Not applicable |
|---|---|---|---|
| subPath | 1 | 0 | 1 |
| volumes | 0 | 1 | 0 |
| all | 1 | 1 | 1 |

Failed:

* [Testpattern: Dynamic PV (block volmode)] volumes should store data: no pod

Not applicable, with the number of tests:

* 1: Driver "a" doesn't support ntfs

Passed:

* [Testpattern: Dynamic PV (default fs)] [Slow] subPath should support files
`
	got, _ := table(reports)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const unfitted = "\nNot applicable: Driver \"a\" doesn't support ntfs\n\n* [Testpattern: Dynamic PV (ntfs)] subPath should support files\n"
	if diff := cmp.Diff(unfitted, unfit(reports)); diff != "" {
		t.Error(diff)
	}
}

// A run in which names leave out all tests, or none applies, has shown nothing.
func TestNoTestIsNoSuccess(t *testing.T) {
	const leftOut = `{"LeafNodeType": "It", "LeafNodeText": "a", "State": "skipped"}`
	const unfit = `{"LeafNodeType": "It", "LeafNodeText": "b", "State": "skipped", "Failure": {"Message": "Driver lacks it"}}`
	for _, tt := range []struct{ tests, want string }{
		{leftOut, "no test has run: 0 do not apply to the driver, and FOCUS= and SKIP= leave out all others"},
		{leftOut + "," + unfit, "no test has run: 1 do not apply to the driver, and FOCUS= and SKIP= leave out all others"},
		{unfit + `, {"LeafNodeType": "It", "LeafNodeText": "c", "State": "passed"}`, ""},
	} {
		c := &certification{folder: t.TempDir()}
		if err := os.WriteFile(c.file(reportFile), []byte(`[{"SpecReports": [`+tt.tests+`]}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := c.report()
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.tests, got, tt.want)
		}
	}
}

// Only what an earlier run has left is deleted.
func TestAFolderOfOthersIsKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(folder, "log.txt")
	for range 2 {
		if err := emptyFolder(folder); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("a file of the earlier run is left")
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(folder, mark)); err != nil {
		t.Fatal(err)
	}
	if err := emptyFolder(folder); err == nil {
		t.Error("a folder without the mark of certify was emptied")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
