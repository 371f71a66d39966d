package report

import (
	"strings"
	"testing"
)

func TestWhatAReaderOfANodeMayCostIsLimited(t *testing.T) {
	good := ReaderCost{ReaderSize: ReaderSize{Mounts: 100, Processes: 1000}, Readings: 20, Milliseconds: 30, PeakKibibytes: 12 << 10}
	for name, tc := range map[string]struct {
		change func(*ReaderCost)
		want   string
	}{
		"as it is":  {func(*ReaderCost) {}, ""},
		"slow":      {func(c *ReaderCost) { c.Milliseconds = 76 }, "5.1 milli-cores of aws-efs-node-health, at most 5"},
		"too large": {func(c *ReaderCost) { c.PeakKibibytes = 16 << 10 }, "16.0 MiB of aws-efs-node-health, at most 15"},
	} {
		cost := good
		tc.change(&cost)
		err := Report{Reader: &cost}.OverBudget()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	const want = "aws-efs-node-health with 100 mounts and 1000 other processes: 30.0 ms of CPU for each of 20 readings, which is 2.0 milli-cores; 12.0 MiB at most"
	if got := good.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
