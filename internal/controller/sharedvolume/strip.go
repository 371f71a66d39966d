package sharedvolume

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// Limits for texts and lists that namespace owners write and that Kubernetes does not limit. Without these limits, users could exhaust the operator's
// memory.
const (
	// longest is the maximum length of a name, in bytes. A clipped text ends with "…", so it equals no name.
	longest = 253
	// mostFinalizers and mostOwners are the limits for one object.
	mostFinalizers, mostOwners = 4, 4
)

// clip shortens a text that is too long for a name.
func clip(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// clipFinalizers keeps the community's finalizer and a few other finalizers. It appends a text with the number of omitted finalizers.
func clipFinalizers(names []string) []string {
	// client-go transforms the objects of a watch-list twice. A last entry with a space shows that this function has already shortened the list.
	if len(names) <= mostFinalizers || strings.Contains(names[len(names)-1], " ") {
		return names
	}
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == CommunityFinalizer })
	if len(kept) < len(names) {
		kept = slices.Insert(kept, 0, CommunityFinalizer)
	}
	return append(slices.Clone(kept[:mostFinalizers]), fmt.Sprintf("and %d more", len(kept)-mostFinalizers))
}

// Strip is a cache transform. It removes the fields of a SharedVolume that no plan needs, to limit memory. Strip is the manager's default transform,
// because cache options can't name a kind that the cluster does not serve yet. So Strip keeps objects of other kinds unchanged.
func Strip(object any) (any, error) {
	if found, ok := object.(*v1alpha1.SharedVolume); ok {
		// The client sets the kind when it reads an object from the cache.
		found.TypeMeta = metav1.TypeMeta{}
		found.ManagedFields, found.Labels, found.OwnerReferences = nil, nil, nil
		found.Finalizers = clipFinalizers(found.Finalizers)
		found.Spec.FileSystemID, found.Spec.AccessPointID = intern(clip(found.Spec.FileSystemID)), clip(found.Spec.AccessPointID)
		state := &found.Status
		state.ClaimRef.Kind, state.Phase, state.Message = intern(state.ClaimRef.Kind), intern(state.Phase), intern(state.Message)
		// The decoder allocates space for four conditions. The clone drops the spare capacity.
		state.Conditions = slices.Clone(state.Conditions)
		for i := range state.Conditions {
			one := &state.Conditions[i]
			one.Type, one.Status, one.Reason, one.Message = intern(one.Type), intern(one.Status), intern(one.Reason), intern(one.Message)
		}
		maps.DeleteFunc(found.Annotations, func(key, value string) bool { return key != ZoneAffinityAnnotation || value != "true" })
	}
	return object, nil
}

// stripVolume removes the fields of a volume that no plan needs.
func stripVolume(object any) (any, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && !isFolded(volume) {
		stripMetadata(&volume.ObjectMeta)
		volume.Annotations = only(volume.Annotations, ownerNameAnnotation, ownerUIDAnnotation)
		if ref := volume.Spec.ClaimRef; ref != nil {
			ref.APIVersion, ref.Kind, ref.ResourceVersion = intern(ref.APIVersion), intern(ref.Kind), ""
		}
		spec := corev1.PersistentVolumeSpec{
			ClaimRef: volume.Spec.ClaimRef, MountOptions: volume.Spec.MountOptions, NodeAffinity: volume.Spec.NodeAffinity,
			PersistentVolumeReclaimPolicy: intern(volume.Spec.PersistentVolumeReclaimPolicy),
		}
		if source := volume.Spec.CSI; source != nil {
			spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: intern(source.Driver), VolumeHandle: source.VolumeHandle}
		}
		volume.Spec, volume.Status = spec, corev1.PersistentVolumeStatus{Phase: intern(volume.Status.Phase)}
		fold(volume)
	}
	return object, nil
}

