package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/bench/report"
)

// Ten times as many hosts and VMs cost no request more, as long as they are one page each.
func TestRequestsDoNotGrowWithTheVCenter(t *testing.T) {
	small, err := askVCenter(t.Context(), report.VCenterSize{Hosts: 4, VMs: 20})
	if err != nil {
		t.Fatal(err)
	}
	large, err := askVCenter(t.Context(), report.VCenterSize{Hosts: 40, VMs: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", small, large)
	if small.Requests == 0 || large.Requests > small.Requests+1 || small.IdleRequests+large.IdleRequests > 0 {
		t.Errorf("%s\n%s", small, large)
	}
	// How long it takes is for make bench.
	large.Seconds = 0
	if err := (report.Report{VCenter: large}).OverBudget(); err != nil {
		t.Error(err)
	}
}

func TestTheSizeOfAVCenterIsParsed(t *testing.T) {
	for text, want := range map[string]*report.VCenterSize{
		"200/2000": {Hosts: 200, VMs: 2000}, "0": nil, "200": nil, "0/1": nil, "1/-1": nil, "a/b": nil, "": nil, "1/2/3": nil,
	} {
		got, err := parseVCenter(text)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil || text == "0") {
			t.Errorf("%q: error %v (-want +got):\n%s", text, err, diff)
		}
	}
}
