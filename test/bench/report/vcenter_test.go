package report

import (
	"strings"
	"testing"
)

func TestWhatAVCenterMayCostIsLimited(t *testing.T) {
	good := VCenterCost{VCenterSize: VCenterSize{Hosts: 200, VMs: 2000}, FirstRequests: 13, Requests: 12, Seconds: 0.3, KeptKibibytes: 600}
	for name, tc := range map[string]struct {
		change func(*VCenterCost)
		want   string
	}{
		"as it is":           {func(*VCenterCost) {}, ""},
		"a request for each": {func(c *VCenterCost) { c.Requests = 2000 }, "2000 requests in a poll, at most 14"},
		"a login each time":  {func(c *VCenterCost) { c.FirstRequests = 21 }, "21 requests in the first poll"},
		"never idle":         {func(c *VCenterCost) { c.IdleRequests = 1 }, "1 requests between polls, at most 0"},
		"slow":               {func(c *VCenterCost) { c.Seconds = 6 }, "6 seconds for a poll"},
		"all is kept":        {func(c *VCenterCost) { c.KeptKibibytes = 5000 }, "5000 KiB kept"},
	} {
		cost := good
		tc.change(&cost)
		err := Report{VCenter: &cost}.OverBudget()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	const want = "vCenter of 200 hosts and 2000 VMs: 13 requests in the first poll, 12 in each later one, 0 between them; 0.30 s and 0.6 MiB kept"
	if got := good.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
