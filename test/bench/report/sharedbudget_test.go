package report

import (
	"strings"
	"testing"
)

// sharedOurs is 300 SharedVolumes that are all within what they may cost.
func sharedOurs() (SharedReport, *Round) {
	round := Round{
		Pairs:   &PairCost{Bound: ms(5000)},
		Share:   &ShareCost{Exist: ms(2900), Bound: ms(6000), Ready: ms(6500), Writes: 1200},
		Unshare: &UnshareCost{Gone: ms(4000), PeakKibibytes: 135 * 1024},
	}
	result := Result{Operator: Ours, Idle: &IdleCost{}, Rounds: []Round{round}, Remove: &RemoveCost{}}
	return SharedReport{SharedVolumes: 300, LimitSeconds: 180, Results: []Result{result}}, &result.Rounds[0]
}

func TestSharedVolumesThatCostMoreThanTheyMayAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*SharedReport, *Round)
		want   string
	}{
		"within":                {func(*SharedReport, *Round) {}, ""},
		"writes":                {func(_ *SharedReport, r *Round) { r.Share.Writes = 1230 }, "300 SharedVolumes: writes for each: 4.10, at most 4"},
		"never Ready":           {func(_ *SharedReport, r *Round) { r.Share.Ready = nil }, "not all are bound and Ready within 180 s"},
		"slow to be Ready":      {func(_ *SharedReport, r *Round) { r.Share.Ready = ms(7000) }, "after 7000 ms, 1.40 times as long as ready-made pairs"},
		"slow to be bound":      {func(_ *SharedReport, r *Round) { r.Share.Bound = ms(7500) }, "after 7500 ms, 1.50 times as long"},
		"slow to exist":         {func(_ *SharedReport, r *Round) { r.Share.Exist = ms(3000) }, "14.6 times sooner than the community"},
		"another number exists": {func(s *SharedReport, r *Round) { s.SharedVolumes, r.Share.Exist = 301, ms(3000) }, ""},
		"requests while idle":   {func(s *SharedReport, _ *Round) { s.Results[0].Idle.Requests = 1 }, "requests while idle: 1"},
		"objects left":          {func(_ *SharedReport, r *Round) { r.Unshare.ObjectsLeft = 2 }, "objects left when all are deleted: 2"},
		"leftovers":             {func(s *SharedReport, _ *Round) { s.Results[0].Remove.ObjectsLeft = []string{"Role b"} }, "after removal: [Role b]"},
		"memory":                {func(_ *SharedReport, r *Round) { r.Unshare.PeakKibibytes = 210 * 1024 }, "MiB of resident memory: 210, at most 135"},
		"memory for very many": {func(s *SharedReport, r *Round) {
			s.SharedVolumes, r.Unshare.PeakKibibytes = 10001, 210*1024
		}, ""},
		"not measured": {func(s *SharedReport, _ *Round) { s.Results[0] = Result{Operator: Ours, FailedAt: "share"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			report, round := sharedOurs()
			tc.change(&report, round)
			err := Report{Shared: []SharedReport{report}}.OverBudget()
			if tc.want == "" && err != nil {
				t.Errorf("got %v, want nothing", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTimeMayGrowInLineWithTheNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		ready *float64
		want  string
	}{
		"in line":      {ms(300000), ""},
		"faster":       {ms(325100), "each of 300 SharedVolumes takes 21.7 ms, each of 10000 takes 32.5 ms"},
		"never at all": {nil, "not all are bound and Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			few, _ := sharedOurs()
			many, round := sharedOurs()
			many.SharedVolumes, round.Share.Ready = 10000, tc.ready
			round.Pairs.Bound = ms(310000)
			err := Report{Shared: []SharedReport{few, many}}.OverBudget()
			if tc.want == "" && err != nil {
				t.Errorf("got %v, want nothing", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
