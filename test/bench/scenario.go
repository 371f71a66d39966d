package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// otherDriver is a CSI driver that is none of the operator's business.
const otherDriver = "foreign.example.com"

// scenario is a control plane to measure on.
type scenario struct{ report.Scenario }

// parseScenarios reads NODES[/OTHER PVs[/PVs of EFS[/SharedVolumes]]], separated by commas.
func parseScenarios(list string) ([]scenario, error) {
	if isNone(list) {
		return nil, nil
	}
	var scenarios []scenario
	for text := range strings.SplitSeq(list, ",") {
		var one scenario
		fields := []*int{&one.Nodes, &one.OtherVolumes, &one.Volumes, &one.Shares}
		parts := strings.Split(strings.TrimSpace(text), "/")
		if len(parts) > len(fields) {
			return nil, fmt.Errorf("-nodes %q: %q has more than %d numbers", list, text, len(fields))
		}
		for i, part := range parts {
			count, err := strconv.Atoi(part)
			if err != nil || count < 0 {
				return nil, fmt.Errorf("-nodes %q: %q is no number", list, part)
			}
			*fields[i] = count
		}
		if one.Nodes < 1 {
			return nil, fmt.Errorf("-nodes %q: %q has no node", list, text)
		}
		scenarios = append(scenarios, one)
	}
	return scenarios, nil
}

// isNone reports whether a list of numbers asks for nothing to be measured.
func isNone(list string) bool { return list == "" || list == "0" }

// run measures the operator on one control plane. What was measured before an error is returned with it.
func (s scenario) run(ctx context.Context, settings settings) (found report.ScenarioReport, version string, failure error) {
	found.Scenario = s.Scenario
	cluster, version, err := startCluster(ctx, s.String(), s.Nodes)
	if err != nil {
		return found, version, err
	}
	defer func() { failure = errors.Join(failure, cluster.Stop(context.WithoutCancel(ctx))) }()
	settings.asks = asksForDriver
	settings.limit += time.Duration(s.Shares) * patienceForEach / 10
	if s.Volumes > 0 {
		if settings.cloud, err = startCloud(ctx, s.Volumes); err != nil {
			return found, version, err
		}
		defer settings.cloud.stop()
	}
	if err := errors.Join(createNamespaces(ctx, cluster, s.Shares), s.createVolumes(ctx, cluster, settings.cloud)); err != nil {
		return found, version, err
	}
	before, err := restingState(ctx, cluster)
	if err != nil {
		return found, version, err
	}
	say("%s: warming up", s)
	if _, err := measure(ctx, cluster, before, settings, warmUp()); err != nil {
		return found, version, fmt.Errorf("warming up %s: %w", s, err)
	}
	if err := clean(ctx, cluster, before); err != nil {
		return found, version, fmt.Errorf("after warming up %s: %w", s, err)
	}
	say("%s: measuring", s)
	result, err := measure(ctx, cluster, before, settings, s.steps())
	found.Results = append(found.Results, result)
	if err != nil {
		failure = fmt.Errorf("on %s: %w", s, err)
	}
	return found, version, failure
}

// startCluster starts a control plane that has what the operator needs, and returns its version.
func startCluster(ctx context.Context, name string, nodes int) (cluster *env.Cluster, version string, err error) {
	say("%s: starting the control plane", name)
	cluster, err = env.Start(ctx, "--nodes", strconv.Itoa(nodes))
	if err != nil {
		return nil, "", err
	}
	version, err = kubernetesVersion(cluster)
	if err == nil {
		// Without credentials the operator would say so after two minutes, when it is to be idle.
		credentials := env.KeySecret(env.CloudSecret, "AKIABENCH", "made-up")
		err = errors.Join(cluster.InstallManifests(ctx), create(ctx, cluster, credentials))
	}
	if err != nil {
		return nil, version, errors.Join(err, cluster.Stop(context.WithoutCancel(ctx)))
	}
	return cluster, version, nil
}

// steps are the whole trial.
func (s scenario) steps() []step {
	all := []step{{"start", (*trial).start}, {"converge", (*trial).converge}}
	if s.Shares > 0 {
		all = append(all, step{"share", func(t *trial, ctx context.Context) error {
			t.result.Rounds = append(t.result.Rounds, report.Round{})
			return t.share(ctx, s.Shares)
		}})
	}
	all = append(all, step{"idle", (*trial).idleTime}, step{"change", (*trial).change}, step{"repair", (*trial).repair})
	if s.Shares > 0 {
		all = append(all, step{"unshare", func(t *trial, ctx context.Context) error { return t.unshare(ctx, s.Shares) }})
	}
	return append(all, step{"remove", (*trial).remove})
}

// createVolumes makes volumes that no PVC is bound to, and waits until they are Available.
func (s scenario) createVolumes(ctx context.Context, cluster *env.Cluster, cloud *cloud) error {
	count := s.OtherVolumes + s.Volumes
	if count == 0 {
		return nil
	}
	say("creating %d PersistentVolumes", count)
	err := inParallel(count, func(number int) error {
		volume := otherVolume(number)
		if number >= s.OtherVolumes {
			volume = cloud.inEFS(number - s.OtherVolumes)
		}
		return create(ctx, cluster, volume)
	})
	if err != nil {
		return err
	}
	// The control plane must be done with them, or it would take time from the operator.
	done, err := within(ctx, 5*time.Minute, time.Second, func() (bool, error) { return volumesAvailable(ctx, cluster) })
	if err == nil && !done {
		err = fmt.Errorf("%d PersistentVolumes are not all Available after 5m: look at the log of kube-controller-manager", count)
	}
	return err
}

// createNamespaces makes those of SharedVolumes, if there are to be any.
func createNamespaces(ctx context.Context, cluster *env.Cluster, shares int) error {
	for number := range min(shares, sharedNamespaces) {
		if err := create(ctx, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shareKey(number).Namespace}}); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls a function for each number below count, as 20 clients would. A client ends with its first failure.
func inParallel(count int, do func(number int) error) error {
	const clients = 20
	failures := make([]error, clients)
	var next atomic.Int64
	var group sync.WaitGroup
	for one := range clients {
		group.Go(func() {
			for failures[one] == nil {
				number := int(next.Add(1)) - 1
				if number >= count {
					return
				}
				failures[one] = do(number)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func volumesAvailable(ctx context.Context, cluster *env.Cluster) (bool, error) {
	volumes := &corev1.PersistentVolumeList{}
	if err := cluster.Client.List(ctx, volumes); err != nil {
		return false, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	for i := range volumes.Items {
		if volumes.Items[i].Status.Phase != corev1.VolumeAvailable {
			return false, nil
		}
	}
	return true, nil
}

func otherVolume(number int) *corev1.PersistentVolume {
	name := fmt.Sprintf("foreign-%05d", number)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              "foreign",
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: otherDriver, VolumeHandle: name},
			},
		},
	}
}

// restingState is the cluster without an operator, once nothing in it comes or goes any more.
func restingState(ctx context.Context, cluster *env.Cluster) (env.Snapshot, error) {
	state, err := cluster.Take(ctx)
	if err != nil {
		return nil, err
	}
	for range 60 {
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
		later, err := cluster.Take(ctx)
		if err != nil {
			return nil, err
		}
		if state.Differs(later) == nil {
			return state, nil
		}
		state = later
	}
	return nil, errors.New("objects come and go in the cluster although no operator runs: look for what makes them")
}

// pause waits for a time that is measured, or until ctx ends.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// say prints how far the bench is; the table alone goes to standard output.
func say(format string, values ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "bench: "+format+"\n", values...)
}
