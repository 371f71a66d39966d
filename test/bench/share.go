package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
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
	first, err := t.mark()
	if err != nil {
		return err
	}
	before, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	pool, err := gatherPool(watching, t.cluster, count)
	if err != nil {
		return err
	}
	began := time.Now()
	err = inParallel(count, func(number int) error {
		return create(ctx, t.cluster, t.sharedVolume(number))
	})
	if err != nil {
		return err
	}
	if _, err := awaitCrowds(ctx, t.limit, pool.all(), isDone(count)); err != nil {
		return err
	}
	// The audit log is read only now: that takes time from the operator.
	work, err := t.workSince(ctx, first)
	if err != nil {
		return err
	}
	after, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	writes := env.Filter(work, env.Request.IsWrite)
	shares, volumes, pvcs := pool.shares.state(), pool.volumes.state(), pool.pvcs.state()
	t.round().Share = &ShareCost{
		Exist: latest(began, volumes.allThere, pvcs.allThere), Most: latest(began, pvcs.mostDone),
		Bound: latest(began, pvcs.allDone), Ready: latest(began, shares.allDone),
		Requests: len(work), Writes: len(writes), WriteKinds: kindsOf(writes),
		CPUSeconds: after.cpuSeconds - before.cpuSeconds, ResidentKibibytes: after.residentKibibytes,
	}
	return nil
}

// unshare deletes all SharedVolumes at once, and waits until they, their PVCs and their volumes have gone.
func (t *trial) unshare(ctx context.Context, count int) error {
	first, err := t.mark()
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	pool, err := gatherPool(watching, t.cluster, count)
	if err != nil {
		return err
	}
	began := time.Now()
	err = inParallel(count, func(number int) error {
		if err := t.cluster.Client.Delete(ctx, t.sharedVolume(number)); err != nil {
			return fmt.Errorf("delete SharedVolume %s: %w", shareKey(number), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err = awaitCrowds(ctx, t.limit, pool.all(), isGone); err != nil {
		return err
	}
	work, err := t.workSince(ctx, first)
	if err != nil {
		return err
	}
	used, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	writes := env.Filter(work, env.Request.IsWrite)
	shares, volumes, pvcs := pool.shares.state(), pool.volumes.state(), pool.pvcs.state()
	cost := &UnshareCost{
		Requests: len(work), Writes: len(writes), WriteKinds: kindsOf(writes), PeakKibibytes: used.peakKibibytes,
		ObjectsLeft: shares.there + volumes.there + pvcs.there,
	}
	if cost.ObjectsLeft == 0 {
		cost.Gone = latest(began, shares.allGone, volumes.allGone, pvcs.allGone)
	}
	t.round().Unshare = cost
	return nil
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

// mark is the place after the last request so far.
func (t *trial) mark() (int, error) {
	err := t.requests.read()
	return len(t.requests.seen), err
}

// workSince waits until the operator falls silent, and returns what it has asked for since.
func (t *trial) workSince(ctx context.Context, first int) ([]env.Request, error) {
	_, err := t.within(ctx, 100*time.Millisecond, func() (bool, error) {
		err := t.requests.read()
		return err == nil && t.requests.silent(t.quiet), err
	})
	return t.requests.work(first), err
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
