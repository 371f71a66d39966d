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

// A namespace owner writes texts and lists that Kubernetes does not bound, and must not decide how much memory they take.
const (
	// longest is that of a name in bytes. What is longer is no name, and equals none after clip.
	longest = 253
	// mostFinalizers and mostOwners are kept of one object.
	mostFinalizers, mostOwners = 4, 4
)

// clip shortens a text that is no name.
func clip(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// clipFinalizers keeps the community's finalizer and a few others, and the number of those that it leaves out as one more.
func clipFinalizers(names []string) []string {
	// A list by watch is stripped twice, and no finalizer has a blank.
	if len(names) <= mostFinalizers || strings.Contains(names[len(names)-1], " ") {
		return names
	}
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == CommunityFinalizer })
	if len(kept) < len(names) {
		kept = slices.Insert(kept, 0, CommunityFinalizer)
	}
	return append(slices.Clone(kept[:mostFinalizers]), fmt.Sprintf("and %d more", len(kept)-mostFinalizers))
}

// Strip keeps of a SharedVolume what a plan depends on: its author must not decide how much memory it takes. What is of
// another kind stays. It is the manager's default, as the options of a cache can't name a kind that is not served yet.
func Strip(object any) (any, error) {
	if found, ok := object.(*v1alpha1.SharedVolume); ok {
		// Readers of the cache set the kind.
		found.TypeMeta = metav1.TypeMeta{}
		found.ManagedFields, found.Labels, found.OwnerReferences = nil, nil, nil
		found.Finalizers = clipFinalizers(found.Finalizers)
		found.Spec.FileSystemID, found.Spec.AccessPointID = once(clip(found.Spec.FileSystemID)), clip(found.Spec.AccessPointID)
		state := &found.Status
		state.ClaimRef.Kind, state.Phase, state.Message = once(state.ClaimRef.Kind), once(state.Phase), once(state.Message)
		// A decoder leaves room for four.
		state.Conditions = slices.Clone(state.Conditions)
		for i := range state.Conditions {
			one := &state.Conditions[i]
			one.Type, one.Status, one.Reason, one.Message = once(one.Type), once(one.Status), once(one.Reason), once(one.Message)
		}
		maps.DeleteFunc(found.Annotations, func(key, value string) bool { return key != ZoneAffinityAnnotation || value != "true" })
	}
	return object, nil
}

// stripVolume keeps what a plan depends on.
func stripVolume(object any) (any, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && !isFolded(volume) {
		stripMetadata(&volume.ObjectMeta)
		volume.Annotations = only(volume.Annotations, ownerNameAnnotation, ownerUIDAnnotation)
		if ref := volume.Spec.ClaimRef; ref != nil {
			ref.APIVersion, ref.Kind, ref.ResourceVersion = once(ref.APIVersion), once(ref.Kind), ""
		}
		spec := corev1.PersistentVolumeSpec{
			ClaimRef: volume.Spec.ClaimRef, MountOptions: volume.Spec.MountOptions, NodeAffinity: volume.Spec.NodeAffinity,
			PersistentVolumeReclaimPolicy: once(volume.Spec.PersistentVolumeReclaimPolicy),
		}
		if source := volume.Spec.CSI; source != nil {
			spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: once(source.Driver), VolumeHandle: source.VolumeHandle}
		}
		volume.Spec, volume.Status = spec, corev1.PersistentVolumeStatus{Phase: once(volume.Status.Phase)}
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
		pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: once(pvc.Status.Phase)}
		fold(pvc)
	}
	return object, nil
}

// stripOwners keeps the references to SharedVolumes, first to one that the PVC is named after: other references must not hide it. A patch of a PVC
// adds a reference to those that it has, and does not name them.
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
			APIVersion: once(clip(ref.APIVersion)), Kind: once(ref.Kind), Name: clip(ref.Name), UID: types.UID(clip(string(ref.UID))),
		})
	}
	return kept
}

func stripMetadata(of *metav1.ObjectMeta) {
	of.ManagedFields, of.Finalizers = nil, clipFinalizers(of.Finalizers)
	if of.DeletionTimestamp == nil {
		// They only say what holds up an end.
		of.Finalizers = nil
	}
	of.Labels = only(of.Labels, ownedLabel, ownerNamespaceLabel, ownerNameLabel)
}

// only keeps these keys. The strings of the keys are the program's own: those of thousands of objects would take room.
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

// once is a text of which memory holds one copy, however many objects say it.
func once[T ~string](text T) T { return unique.Make(text).Value() }

// folded are the labels of a cached object that has those that its name asks for: a map for each takes 300 bytes and more. No object of an API
// server has a label without a key.
//
//nolint:gochecknoglobals // That there is one for all is the point.
var folded = map[string]string{ownedLabel: "true", "": ""}

// fold takes the labels of an object out of memory where unfold knows them.
func fold(object client.Object) {
	if usual := usualLabels(object); usual != nil && maps.Equal(object.GetLabels(), usual) {
		object.SetLabels(folded)
	}
}

// unfold gives an object of the cache its labels again. It changes nothing of others, and not the map that all of the cache share.
func unfold(object client.Object) {
	if isFolded(object) {
		object.SetLabels(usualLabels(object))
	}
}

// isFolded reports whether fold has taken the labels. A list by watch is stripped twice: in client-go's store of the list (v0.36.3,
// tools/cache/reflector.go, watchList) and in its queue.
func isFolded(object client.Object) bool {
	_, is := object.GetLabels()[""]
	return is
}

// usualLabels are the labels that a volume or a PVC of ours is made with, by what else it says; nil if that says nothing.
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
