package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// pool is SharedVolumes with what they become.
type pool struct {
	shares, volumes, pvcs *crowd
}

func (p pool) all() []*crowd { return []*crowd{p.shares, p.volumes, p.pvcs} }

// gatherPool follows SharedVolumes, their volumes and their PVCs. A SharedVolume is done when it says Ready.
func gatherPool(ctx context.Context, cluster *env.Cluster, count int) (pool, error) {
	shares, volumes, pvcs := shareKeys(count)
	var found pool
	var err error
	found.shares, err = gather(ctx, cluster, shares, &v1alpha1.SharedVolumeList{}, func(object client.Object) bool {
		share, ok := object.(*v1alpha1.SharedVolume)
		return ok && share.Status.Phase == v1alpha1.Ready
	})
	if err != nil {
		return found, err
	}
	found.volumes, found.pvcs, err = gatherPairs(ctx, cluster, volumes, pvcs)
	return found, err
}

// share creates SharedVolumes, and waits until all are Ready, their PVCs are bound, and the operator falls silent.
func (t *trial) share(ctx context.Context, count int) error {
	began, pool, cost, err := t.costOfPool(ctx, count, isDone(count), func(number int) error {
		return create(ctx, t.cluster, t.sharedVolume(number))
	})
	if err != nil {
		return err
	}
	shares, volumes, pvcs := pool.shares.state(), pool.volumes.state(), pool.pvcs.state()
	t.round().Share = &report.ShareCost{
		Exist: latest(began, volumes.allThere, pvcs.allThere), Most: latest(began, pvcs.mostDone),
		Bound: latest(began, pvcs.allDone), Ready: latest(began, shares.allDone),
		Requests: len(cost.work), Writes: len(cost.writes), WriteKinds: kindsOf(cost.writes),
		CPUSeconds: cost.cpuSeconds, ResidentKibibytes: cost.residentKibibytes,
	}
	return nil
}

// unshare deletes all SharedVolumes at once, and waits until they, their PVCs and their volumes have gone.
func (t *trial) unshare(ctx context.Context, count int) error {
	began, pool, cost, err := t.costOfPool(ctx, count, isGone, func(number int) error {
		if err := t.cluster.Client.Delete(ctx, t.sharedVolume(number)); err != nil {
			return fmt.Errorf("delete SharedVolume %s: %w", shareKey(number), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	shares, volumes, pvcs := pool.shares.state(), pool.volumes.state(), pool.pvcs.state()
	t.round().Unshare = &report.UnshareCost{
		Requests: len(cost.work), Writes: len(cost.writes), WriteKinds: kindsOf(cost.writes), PeakKibibytes: cost.peakKibibytes,
		ObjectsLeft: shares.there + volumes.there + pvcs.there,
	}
	if t.round().Unshare.ObjectsLeft == 0 {
		t.round().Unshare.Gone = latest(began, shares.allGone, volumes.allGone, pvcs.allGone)
	}
	return nil
}

// costOfPool does something with each SharedVolume, and waits until all are as far as asked and the operator falls silent.
func (t *trial) costOfPool(
	ctx context.Context, count int, reached func(crowdState) bool, do func(number int) error,
) (began time.Time, pool pool, cost cost, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if pool, err = gatherPool(watching, t.cluster, count); err != nil {
		return began, pool, cost, err
	}
	cost, err = t.costOf(func() error {
		began = time.Now()
		if err := inParallel(count, do); err != nil {
			return err
		}
		if _, err := awaitCrowds(ctx, t.limit, pool.all(), reached); err != nil {
			return err
		}
		// The audit log is read only now: that takes time from the operator.
		_, err := t.within(ctx, 100*time.Millisecond, func() (bool, error) {
			err := t.requests.read()
			return err == nil && t.requests.silent(t.quiet), err
		})
		return err
	})
	return began, pool, cost, err
}

// kindsOf counts requests by verb and resource, and refused requests apart.
func kindsOf(requests []env.Request) map[string]int {
	counts := map[string]int{}
	for _, request := range requests {
		name := request.Verb + " " + request.Object.Resource
		if request.Object.Subresource != "" {
			name += "/" + request.Object.Subresource
		}
		if request.Response.Code >= 300 {
			name = fmt.Sprintf("%s (%d)", name, request.Response.Code)
		}
		counts[name]++
	}
	return counts
}

func isOfPair(request env.Request) bool {
	return request.Object.Resource == "persistentvolumes" || request.Object.Resource == "persistentvolumeclaims"
}

// sharedVolume is one as a developer writes it.
func (t *trial) sharedVolume(number int) *v1alpha1.SharedVolume {
	key := shareKey(number)
	fileSystem, accessPoint := t.cloud.ids(number)
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: fileSystem, AccessPointID: accessPoint},
	}
}
