package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// step is a part of the proof. What it returns is what it has seen.
type step struct {
	name, title string
	// pods says that the step shows nothing on nodes that run no containers.
	pods bool
	do   func(context.Context) (string, error)
}

// steps are all, in their order.
func (p *proof) steps() []step {
	return []step{
		{"install", "Installation", false, p.install},
		{"share", "File system", false, p.makeShare},
		{"one-zone", "One Zone file system", false, p.makeOneZone},
		{"volumes", "A volume of each mode", true, p.useVolumes},
		{"shared-volume", "SharedVolume", false, p.useSharedVolume},
		{"rollout", "New node pods under a pod that writes", true, p.rollOut},
		{"upgrade", "Upgrade", false, p.upgrade},
		{"tests", "Tests", false, p.runTests},
	}
}

func names(steps []step) []string {
	var found []string
	for _, one := range steps {
		found = append(found, one.name)
	}
	return found
}

// skipError says why a step was not taken. The proof goes on.
type skipError struct{ why string }

func (e *skipError) Error() string { return e.why }

func skip(format string, values ...any) error { return &skipError{fmt.Sprintf(format, values...)} }

// choose returns the names of the steps to take.
func (p *proof) choose() ([]string, error) {
	all := names(p.steps())
	if p.chosen == "" {
		return all, nil
	}
	todo := strings.Split(p.chosen, ",")
	for _, name := range todo {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("STEPS: there is no step %q; the steps are %s", name, strings.Join(all, ","))
		}
	}
	return todo, nil
}

// result is what a line of the report says.
type result struct {
	title, outcome, seen string
	took                 time.Duration
}

// Outcomes of a step.
const (
	passed  = "passed"
	skipped = "skipped"
	failed  = "failed"
)

// take takes the steps. After a failure, it takes no other one.
func (p *proof) take(ctx context.Context, todo []string) error {
	var failure error
	for _, one := range p.steps() {
		do := p.ifMine(one.do)
		switch {
		case failure != nil:
			do = refuse("an earlier step has failed")
		case !slices.Contains(todo, one.name):
			do = refuse("STEPS= leaves it out")
		case one.pods && p.facts.simulated:
			do = refuse("a devcluster simulates the nodes, so that no container runs")
		}
		if err := p.record(ctx, one.title, do); err != nil {
			failure = fmt.Errorf("step %s: %w", one.name, err)
		}
	}
	return failure
}

func refuse(why string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", skip("%s", why) }
}

// record does something, and adds a line to the report.
func (p *proof) record(ctx context.Context, title string, do func(context.Context) (string, error)) error {
	begin := time.Now()
	seen, err := do(ctx)
	line := result{title, passed, seen, time.Since(begin)}
	if left := new(skipError); errors.As(err, &left) {
		line.outcome, line.seen, err = skipped, left.why, nil
	} else if err != nil {
		line.outcome, line.seen = failed, err.Error()
	}
	p.results = append(p.results, line)
	p.say("%s: %s. %s", line.title, line.outcome, line.seen)
	return err
}
