package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the table says is what the report says. Tests that were left out by their names are not in it.
func TestTheTableSaysWhatHasPassedAndWhatDoesNotApply(t *testing.T) {
	const text = `[{"SpecReports": [
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig-node]", "Pods"], "LeafNodeType": "It", "LeafNodeText": "start", "State": "skipped"},
		{"ContainerHierarchyTexts": ["External Storage [Driver: a]", "[Testpattern: Dynamic PV (default fs)] [Slow] subPath"],
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
	if diff := cmp.Diff(want, table(reports)); diff != "" {
		t.Error(diff)
	}
}
