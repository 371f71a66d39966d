package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

const (
	// communityCount SharedVolumes took the community's operator this long until all were Ready, when it was measured once, on
	// two cores.
	communityCount        = 300
	communityMilliseconds = 43700
)

// SharedReport is what was measured with a number of SharedVolumes on one control plane.
type SharedReport struct {
	SharedVolumes int      `json:"count"`
	LimitSeconds  float64  `json:"limitSeconds"`
	Results       []Result `json:"results"`
}

// String is the head of a column.
func (s SharedReport) String() string { return fmt.Sprintf("%d SharedVolumes", s.SharedVolumes) }

// Round is SharedVolumes from the first that is created until the last has gone, after as many ready-made pairs.
type Round struct {
	Pairs   *PairCost    `json:"readyMadePairs"`
	Share   *ShareCost   `json:"share"`
	Unshare *UnshareCost `json:"unshare"`
}

// PairCost is the time from the creation of the first of as many ready-made pairs of PersistentVolume and PVC, until all
// exist, until kube-controller-manager has bound 19 of 20 PVCs, and until it has bound all.
type PairCost struct {
	Exist *float64 `json:"existMilliseconds"`
	Most  *float64 `json:"mostBoundMilliseconds"`
	Bound *float64 `json:"boundMilliseconds"`
}

// ShareCost is the time from the creation of the first SharedVolume until all are Ready and the operator is quiet.
type ShareCost struct {
	// Exist is when all volumes and PVCs existed, Most when 19 of 20 PVCs were bound, Bound when all were, Ready when all
	// SharedVolumes said so.
	Exist    *float64 `json:"existMilliseconds"`
	Most     *float64 `json:"mostBoundMilliseconds"`
	Bound    *float64 `json:"boundMilliseconds"`
	Ready    *float64 `json:"readyMilliseconds"`
	Requests int      `json:"requests"`
	Writes   int      `json:"writes"`
	// WriteKinds counts the writes by verb and resource.
	WriteKinds        map[string]int `json:"writeKinds"`
	CPUSeconds        float64        `json:"cpuSeconds"`
	ResidentKibibytes int            `json:"residentKibibytes"`
}

// UnshareCost is the time from the first deletion of a SharedVolume until all have gone, with their PVCs and volumes.
type UnshareCost struct {
	Gone       *float64       `json:"goneMilliseconds"`
	Requests   int            `json:"requests"`
	Writes     int            `json:"writes"`
	WriteKinds map[string]int `json:"writeKinds"`
	// ObjectsLeft counts SharedVolumes, PVCs and volumes.
	ObjectsLeft   int `json:"objectsLeft"`
	PeakKibibytes int `json:"peakResidentKibibytes"`
}

// done is when all PVCs were bound and all SharedVolumes Ready; nil if that was not within the limit.
func (s *ShareCost) done() *float64 {
	if s.Bound == nil || s.Ready == nil {
		return nil
	}
	later := max(*s.Bound, *s.Ready)
	return &later
}

// community is when the community's operator has all SharedVolumes Ready; nil if that is not known for this number.
func (s SharedReport) community() *float64 {
	if s.SharedVolumes != communityCount {
		return nil
	}
	return new(float64(communityMilliseconds))
}

// forEach divides among the SharedVolumes.
func (s SharedReport) forEach(total float64) float64 { return total / float64(s.SharedVolumes) }

// sharedColumn is the operator with a number of SharedVolumes, in a typical round.
type sharedColumn struct {
	SharedReport
	Result
	Round
}

// writeShared writes the table of SharedVolumes.
func writeShared(table io.Writer, reports []SharedReport) {
	var counts []string
	var columns []sharedColumn
	compared := false
	for _, report := range reports {
		for _, result := range report.Results {
			counts, columns = append(counts, report.String()), append(columns, sharedColumn{report, result, typical(result.Rounds)})
		}
		compared = compared || report.community() != nil
	}
	writeLines(table, counts, columns, slices.Concat(shareLines(), shareCostLines(), unshareLines()))
	if compared {
		_, _ = fmt.Fprintf(table, "* The community's operator took %.1f s for %d, when it was measured once, on two cores.\n",
			communityMilliseconds/1000.0, communityCount)
	}
}

