package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/bench/report"
)

func TestScenariosAreReadFromNumbers(t *testing.T) {
	got, err := parseScenarios("12, 500/10000,3/0/7,1000/1/2/3")
	if err != nil {
		t.Fatal(err)
	}
	want := []scenario{
		{report.Scenario{Nodes: 12}}, {report.Scenario{Nodes: 500, OtherVolumes: 10000}}, {report.Scenario{Nodes: 3, Volumes: 7}},
		{report.Scenario{Nodes: 1000, OtherVolumes: 1, Volumes: 2, Shares: 3}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if head := got[3].String(); head != "1000 nodes, 1 foreign PVs, 2 PVs of EFS, 3 SharedVolumes" {
		t.Errorf("the head of the column is %q", head)
	}
}

func TestScenariosThatMakeNoSenseAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ nodes, want string }{
		"no number":        {"many", `"many" is no number`},
		"no node":          {"12,0", `"0" has no node`},
		"negative volumes": {"12/-1", `"-1" is no number`},
		"too many numbers": {"12/0/1/2/3", "more than 4 numbers"},
		"nothing":          {"12,", `"" is no number`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseScenarios(test.nodes)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