func stripPVC(object any) (any, error) {
	if pvc, ok := object.(*corev1.PersistentVolumeClaim); ok && !isFolded(pvc) {
		stripMetadata(&pvc.ObjectMeta)
		annotations := pvc.Annotations
		if pvc.Annotations = nil; pvc.Status.Phase == corev1.ClaimPending && annotations[volumeUIDAnnotation] != "" {
			pvc.Annotations = map[string]string{volumeUIDAnnotation: clip(annotations[volumeUIDAnnotation])}
		}
		pvc.OwnerReferences = stripOwners(pvc)
		pvc.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: clip(pvc.Spec.VolumeName)}
		pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: intern(pvc.Status.Phase)}
		fold(pvc)
	}
	return object, nil
}

// stripOwners keeps a few references to SharedVolumes. It first keeps the reference to the SharedVolume whose PVC has this name, so that other
// references can't displace this reference. The operator patches ownerReferences with a strategic merge, which does not remove the references that
// the cache omits.
func stripOwners(pvc *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	var owners, others []metav1.OwnerReference
	for _, ref := range ownersOf(pvc) {
		if pvcName(ref.Name) == pvc.Name {
			owners = append(owners, ref)
		} else {
			others = append(others, ref)
		}
	}
	owners = append(owners, others...)
	var kept []metav1.OwnerReference
	for _, ref := range owners[:min(len(owners), mostOwners)] {
		kept = append(kept, metav1.OwnerReference{
			APIVersion: intern(clip(ref.APIVersion)), Kind: intern(ref.Kind), Name: clip(ref.Name), UID: types.UID(clip(string(ref.UID))),
		})
	}
	return kept
}

func stripMetadata(of *metav1.ObjectMeta) {
	of.ManagedFields, of.Finalizers = nil, clipFinalizers(of.Finalizers)
	if of.DeletionTimestamp == nil {
		// Finalizers matter only during deletion.
		of.Finalizers = nil
	}
	of.Labels = only(of.Labels, ownedLabel, ownerNamespaceLabel, ownerNameLabel)
}

// only returns the entries of a map that have these keys. The keys of the result are the strings in argument "keys", so that Go can free the equal
// strings of thousands of objects.
func only(from map[string]string, keys ...string) map[string]string {
	kept := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, found := from[key]; found {
			kept[key] = value
		}
	}
	return kept
}

func stripNamespace(object any) (any, error) {
	if namespace, ok := object.(*metav1.PartialObjectMetadata); ok {
		namespace.ManagedFields, namespace.Labels = nil, nil
		maps.DeleteFunc(namespace.Annotations, func(key, _ string) bool { return key != AllowedAnnotation })
	}
	return object, nil
}

// intern returns the stored copy of a text, so that equal texts share memory.
func intern[T ~string](text T) T { return unique.Make(text).Value() }

// folded replaces the labels of cached objects whose labels can be computed from their other fields. All these objects share one map, which saves 300
// bytes or more per object. The empty key marks such an object, because the API server allows no label with an empty key.
//
//nolint:gochecknoglobals // All objects share this map.
var folded = map[string]string{ownedLabel: "true", "": ""}

// fold saves memory in the cache: it replaces the labels of an object by the map "folded", if unfold can compute the labels again.
func fold(object client.Object) {
	if usual := usualLabels(object); usual != nil && maps.Equal(object.GetLabels(), usual) {
		object.SetLabels(folded)
	}
}

// unfold gives an object from the cache its labels back, in a map of its own. It does not modify the shared map.
func unfold(object client.Object) {
	if isFolded(object) {
		object.SetLabels(usualLabels(object))
	}
}

// isFolded reports whether fold replaced the labels. client-go transforms the objects of a watch-list twice: in its temporary store (v0.36.3,
// tools/cache/reflector.go, watchList) and in its queue.
func isFolded(object client.Object) bool {
	_, is := object.GetLabels()[""]
	return is
}

// usualLabels derives the labels of a volume or PVC from its other fields. It returns nil if the other fields do not determine the labels.
func usualLabels(object client.Object) map[string]string {
	switch found := object.(type) {
	case *corev1.PersistentVolume:
		if ref, name := found.Spec.ClaimRef, found.Annotations[ownerNameAnnotation]; ref != nil && name != "" {
			return labels(ref.Namespace, name)
		}
	case *corev1.PersistentVolumeClaim:
		return labels(found.Namespace, strings.TrimPrefix(found.Name, pvcName("")))
	}
	return nil
}
