package main

import (
	"context"
	"fmt"
	"time"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// change has the driver log more, which replaces all its pods, and waits until that is done and the operator falls silent.
func (t *trial) change(ctx context.Context) error {
	var began, since time.Time
	cost, err := t.costOf(func() (err error) {
		first := len(t.requests.seen)
		began = time.Now()
		if err := t.cluster.Client.Patch(ctx, env.EFS(""), env.Merge(`{"spec":{"logLevel":"Debug"}}`)); err != nil {
			return fmt.Errorf("change the log level of the driver: %w", err)
		}
		// The workloads are as before until the operator has written them.
		_, err = t.within(ctx, 20*time.Millisecond, func() (bool, error) {
			err := t.requests.read()
			return len(env.Filter(t.requests.work(first), isWorkload)) > 0, err
		})
		if err == nil {
			since, _, err = t.awaitSilence(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	t.result.Change = &report.ChangeCost{
		Requests: len(cost.work), Writes: len(cost.writes), RolledOut: until(began, since), CPUSeconds: cost.cpuSeconds,
		ResidentKibibytes: cost.residentKibibytes,
	}
	return nil
}
