package main

import (
	"context"
	"fmt"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
)

// change has the driver log more, which replaces all its pods, and waits until that is done and the operator falls silent.
func (t *trial) change(ctx context.Context) error {
	first, err := t.mark()
	if err != nil {
		return err
	}
	before, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.cluster.Client.Patch(ctx, env.EFS(""), env.Merge(`{"spec":{"logLevel":"Debug"}}`)); err != nil {
		return fmt.Errorf("change the log level of the driver: %w", err)
	}
	// The workloads are as before until the operator has written them.
	_, err = t.within(ctx, 20*time.Millisecond, func() (bool, error) {
		err := t.requests.read()
		return len(env.Filter(t.requests.work(first), isWorkload)) > 0, err
	})
	if err != nil {
		return err
	}
	since, _, err := t.awaitSilence(ctx)
	if err != nil {
		return err
	}
	after, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	work := t.requests.work(first)
	cost := &ChangeCost{
		Requests: len(work), Writes: len(env.Filter(work, env.Request.IsWrite)), CPUSeconds: after.cpuSeconds - before.cpuSeconds,
		ResidentKibibytes: after.residentKibibytes,
	}
	if !since.IsZero() {
		cost.RolledOut = between(began, since)
	}
	t.result.Change = cost
	return nil
}
