package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// sharedNodes is the number of nodes of a control plane for SharedVolumes. They have no part in it.
	sharedNodes = 6
	// sharedNamespaces is over how many namespaces the SharedVolumes are spread.
	sharedNamespaces = 10
	// warmUpCount is how many SharedVolumes fill the caches of the control plane.
	warmUpCount = 50
	// waits is the step before anything is made.
	waits = "wait for kube-controller-manager"
	// patienceForEach is what each SharedVolume adds to the limit. The community's operator needs 146 ms.
	patienceForEach = 200 * time.Millisecond
)

// sharing is a number of SharedVolumes to measure on a control plane of their own, and how many times.
type sharing struct {
	count, rounds int
}

// String is the head of a column.
func (s sharing) String() string { return report.SharedReport{SharedVolumes: s.count}.String() }

// parseShared reads the numbers of SharedVolumes, the least first. Large numbers have one round: they take minutes, in which
// chance plays a small part.
func parseShared(list string, rounds int) ([]sharing, error) {
	if isNone(list) {
		return nil, nil
	}
	if rounds < 1 {
		return nil, errors.New("-shared-rounds must be more than 0; -shared 0 measures no SharedVolumes")
	}
	var counts []int
	for text := range strings.SplitSeq(list, ",") {
		count, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || count < 1 {
			return nil, fmt.Errorf("-shared %q: %q is no number of at least 1; separate numbers by commas", list, text)
		}
		counts = append(counts, count)
	}
	slices.Sort(counts)
	var parsed []sharing
	for _, count := range slices.Compact(counts) {
		if count > report.OneRound {
			rounds = 1
		}
		parsed = append(parsed, sharing{count, rounds})
	}
	return parsed, nil
}

// run measures the operator on one control plane. What was measured before an error is returned with it.
func (s sharing) run(ctx context.Context, settings settings) (found report.SharedReport, version string, failure error) {
	settings.asks = asksForVolumes
	settings.limit += time.Duration(s.count) * patienceForEach
	found = report.SharedReport{SharedVolumes: s.count, LimitSeconds: settings.limit.Seconds()}
	cluster, version, err := startCluster(ctx, s.String(), sharedNodes)
	if err != nil {
		return found, version, err
	}
	defer func() { failure = errors.Join(failure, cluster.Stop(context.WithoutCancel(ctx))) }()
	before, err := s.prepare(ctx, cluster, settings)
	if err != nil {
		return found, version, err
	}
	say("%s: measuring", s)
	result, err := measure(ctx, cluster, before, settings, s.steps())
	found.Results = append(found.Results, result)
	if err != nil {
		failure = fmt.Errorf("with %s: %w", s, err)
	}
	return found, version, failure
}

// prepare makes the namespaces and warms the control plane up.
func (s sharing) prepare(ctx context.Context, cluster *env.Cluster, settings settings) (env.Snapshot, error) {
	if err := createNamespaces(ctx, cluster, sharedNamespaces); err != nil {
		return nil, err
	}
	before, err := restingState(ctx, cluster)
	if err != nil {
		return nil, err
	}
	say("%s: warming up", s)
	few := sharing{min(s.count, warmUpCount), 1}
	steps := slices.DeleteFunc(few.steps(), func(s step) bool { return s.name == waits || s.name == "idle" })
	if _, err := measure(ctx, cluster, before, settings, steps); err != nil {
		return nil, fmt.Errorf("warming up %s: %w", s, err)
	}
	if err := clean(ctx, cluster, before); err != nil {
		return nil, fmt.Errorf("after warming up %s: %w", s, err)
	}
	return before, nil
}

// steps are the whole trial. The driver is installed meanwhile, as it is where SharedVolumes are of use.
func (s sharing) steps() []step {
	steps := []step{{"start", (*trial).start}, {"converge", (*trial).converge}}
	look := step{waits, func(t *trial, ctx context.Context) error { return awaitLook(ctx, t.cluster, t.limit) }}
	for round := range s.rounds {
		steps = append(steps,
			look, step{"ready-made pairs", func(t *trial, ctx context.Context) error { return t.pairs(ctx, s.count) }},
			look, step{"share", func(t *trial, ctx context.Context) error { return t.share(ctx, s.count) }},
		)
		if round == 0 {
			steps = append(steps, step{"idle", (*trial).idleTime})
		}
		steps = append(steps, step{"unshare", func(t *trial, ctx context.Context) error { return t.unshare(ctx, s.count) }})
	}
	return append(steps, step{"remove", (*trial).remove})
}

// shareKey names a SharedVolume.
func shareKey(number int) client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("bench-%d", number%sharedNamespaces), Name: fmt.Sprintf("data-%05d", number)}
}

// plainVolume names the volume of a SharedVolume as the community's operator does. Other names are known by the PVC that a volume names.
func plainVolume(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Name: "pv-" + namespace + "-" + name}
}

// shareKeys names SharedVolumes, and the PersistentVolumes and PVCs that they become.
func shareKeys(count int) (shares, volumes, pvcs []client.ObjectKey) {
	for number := range count {
		key := shareKey(number)
		shares = append(shares, key)
		volumes = append(volumes, plainVolume(key.Namespace, key.Name))
		pvcs = append(pvcs, client.ObjectKey{Namespace: key.Namespace, Name: "pvc-" + key.Name})
	}
	return shares, volumes, pvcs
}
