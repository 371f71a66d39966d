package sharedvolume

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// access reads and writes a world, or reads a cache of it.
type access struct {
	client.Client

	world  *world
	cached bool
}

func (a *access) shelf() *shelf {
	if a.cached {
		return &a.world.cache
	}
	return &a.world.shelf
}

func (a *access) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	missing := apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	from := a.shelf()
	switch into := into.(type) {
	case *v1alpha1.SharedVolume:
		if from.sv == nil {
			return missing
		}
		from.sv.DeepCopyInto(into)
	case *corev1.PersistentVolumeClaim:
		if from.pvc == nil {
			return missing
		}
		from.pvc.DeepCopyInto(into)
	case *corev1.PersistentVolume:
		volume := from.volumes[key.Name]
		if volume == nil {
			return missing
		}
		volume.DeepCopyInto(into)
	case *metav1.PartialObjectMetadata:
		// Its watch works: one that fails does so alone.
		into.Annotations, into.CreationTimestamp = map[string]string{AllowedAnnotation: "*"}, a.world.since
	case *storagev1.CSIDriver:
	default:
		return missing
	}
	return nil
}

func (a *access) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// write makes a change, unless the operator is killed before. The error is what a program that is killed never sees.
func (a *access) write(what string, object client.Object, do func() error) error {
	w := a.world
	if w.left == 0 {
		w.killed = true
	}
	if w.killed && !w.arrives {
		return errKilled
	}
	wasKilled := w.killed
	w.left--
	if wasKilled {
		w.left = 0
		w.arrives = false
	}
	if err := do(); err != nil {
		return err
	}
	w.check(what + " " + object.GetName())
	if wasKilled {
		return errKilled
	}
	return nil
}

const errKilled = textError("the operator was killed")

func (a *access) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	w := a.world
	return a.write("create", object, func() error {
		switch object := object.(type) {
		case *corev1.PersistentVolume:
			if w.volumes[object.Name] != nil {
				return apierrors.NewAlreadyExists(schema.GroupResource{}, object.Name)
			}
			w.fresh(object, 0)
			delete(w.tenantOf, object.UID)
			object.Status.Phase = corev1.VolumePending
			w.volumes[object.Name] = object.DeepCopy()
		case *corev1.PersistentVolumeClaim:
			if w.pvc != nil {
				return apierrors.NewAlreadyExists(schema.GroupResource{}, object.Name)
			}
			// Whoever has the namespace can use it.
			w.fresh(object, w.tenant)
			object.Status.Phase = corev1.ClaimPending
			w.pvc = object.DeepCopy()
		}
		return nil
	})
}

// live finds what the cluster has of an object as it was read.
func (a *access) live(object client.Object, uid types.UID, version string) (client.Object, error) {
	var found client.Object
	switch object.(type) {
	case *corev1.PersistentVolume:
		if volume := a.world.volumes[object.GetName()]; volume != nil {
			found = volume
		}
	case *corev1.PersistentVolumeClaim:
		if a.world.pvc != nil {
			found = a.world.pvc
		}
	case *v1alpha1.SharedVolume:
		if a.world.sv != nil {
			found = a.world.sv
		}
	}
	switch {
	case found == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, object.GetName())
	case found.GetUID() != uid || found.GetResourceVersion() != version:
		return nil, apierrors.NewConflict(schema.GroupResource{}, object.GetName(), textError("changed"))
	}
	return found, nil
}

func (a *access) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return a.write("patch", object, func() error {
		changes, err := changesOf(object, patch)
		if err != nil {
			return err
		}
		metadata, _ := changes["metadata"].(map[string]any)
		uid, _ := metadata["uid"].(string)
		version, _ := metadata["resourceVersion"].(string)
		found, err := a.live(object, types.UID(uid), version)
		if err != nil {
			return err
		}
		if err := mergeInto(found, changes); err != nil {
			return err
		}
		a.world.made++
		found.SetResourceVersion(strconv.Itoa(a.world.made))
		err = mergeInto(object, changes)
		object.SetResourceVersion(found.GetResourceVersion())
		return err
	})
}

func (a *access) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	return a.write("delete", object, func() error {
		wanted := (&client.DeleteOptions{}).ApplyOptions(options)
		if wanted.Preconditions == nil || wanted.Preconditions.UID == nil || wanted.Preconditions.ResourceVersion == nil {
			return textError("a deletion without UID and resource version")
		}
		found, err := a.live(object, *wanted.Preconditions.UID, *wanted.Preconditions.ResourceVersion)
		if err != nil {
			return err
		}
		switch found.(type) {
		case *corev1.PersistentVolume:
			delete(a.world.volumes, object.GetName())
		case *corev1.PersistentVolumeClaim:
			a.world.pvc = nil
		}
		return nil
	})
}
