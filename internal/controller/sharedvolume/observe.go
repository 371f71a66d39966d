package sharedvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// shared makes a client read an object from the cache without a copy. The caller must not modify such an object.
const shared = client.UnsafeDisableDeepCopy

// errPostponed means that the retry of a failing SharedVolume is not due yet.
var errPostponed = errors.New("the next retry is not due yet")

// errBehind means that the cache lags behind the cluster.
var errBehind = errors.New("the cache lags behind the cluster")

// observe reads what a plan depends on. Argument "reader" is r.Client to read from the cache, or r.Live to read from the API server.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader, owner *v1alpha1.SharedVolume) (seen, error) {
	found := seen{
		live: reader == r.Live, now: r.Now(), pvcMade: r.madeAt(owner, createPVC),
		askable: r.Shares != nil && shareIn(owner).Valid(),
	}
	var err error
	if found.plain, err = find[corev1.PersistentVolume](ctx, reader, client.ObjectKey{Name: plainVolumeName(owner.Namespace, owner.Name)}); err != nil {
		return found, err
	}
	unique := uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID))
	if found.unique, err = find[corev1.PersistentVolume](ctx, reader, client.ObjectKey{Name: unique}); err != nil {
		return found, err
	}
	key := client.ObjectKey{Namespace: owner.Namespace, Name: pvcName(owner.Name)}
	if found.pvc, err = find[corev1.PersistentVolumeClaim](ctx, reader, key); err != nil {
		return found, err
	}
	hasDriver, err := get(ctx, r.Client, client.ObjectKey{Name: efs.DriverName}, &storagev1.CSIDriver{}, shared)
	if err != nil {
		return found, err
	}
	found.noDriver = !hasDriver
	crd := apply.CRD()
	if _, err = get(ctx, r.Client, client.ObjectKey{Name: crdName}, crd, shared); err != nil {
		return found, err
	}
	found.lacks = crdstatus.Lacking(crd)
	found.limits, err = r.limits(ctx, owner.Namespace)
	return found, err
}

// get reads an object and reports whether it exists.
func get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object, options ...client.GetOption) (bool, error) {
	err := reader.Get(ctx, key, into, options...)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %T %s: %w", into, key, err)
	}
	unfold(into)
	return err == nil, nil
}

// find reads an object. It returns nil if the object does not exist.
func find[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key client.ObjectKey) (P, error) {
	object := P(new(T))
	if there, err := get(ctx, reader, key, object); err != nil || !there {
		return nil, err
	}
	return object, nil
}

// readLive reads the objects again, from the API server instead of the cache. It keeps the answer of AWS.
func (r *Reconciler) readLive(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen) error {
	before := *found
	var err error
	*found, err = r.observe(ctx, r.Live, owner)
	found.askable, found.placement = before.askable, before.placement
	return err
}

// holdersOf returns the names of the pods that use the PVC, sorted. The result is never nil.
func (r *Reconciler) holdersOf(ctx context.Context, owner *v1alpha1.SharedVolume) ([]string, error) {
	users, err := r.usersOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, user := range users {
		found = append(found, user.pod)
	}
	sort.Strings(found)
	return found, nil
}

// usersOutside describes the pods that use the PVC on nodes outside of a zone. The result is never nil.
func (r *Reconciler) usersOutside(ctx context.Context, owner *v1alpha1.SharedVolume, zone string) ([]string, error) {
	users, err := r.usersOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	zones := map[string]string{}
	for _, user := range users {
		if _, known := zones[user.node]; known || user.finished {
			continue
		}
		node := &metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		if _, err := get(ctx, r.Live, client.ObjectKey{Name: user.node}, node); err != nil {
			return nil, err
		}
		zones[user.node] = node.Labels[corev1.LabelTopologyZone]
	}
	return outside(users, zones, zone), nil
}

func (r *Reconciler) usersOf(ctx context.Context, owner *v1alpha1.SharedVolume) ([]user, error) {
	var found []user
	pods := &corev1.PodList{}
	err := volume.EachPage(ctx, r.Live, pods, func(page *corev1.PodList) {
		for i := range page.Items {
			if pod := &page.Items[i]; uses(pod, pvcName(owner.Name)) {
				found = append(found, user{pod: pod.Name, node: pod.Spec.NodeName, finished: volume.HasEnded(pod)})
			}
		}
	}, client.InNamespace(owner.Namespace))
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", owner.Namespace, err)
	}
	return found, nil
}

// uses reports whether a pod uses a PVC. Like Kubernetes' PVC protection, it counts every pod with a node, even a finished pod.
func uses(pod *corev1.Pod, pvc string) bool {
	return pod.Spec.NodeName != "" && slices.Contains(volume.PVCsOf(pod), pvc)
}

// put stores the response to a write, so that the next plan need not wait for the cache.
func (w *seen) put(owner *v1alpha1.SharedVolume, object client.Object) {
	switch changed := object.(type) {
	case *v1alpha1.SharedVolume:
		changed.DeepCopyInto(owner)
	case *corev1.PersistentVolumeClaim:
		w.pvc = changed
	case *corev1.PersistentVolume:
		if changed.Name == plainVolumeName(owner.Namespace, owner.Name) {
			w.plain = changed
		} else {
			w.unique = changed
		}
	}
}

// drop removes a deleted volume from the observed state.
func (w *seen) drop(name string) {
	if w.plain != nil && w.plain.Name == name {
		w.plain = nil
	}
	if w.unique != nil && w.unique.Name == name {
		w.unique = nil
	}
}

// madeAt returns when this process last made a change of this kind for a SharedVolume. It returns the zero time if this process made no such change.
func (r *Reconciler) madeAt(owner *v1alpha1.SharedVolume, what what) time.Time {
	last, _ := r.made.Load(made{client.ObjectKeyFromObject(owner), what})
	at, _ := last.(time.Time)
	return at
}
