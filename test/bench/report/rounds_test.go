package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATypicalRoundHasTheMediansOfTimesAndTheMostOfCosts(t *testing.T) {
	got := typical([]Round{
		{
			&PairCost{Exist: ms(5), Most: ms(6), Bound: ms(7)},
			&ShareCost{Exist: ms(10), Most: ms(15), Bound: ms(20), Ready: ms(30), Requests: 9, Writes: 8, CPUSeconds: 1, ResidentKibibytes: 50},
			&UnshareCost{Gone: ms(3), Requests: 2, Writes: 1, PeakKibibytes: 60},
		},
		{
			&PairCost{Exist: ms(4), Most: ms(8), Bound: ms(15)},
			&ShareCost{Exist: ms(11), Most: ms(14), Bound: nil, Ready: nil, Requests: 8, Writes: 9, CPUSeconds: 2, ResidentKibibytes: 40},
			&UnshareCost{Gone: nil, Requests: 3, Writes: 0, ObjectsLeft: 4, PeakKibibytes: 61},
		},
		{
			&PairCost{Exist: ms(6), Most: ms(7), Bound: ms(8)},
			&ShareCost{Exist: ms(12), Most: ms(16), Bound: ms(22), Ready: nil, Requests: 7, Writes: 7, CPUSeconds: 0.5, ResidentKibibytes: 30},
			nil, // The operator has ended.
		},
	})
	want := Round{
		&PairCost{Exist: ms(5), Most: ms(7), Bound: ms(8)},
		&ShareCost{Exist: ms(11), Most: ms(15), Bound: ms(22), Ready: nil, Requests: 9, Writes: 9, CPUSeconds: 2, ResidentKibibytes: 50},
		// The later of two.
		&UnshareCost{Gone: nil, Requests: 3, Writes: 1, ObjectsLeft: 4, PeakKibibytes: 61},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNoRoundIsTypicalOfNone(t *testing.T) {
	if diff := cmp.Diff(Round{}, typical(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
