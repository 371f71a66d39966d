package report

import (
	"cmp"
	"slices"
)

// typical is the medians of the times of all rounds and the most of what else they took.
func typical(rounds []Round) Round {
	var pairs []*PairCost
	var shares []*ShareCost
	var unshares []*UnshareCost
	for _, round := range rounds {
		pairs, shares, unshares = append(pairs, round.Pairs), append(shares, round.Share), append(unshares, round.Unshare)
	}
	return Round{Pairs: typicalPairs(pairs), Share: typicalShare(shares), Unshare: typicalUnshare(unshares)}
}

func typicalPairs(all []*PairCost) *PairCost {
	all = measured(all)
	if len(all) == 0 {
		return nil
	}
	return &PairCost{
		Exist: middle(all, func(p *PairCost) *float64 { return p.Exist }),
		Most:  middle(all, func(p *PairCost) *float64 { return p.Most }),
		Bound: middle(all, func(p *PairCost) *float64 { return p.Bound }),
	}
}

func typicalShare(all []*ShareCost) *ShareCost {
	all = measured(all)
	if len(all) == 0 {
		return nil
	}
	return &ShareCost{
		Exist:             middle(all, func(s *ShareCost) *float64 { return s.Exist }),
		Most:              middle(all, func(s *ShareCost) *float64 { return s.Most }),
		Bound:             middle(all, func(s *ShareCost) *float64 { return s.Bound }),
		Ready:             middle(all, func(s *ShareCost) *float64 { return s.Ready }),
		Requests:          greatest(all, func(s *ShareCost) int { return s.Requests }),
		Writes:            greatest(all, func(s *ShareCost) int { return s.Writes }),
		CPUSeconds:        greatest(all, func(s *ShareCost) float64 { return s.CPUSeconds }),
		ResidentKibibytes: greatest(all, func(s *ShareCost) int { return s.ResidentKibibytes }),
	}
}

func typicalUnshare(all []*UnshareCost) *UnshareCost {
	all = measured(all)
	if len(all) == 0 {
		return nil
	}
	return &UnshareCost{
		Gone:          middle(all, func(u *UnshareCost) *float64 { return u.Gone }),
		Requests:      greatest(all, func(u *UnshareCost) int { return u.Requests }),
		Writes:        greatest(all, func(u *UnshareCost) int { return u.Writes }),
		ObjectsLeft:   greatest(all, func(u *UnshareCost) int { return u.ObjectsLeft }),
		PeakKibibytes: greatest(all, func(u *UnshareCost) int { return u.PeakKibibytes }),
	}
}

// measured leaves out what a failure has prevented.
func measured[T any](all []*T) []*T {
	return slices.DeleteFunc(all, func(one *T) bool { return one == nil })
}

// middle is the median, and the later of the two in the middle if there are two. What did not happen, nil, is later than all.
func middle[T any](all []*T, when func(*T) *float64) *float64 {
	var happened []float64
	for _, one := range all {
		if at := when(one); at != nil {
			happened = append(happened, *at)
		}
	}
	slices.Sort(happened)
	if place := len(all) / 2; place < len(happened) {
		return &happened[place]
	}
	return nil
}

func greatest[T any, N cmp.Ordered](all []*T, figure func(*T) N) N {
	most := figure(all[0])
	for _, one := range all {
		most = max(most, figure(one))
	}
	return most
}