func shareLines() []line[sharedColumn] {
	pairs := func(when func(*PairCost) *float64) func(sharedColumn) string {
		return func(c sharedColumn) string {
			return known(c.Pairs, func(p *PairCost) string { return duration(when(p), notWithin(c.LimitSeconds)) })
		}
	}
	share := func(when func(*ShareCost) *float64) func(sharedColumn) string {
		return func(c sharedColumn) string {
			return known(c.Share, func(s *ShareCost) string { return duration(when(s), notWithin(c.LimitSeconds)) })
		}
	}
	return []line[sharedColumn]{
		{"rounds", func(c sharedColumn) string { return strconv.Itoa(len(c.Rounds)) }},
		{"ready-made pairs bound after", pairs(func(p *PairCost) *float64 { return p.Bound })},
		{"  19 of 20 of them", pairs(func(p *PairCost) *float64 { return p.Most })},
		{"PVs and PVCs exist after", share(func(s *ShareCost) *float64 { return s.Exist })},
		{"  sooner than the community's Ready", func(c sharedColumn) string {
			return known(c.Share, func(s *ShareCost) string {
				text := factor(times(c.community(), s.Exist))
				if c.community() != nil {
					text += " *"
				}
				return text
			})
		}},
		{"PVCs bound after", share(func(s *ShareCost) *float64 { return s.Bound })},
		{"  19 of 20 of them", share(func(s *ShareCost) *float64 { return s.Most })},
		{"SharedVolumes Ready after", share(func(s *ShareCost) *float64 { return s.Ready })},
		{"  bound and Ready, to ready-made pairs", func(c sharedColumn) string {
			return known(c.Share, func(s *ShareCost) string { return factor(times(s.done(), c.Pairs.Bound)) })
		}},
	}
}

func shareCostLines() []line[sharedColumn] {
	cell := func(show func(sharedColumn, *ShareCost) string) func(sharedColumn) string {
		return func(c sharedColumn) string {
			return known(c.Share, func(s *ShareCost) string { return show(c, s) })
		}
	}
	return []line[sharedColumn]{
		{"  for each", cell(func(c sharedColumn, s *ShareCost) string {
			if s.Ready == nil {
				return "not known"
			}
			return milliseconds(c.forEach(*s.Ready))
		})},
		{"writes for each", cell(func(c sharedColumn, s *ShareCost) string { return fmt.Sprintf("%.2f", c.forEach(float64(s.Writes))) })},
		{"requests for each", cell(func(c sharedColumn, s *ShareCost) string { return fmt.Sprintf("%.2f", c.forEach(float64(s.Requests))) })},
		{"CPU for each", cell(func(c sharedColumn, s *ShareCost) string { return milliseconds(c.forEach(1000 * s.CPUSeconds)) })},
		{"memory when Ready", cell(func(_ sharedColumn, s *ShareCost) string { return mebibytes(s.ResidentKibibytes) })},
		{"requests per idle minute", func(c sharedColumn) string {
			return known(c.Idle, func(i *IdleCost) string { return i.perMinute(float64(i.Requests)) })
		}},
	}
}

func unshareLines() []line[sharedColumn] {
	cell := func(show func(sharedColumn, *UnshareCost) string) func(sharedColumn) string {
		return func(c sharedColumn) string {
			return known(c.Unshare, func(u *UnshareCost) string { return show(c, u) })
		}
	}
	return []line[sharedColumn]{
		{"all deleted: gone after", cell(func(c sharedColumn, u *UnshareCost) string { return duration(u.Gone, notWithin(c.LimitSeconds)) })},
		{"  writes for each", cell(func(c sharedColumn, u *UnshareCost) string { return fmt.Sprintf("%.2f", c.forEach(float64(u.Writes))) })},
		{"  requests for each", cell(func(c sharedColumn, u *UnshareCost) string {
			return fmt.Sprintf("%.2f", c.forEach(float64(u.Requests)))
		})},
		{"  objects left", cell(func(_ sharedColumn, u *UnshareCost) string { return strconv.Itoa(u.ObjectsLeft) })},
		{"peak memory", cell(func(_ sharedColumn, u *UnshareCost) string { return mebibytes(u.PeakKibibytes) })},
	}
}

// times is how many times as long one time is as another; nil if one of them is not known.
func times(long, short *float64) *float64 {
	if long == nil || short == nil || *short == 0 {
		return nil
	}
	result := *long / *short
	return &result
}

func factor(value *float64) string {
	if value == nil {
		return "not known"
	}
	return fmt.Sprintf("%.2f times", *value)
}
