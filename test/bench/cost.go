package main

import (
	"github.com/csi-operators/csi-operators/test/env"
)

// cost is what the operator has needed for a step: all its requests, those that are neither of the lease nor watches, and those that write.
type cost struct {
	all, work, writes []env.Request
	// usage is that at the end, but for the CPU time, which is that of the step.
	usage
}

// costOf does something, and says what the operator has needed meanwhile. Do reads the audit log at its end.
func (t *trial) costOf(do func() error) (cost, error) {
	if err := t.requests.read(); err != nil {
		return cost{}, err
	}
	first := len(t.requests.seen)
	before, err := usageOf(t.operator.PID())
	if err != nil {
		return cost{}, err
	}
	if err := do(); err != nil {
		return cost{}, err
	}
	needed := cost{all: t.requests.seen[first:], work: t.requests.work(first)}
	needed.writes = env.Filter(needed.work, env.Request.IsWrite)
	if needed.usage, err = usageOf(t.operator.PID()); err != nil {
		return cost{}, err
	}
	needed.cpuSeconds -= before.cpuSeconds
	return needed, nil
}
