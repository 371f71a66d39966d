package report

import (
	"errors"
	"fmt"
)

// What SharedVolumes may cost. The community's operator needs 5 writes for each, and works on one at a time.
const (
	writesForEach = 4
	// ofPairs is how many times as long as ready-made pairs up to OneRound may take until they are bound and Ready.
	ofPairs = 1.3
	// soonerThanCommunity is how many times sooner than that operator's Ready the volumes and PVCs must be there.
	soonerThanCommunity = 15
	// peakMebibytes holds up to thriftyCount SharedVolumes.
	peakMebibytes = 135
	thriftyCount  = 10000
	// growth of the time is linear if each of many takes at most this many times as long as each of few.
	growth = 1.5
)

// overSharedBudget says where our operator costs more with SharedVolumes than it may.
func (r Report) overSharedBudget() error {
	var problems []error
	var least, most *SharedReport
	for i := range r.Shared {
		report := &r.Shared[i]
		for _, result := range report.Results {
			for _, problem := range report.check(result) {
				problems = append(problems, fmt.Errorf("over budget with %s: %s", report, problem))
			}
		}
		if report.oursForEach() == 0 {
			continue
		}
		if least == nil {
			least = report
		}
		most = report
	}
	if least == nil {
		return errors.Join(problems...)
	}
	if few, many := least.oursForEach(), most.oursForEach(); many > growth*few {
		problems = append(problems, fmt.Errorf("over budget: each of %d SharedVolumes takes %.1f ms, each of %d takes %.1f ms; at most %.1f times "+
			"as much is allowed", least.SharedVolumes, few, most.SharedVolumes, many, growth))
	}
	return errors.Join(problems...)
}

// oursForEach is the milliseconds until Ready that each SharedVolume takes with our operator; 0 if that is not known.
func (s SharedReport) oursForEach() float64 {
	for _, result := range s.Results {
		if share := typical(result.Rounds).Share; share != nil && share.Ready != nil {
			return s.forEach(*share.Ready)
		}
	}
	return 0
}

func (s SharedReport) check(result Result) []string {
	var problems []string
	add := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	round := typical(result.Rounds)
	if round.Share != nil {
		problems = s.checkShare(round.Share, round.Pairs.Bound)
	}
	if idle := result.Idle; idle != nil && idle.Requests > 0 {
		add("requests while idle: %d, none are allowed", idle.Requests)
	}
	if unshare := round.Unshare; unshare != nil {
		if unshare.ObjectsLeft > 0 {
			add("objects left when all are deleted: %d, none are allowed", unshare.ObjectsLeft)
		}
		if peak := float64(unshare.PeakKibibytes) / 1024; peak > peakMebibytes && s.SharedVolumes <= thriftyCount {
			add("MiB of resident memory: %.0f, at most %d", peak, peakMebibytes)
		}
	}
	if remove := result.Remove; remove != nil && len(remove.ObjectsLeft) > 0 {
		add("objects left after removal: %v", remove.ObjectsLeft)
	}
	return problems
}

func (s SharedReport) checkShare(share *ShareCost, pairs *float64) []string {
	var problems []string
	add := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	if writes := s.forEach(float64(share.Writes)); writes > writesForEach {
		add("writes for each: %.2f, at most %d", writes, writesForEach)
	}
	done := share.done()
	if done == nil {
		add("not all are bound and Ready within %.0f s", s.LimitSeconds)
	}
	if slower := times(done, pairs); slower != nil && *slower > ofPairs && s.SharedVolumes <= OneRound {
		add("bound and Ready after %.0f ms, %.2f times as long as ready-made pairs, at most %.1f times", *done, *slower, ofPairs)
	}
	if sooner := times(s.community(), share.Exist); sooner != nil && *sooner < soonerThanCommunity {
		add("PVs and PVCs exist after %.0f ms, %.1f times sooner than the community's operator says Ready, at least %d times",
			*share.Exist, *sooner, soonerThanCommunity)
	}
	return problems
}
