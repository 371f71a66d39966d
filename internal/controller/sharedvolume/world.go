package sharedvolume

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// pageSize bounds the memory of a look at the pods of a large namespace.
const pageSize = 500

// errBehind says that the cache does not show yet what the cluster has.
var errBehind = errors.New("the cache is behind")

// world reads what a plan depends on: from the cache, or with a live reader from the cluster.
func (r *Reconciler) world(ctx context.Context, reader client.Reader, owner *v1alpha1.SharedVolume) (world, error) {
	found := world{live: reader == r.Live, now: r.Now(), volumeMade: r.madeAt(owner, createVolume)}
	volumes := map[string]**corev1.PersistentVolume{
		volumeName(owner.Namespace, owner.Name):                         &found.usual,
		otherVolumeName(owner.Namespace, owner.Name, string(owner.UID)): &found.other,
	}
	for name, volume := range volumes {
		read := &corev1.PersistentVolume{}
		if there, err := get(ctx, reader, client.ObjectKey{Name: name}, read); err != nil {
			return found, err
		} else if there {
			*volume = read
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	if there, err := get(ctx, reader, client.ObjectKey{Namespace: owner.Namespace, Name: claimName(owner.Name)}, claim); err != nil {
		return found, err
	} else if there {
		found.claim = claim
	}
	hasDriver, err := get(ctx, r.Client, client.ObjectKey{Name: DriverName}, &storagev1.CSIDriver{})
	if err != nil {
		return found, err
	}
	found.noDriver = !hasDriver
	found.restricted, found.denied, err = r.access(ctx, owner)
	return found, err
}

// get reads an object and tells whether it is there.
func get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := reader.Get(ctx, key, into)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %T %s: %w", into, key, err)
	default:
		return true, nil
	}
}

// usersOf lists the pods that hold the claim, sorted. It is never nil.
func (r *Reconciler) usersOf(ctx context.Context, owner *v1alpha1.SharedVolume) ([]string, error) {
	found, token := []string{}, ""
	for {
		pods := &corev1.PodList{}
		err := r.Live.List(ctx, pods, client.InNamespace(owner.Namespace), client.Limit(pageSize), client.Continue(token))
		if err != nil {
			return nil, fmt.Errorf("list pods of namespace %s: %w", owner.Namespace, err)
		}
		for i := range pods.Items {
			if uses(&pods.Items[i], claimName(owner.Name)) {
				found = append(found, pods.Items[i].Name)
			}
		}
		if token = pods.Continue; token == "" {
			sort.Strings(found)
			return found, nil
		}
	}
}

// uses tells whether a pod holds a claim. Kubernetes counts every pod that has a node, also if it has finished.
func uses(pod *corev1.Pod, claim string) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// seek looks for the claim in the cluster. The world is read anew from there if it is found.
func (r *Reconciler) seek(ctx context.Context, owner *v1alpha1.SharedVolume, found *world) error {
	found.sought = true
	there, err := get(ctx, r.Live, client.ObjectKey{Namespace: owner.Namespace, Name: claimName(owner.Name)}, &corev1.PersistentVolumeClaim{})
	if err == nil && there {
		*found, err = r.world(ctx, r.Live, owner)
	}
	return err
}

// put brings the answer to a write into the world, so that nobody has to wait for the cache.
func (w *world) put(owner *v1alpha1.SharedVolume, object client.Object) {
	switch changed := object.(type) {
	case *v1alpha1.SharedVolume:
		changed.DeepCopyInto(owner)
	case *corev1.PersistentVolumeClaim:
		w.claim = changed
	case *corev1.PersistentVolume:
		if changed.Name == volumeName(owner.Namespace, owner.Name) {
			w.usual = changed
		} else {
			w.other = changed
		}
	}
}

// madeAt is when something was last made for a SharedVolume; zero if it was not.
func (r *Reconciler) madeAt(owner *v1alpha1.SharedVolume, what what) time.Time {
	last, _ := r.made.Load(made{client.ObjectKeyFromObject(owner), what})
	at, _ := last.(time.Time)
	return at
}
