package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// errLate is the cause of a context that ends because the limit is over.
var errLate = errors.New("not within the limit")

// repair deletes what the operator has created, one after the other, and waits for a new one of each.
func (t *trial) repair(ctx context.Context) error {
	objects, err := t.live(ctx)
	if err != nil {
		return err
	}
	cost := &report.RepairCost{Milliseconds: map[string]float64{}, NotRepaired: []string{}}
	for _, object := range objects {
		// Pods of the last repair must not delay this one. What never is rolled out must not hold up the others.
		if err := t.awaitRollout(ctx); err != nil {
			return err
		}
		took, err := t.repairOne(ctx, object)
		if err != nil {
			return fmt.Errorf("%s: %w", title(object), err)
		}
		if took == nil {
			cost.NotRepaired = append(cost.NotRepaired, title(object))
			continue
		}
		cost.Milliseconds[title(object)] = *took
	}
	t.result.Repair = cost
	return nil
}

func (t *trial) awaitRollout(ctx context.Context) error {
	_, err := t.within(ctx, 100*time.Millisecond, func() (bool, error) {
		if err := t.requests.read(); err != nil {
			return false, err
		}
		return t.rolledOut(ctx)
	})
	return err
}

// repairOne deletes an object and returns the milliseconds until there is a new one; nil if it does not come.
func (t *trial) repairOne(ctx context.Context, object *unstructured.Unstructured) (*float64, error) {
	// Another repair may have made it anew.
	err := t.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if err != nil {
		return nil, fmt.Errorf("read it before deleting it: %w", err)
	}
	watching, err := t.follow(ctx, object.GroupVersionKind(), client.ListOptions{
		Namespace: object.GetNamespace(), FieldSelector: fields.OneTermEqualSelector("metadata.name", object.GetName()),
	})
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	began := time.Now()
	if err := t.cluster.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return nil, fmt.Errorf("delete: %w", err)
	}
	late, cancel := context.WithTimeoutCause(ctx, t.limit, errLate)
	defer cancel()
	err = awaitRenewal(late, watching.ResultChan(), object.GetUID())
	if errors.Is(err, errLate) {
		return nil, nil
	}
	return between(began, time.Now()), err
}

// awaitRenewal waits for an object that is not the old one.
func awaitRenewal(ctx context.Context, events <-chan watch.Event, old types.UID) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-events:
			object, err := objectOf(event, open)
			if err != nil {
				return err
			}
			if event.Type != watch.Deleted && object.GetUID() != old {
				return nil
			}
		}
	}
}

// objectOf is the object of an event of a watch.
func objectOf(event watch.Event, open bool) (client.Object, error) {
	if !open {
		return nil, errors.New("the watch has ended: see the log of the API server")
	}
	object, ok := event.Object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the watch failed: %v", event.Object)
	}
	return object, nil
}

// follow watches objects of a kind, from now on.
func (t *trial) follow(ctx context.Context, kind schema.GroupVersionKind, options client.ListOptions) (watch.Interface, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := t.cluster.Client.List(ctx, list, &options); err != nil {
		return nil, fmt.Errorf("list %s before watching: %w", kind.Kind, err)
	}
	watching, err := watchFrom(ctx, t.cluster, list, options)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	return watching, nil
}

// watchFrom reports what happens after a list was made. A watch that the API server ends is opened again where it ended: a
// busy server ends the watches that do not keep up.
func watchFrom(ctx context.Context, cluster *env.Cluster, list client.ObjectList, options client.ListOptions) (watch.Interface, error) {
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
		resumed := options
		resumed.Raw = &from
		empty, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is no list", list)
		}
		return cluster.Client.Watch(ctx, empty, &resumed)
	}}
	return toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watcher)
}

