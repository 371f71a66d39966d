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

	"github.com/csi-operators/csi-operators/test/env"
)

// otherDriver is a CSI driver that is none of the operator's business.
const otherDriver = "foreign.example.com"

// Scenario is a control plane to measure on.
type Scenario struct {
	Nodes        int `json:"nodes"`
	OtherVolumes int `json:"foreignVolumes"`
}

// String is the head of a column.
func (s Scenario) String() string {
	if s.OtherVolumes == 0 {
		return fmt.Sprintf("%d nodes", s.Nodes)
	}
	return fmt.Sprintf("%d nodes, %d PVs", s.Nodes, s.OtherVolumes)
}

// parseScenarios pairs the numbers of nodes with those of volumes; volumes that are not given are 0.
func parseScenarios(nodes, volumes string) ([]Scenario, error) {
	if isNone(nodes) {
		return nil, nil
	}
	nodeCounts, err := parseCounts("-nodes", nodes, 1)
	if err != nil {
		return nil, err
	}
	volumeCounts, err := parseCounts("-volumes", volumes, 0)
	if err != nil {
		return nil, err
	}
	if len(volumeCounts) > len(nodeCounts) {
		return nil, fmt.Errorf("-volumes %s has more numbers than -nodes %s: give one for each control plane", volumes, nodes)
	}
	scenarios := make([]Scenario, len(nodeCounts))
	for i, count := range nodeCounts {
		scenarios[i].Nodes = count
		if i < len(volumeCounts) {
			scenarios[i].OtherVolumes = volumeCounts[i]
		}
	}
	return scenarios, nil
}

// isNone reports whether a list of numbers asks for nothing to be measured.
func isNone(list string) bool { return list == "" || list == "0" }

func parseCounts(flag, list string, least int) ([]int, error) {
	var counts []int
	for text := range strings.SplitSeq(list, ",") {
		count, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || count < least {
			return nil, fmt.Errorf("%s %q: %q is no number of at least %d; separate numbers by commas", flag, list, text, least)
		}
		counts = append(counts, count)
	}
	return counts, nil
}

// run measures the operators one after the other on one control plane. What was measured before an error is returned
// with it.
func (s Scenario) run(ctx context.Context, operators []contestant, settings settings) (report ScenarioReport, version string, failure error) {
	report.Scenario = s
	cluster, version, err := startCluster(ctx, s.String(), s.Nodes)
	if err != nil {
		return report, version, err
	}
	defer func() { failure = errors.Join(failure, cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := createVolumes(ctx, cluster, s.OtherVolumes); err != nil {
		return report, version, err
	}
	before, err := restingState(ctx, cluster)
	if err != nil {
		return report, version, err
	}
	say("%s: warming up", s)
	if _, err := measure(ctx, cluster, operators[0], before, settings, warmUp()); err != nil {
		return report, version, fmt.Errorf("warming up %s: %w", s, err)
	}
	if err := clean(ctx, cluster, before); err != nil {
		return report, version, fmt.Errorf("after warming up %s: %w", s, err)
	}
	for _, operator := range operators {
		say("%s: measuring %s", s, operator.name)
		result, err := measure(ctx, cluster, operator, before, settings, steps())
		report.Results = append(report.Results, result)
		if err != nil {
			failure = errors.Join(failure, fmt.Errorf("%s on %s: %w", operator.name, s, err))
		}
		if err := clean(ctx, cluster, before); err != nil {
			return report, version, errors.Join(failure, fmt.Errorf("after %s on %s: %w", operator.name, s, err))
		}
	}
	return report, version, failure
}

// startCluster starts a control plane that has what operators need, and returns its version.
func startCluster(ctx context.Context, name string, nodes int) (cluster *env.Cluster, version string, err error) {
	say("%s: starting the control plane", name)
	cluster, err = env.Start(ctx, "--nodes", strconv.Itoa(nodes))
	if err != nil {
		return nil, "", err
	}
	version, err = kubernetesVersion(cluster)
	if err == nil {
		err = errors.Join(cluster.InstallManifests(ctx), installPeer(ctx, cluster))
	}
	if err != nil {
		return nil, version, errors.Join(err, cluster.Stop(context.WithoutCancel(ctx)))
	}
	return cluster, version, nil
}

// createVolumes makes volumes that no PVC is bound to, and waits until they are Available.
func createVolumes(ctx context.Context, cluster *env.Cluster, count int) error {
	if count == 0 {
		return nil
	}
	say("creating %d other PersistentVolumes", count)
	err := inParallel(count, func(number int) error {
		if err := cluster.Client.Create(ctx, otherVolume(number)); err != nil {
			return fmt.Errorf("create PersistentVolume %d of %d: %w", number, count, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The control plane must be done with them, or it would take time from the operators.
	done, err := within(ctx, 5*time.Minute, time.Second, func() (bool, error) { return volumesAvailable(ctx, cluster) })
	if err == nil && !done {
		err = fmt.Errorf("%d PersistentVolumes are not all Available after 5m: look at the log of kube-controller-manager", count)
	}
	return err
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
