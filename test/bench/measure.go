package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// settings hold for a scenario.
type settings struct {
	// idle is how long nothing is done; limit, how long anything may take.
	idle, limit time.Duration
	// quiet is how long an operator makes no request, but of its lease and watches, until it counts as settled.
	quiet time.Duration
	// asks is the resource that the operator asks for once it works.
	asks string
	// cloud is what the operator takes for AWS; nil if it has no credentials.
	cloud *cloud
}

// What the operator asks for once it works.
const (
	asksForDriver  = "clustercsidrivers"
	asksForVolumes = "sharedvolumes"
)

// trial is the operator on one control plane.
type trial struct {
	settings
	cluster  *env.Cluster
	operator *env.Operator
	before   env.Snapshot
	requests *journal
	result   *report.Result
}

// step is one part of a trial.
type step struct {
	name string
	run  func(*trial, context.Context) error
}

// warmUp is what is not measured: it fills the caches of the control plane.
func warmUp() []step {
	return []step{{"start", (*trial).start}, {"converge", (*trial).converge}, {"remove", (*trial).remove}}
}

// measure starts the operator, takes it through the steps, and stops it. What was measured before an error is returned
// with it.
func measure(
	ctx context.Context, cluster *env.Cluster, before env.Snapshot, settings settings, steps []step,
) (result report.Result, failure error) {
	result = report.Result{Operator: report.Ours, FailedAt: "start"}
	mark, err := cluster.Audit.Now()
	if err != nil {
		return result, err
	}
	operator, err := start(ctx, cluster, settings.cloud)
	if err != nil {
		return result, err
	}
	defer func() { failure = errors.Join(failure, operator.Stop()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-operator.Done():
			cancel(errors.New("the operator has ended by itself"))
		case <-ctx.Done():
		}
	}()
	t := &trial{
		settings: settings, cluster: cluster, operator: operator, before: before,
		requests: &journal{audit: cluster.Audit, user: env.OperatorUser, mark: mark}, result: &result,
	}
	for _, step := range steps {
		result.FailedAt = step.name
		if err := step.run(t, ctx); err != nil {
			return result, fmt.Errorf("%s: %w\nit printed at last:\n%s", step.name, err, tail(operator.Output(), 20))
		}
	}
	result.FailedAt = ""
	return result, nil
}

// start waits until the operator has asked for what it looks after and then falls silent: its caches are full. One that
// never falls silent counts as ready when the limit is over.
func (t *trial) start(ctx context.Context) error {
	asked := func(r env.Request) bool { return r.Object.Resource == t.asks }
	_, err := t.within(ctx, 20*time.Millisecond, func() (bool, error) {
		err := t.requests.read()
		return err == nil && t.requests.any(asked) && t.requests.silent(t.quiet), err
	})
	if err != nil {
		return err
	}
	if !t.requests.any(asked) {
		return fmt.Errorf("it has not asked for %s within %s", t.asks, t.limit)
	}
	used, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	work := t.requests.work(0)
	t.result.Start = &report.StartCost{Requests: len(work), Writes: len(env.Filter(work, env.Request.IsWrite)), CPUSeconds: used.cpuSeconds}
	return nil
}

// converge creates the ClusterCSIDriver, and waits until the driver is rolled out and the operator falls silent.
func (t *trial) converge(ctx context.Context) error {
	var began, since time.Time
	var silent bool
	cost, err := t.costOf(func() (err error) {
		began = time.Now()
		if err := t.cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
			return fmt.Errorf("create the ClusterCSIDriver: %w", err)
		}
		since, silent, err = t.awaitSilence(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.result.Converge = &report.ConvergeCost{
		Requests: len(cost.work), Writes: len(cost.writes), RolledOut: until(began, since),
		CPUSeconds: cost.cpuSeconds, ResidentKibibytes: cost.residentKibibytes, PeakKibibytes: cost.peakKibibytes,
	}
	if silent && len(cost.work) > 0 {
		t.result.Converge.LastRequest = between(began, received(cost.work[len(cost.work)-1]))
	}
	return nil
}

// awaitSilence waits until the workloads are rolled out for good and the operator asks for nothing more. Since is when they were.
func (t *trial) awaitSilence(ctx context.Context) (since time.Time, silent bool, err error) {
	silent, err = t.within(ctx, 20*time.Millisecond, func() (bool, error) {
		if err := t.requests.read(); err != nil {
			return false, err
		}
		rolledOut, err := t.rolledOut(ctx)
		if err != nil {
			return false, err
		}
		if !rolledOut {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return rolledOut && time.Since(since) > t.quiet && t.requests.silent(t.quiet) && t.cloud.silent(t.quiet), nil
	})
	return since, silent, err
}

// idleTime counts what the operator does when there is nothing to do.
func (t *trial) idleTime(ctx context.Context) error {
	var took time.Duration
	asked := t.cloud.asked()
	cost, err := t.costOf(func() error {
		began := time.Now()
		err := pause(ctx, t.idle)
		took = time.Since(began)
		return errors.Join(err, t.requests.read())
	})
	if err != nil {
		return err
	}
	leases := env.Filter(cost.all, env.Request.IsLease)
	t.result.Idle = &report.IdleCost{
		Seconds: took.Seconds(), Requests: len(cost.work), Writes: len(cost.writes),
		LeaseRequests: len(leases), Watches: len(cost.all) - len(cost.work) - len(leases), CloudRequests: t.cloud.asked() - asked,
		CPUSeconds: cost.cpuSeconds, ResidentKibibytes: cost.residentKibibytes, Kinds: kindsOf(cost.work),
	}
	return nil
}

// within asks again and again until the answer is yes; it is no if that takes longer than the limit.
func (t *trial) within(ctx context.Context, every time.Duration, check func() (bool, error)) (bool, error) {
	return within(ctx, t.limit, every, check)
}

func within(ctx context.Context, limit, every time.Duration, check func() (bool, error)) (bool, error) {
	end := time.Now().Add(limit)
	for {
		yes, err := check()
		if ctx.Err() != nil {
			// Why it was ended says more than what broke then.
			return false, context.Cause(ctx)
		}
		if yes || err != nil || time.Now().After(end) {
			return yes, err
		}
		if err := pause(ctx, every); err != nil {
			return false, err
		}
	}
}

func between(began, ended time.Time) *float64 {
	took := float64(ended.Sub(began).Microseconds()) / 1000
	return &took
}

// until is the time until something happened; nil if it did not.
func until(began, happened time.Time) *float64 {
	if happened.IsZero() {
		return nil
	}
	return between(began, happened)
}