// remove deletes the ClusterCSIDriver and waits until it, all that the operator has created, and the driver's pods have
// gone. What stays is counted once nothing goes any more.
func (t *trial) remove(ctx context.Context) error {
	if err := t.awaitRollout(ctx); err != nil {
		return err
	}
	cr := &unstructured.Unstructured{}
	cr.SetGroupVersionKind(schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "ClusterCSIDriver"})
	if err := t.cluster.Client.Get(ctx, client.ObjectKeyFromObject(env.EFS("")), cr); err != nil {
		return fmt.Errorf("read the ClusterCSIDriver: %w", err)
	}
	leaving, err := t.leaving(ctx)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	deaths, err := t.watchDeaths(watching, append(leaving, cr))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.cluster.Client.Delete(ctx, cr); err != nil {
		return fmt.Errorf("delete the ClusterCSIDriver: %w", err)
	}
	last, gone, err := t.lastDeath(ctx, deaths, cr.GetUID(), len(leaving)+1)
	if err != nil {
		return err
	}
	cost := &report.RemoveCost{}
	if gone {
		cost.Milliseconds = between(began, last)
	}
	if cost.ObjectsLeft, err = leftovers(ctx, t.cluster, t.before, t.quiet); err != nil {
		return err
	}
	used, err := usageOf(t.operator.PID())
	if err != nil {
		return err
	}
	cost.PeakKibibytes = used.peakKibibytes
	t.result.Remove = cost
	return nil
}

// leaving is all that the removal has to take away: what the operator has created, and the pods in its namespace,
// which are the driver's, because operators run outside of the cluster here.
func (t *trial) leaving(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := t.live(ctx)
	if err != nil {
		return nil, err
	}
	pods := &unstructured.UnstructuredList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := t.cluster.Client.List(ctx, pods, client.InNamespace(env.OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("list the driver's pods: %w", err)
	}
	for i := range pods.Items {
		objects = append(objects, &pods.Items[i])
	}
	return objects, nil
}

// death is the end of an object.
type death struct {
	uid types.UID
	at  time.Time
	err error
}

// watchDeaths reports the end of each of these objects, until ctx ends.
func (t *trial) watchDeaths(ctx context.Context, objects []*unstructured.Unstructured) (<-chan death, error) {
	type scope struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	scopes := map[scope][]types.UID{}
	for _, object := range objects {
		key := scope{object.GroupVersionKind(), object.GetNamespace()}
		scopes[key] = append(scopes[key], object.GetUID())
	}
	// One more for the error of each watch, so that no sender waits when nobody listens any more.
	deaths := make(chan death, len(objects)+len(scopes))
	for scope, uids := range scopes {
		watching, err := t.follow(ctx, scope.kind, client.ListOptions{Namespace: scope.namespace})
		if err != nil {
			return nil, err
		}
		go func() {
			defer watching.Stop()
			reportDeaths(ctx, watching.ResultChan(), uids, deaths)
		}()
	}
	return deaths, nil
}

func reportDeaths(ctx context.Context, events <-chan watch.Event, uids []types.UID, deaths chan<- death) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			object, err := objectOf(event, open)
			if err != nil {
				deaths <- death{err: err}
				return
			}
			if event.Type == watch.Deleted && slices.Contains(uids, object.GetUID()) {
				deaths <- death{uid: object.GetUID(), at: time.Now()}
			}
		}
	}
}

// lastDeath waits until so many objects have gone, or until the ClusterCSIDriver has gone and nothing follows it any
// more. It reports whether the ClusterCSIDriver has gone within the limit.
func (t *trial) lastDeath(ctx context.Context, deaths <-chan death, cr types.UID, count int) (last time.Time, gone bool, err error) {
	limit := time.NewTimer(t.limit)
	defer limit.Stop()
	for ; count > 0; count-- {
		select {
		case <-ctx.Done():
			return last, gone, context.Cause(ctx)
		case <-limit.C:
			return last, gone, nil
		case one := <-deaths:
			if one.err != nil {
				return last, gone, one.err
			}
			last = one.at
			gone = gone || one.uid == cr
			if gone {
				limit.Reset(2 * t.quiet)
			}
		}
	}
	return last, gone, nil
}
