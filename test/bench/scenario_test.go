package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScenariosPairNodesAndVolumes(t *testing.T) {
	got, err := parseScenarios("12, 500,3", "0,10000")
	if err != nil {
		t.Fatal(err)
	}
	want := []Scenario{{Nodes: 12}, {Nodes: 500, OtherVolumes: 10000}, {Nodes: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestScenariosThatMakeNoSenseAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ nodes, volumes, want string }{
		"no number":        {"many", "0", `-nodes "many"`},
		"no node":          {"12,0", "0", `-nodes "12,0"`},
		"negative volumes": {"12", "-1", `-volumes "-1"`},
		"too many volumes": {"12", "0,1", "more numbers than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseScenarios(test.nodes, test.volumes)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
