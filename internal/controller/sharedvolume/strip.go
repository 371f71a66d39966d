package sharedvolume

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// Strip keeps of a SharedVolume what a plan depends on: its author must not decide how much memory it takes. What is of
// another kind stays. It is the manager's default, as the options of a cache can't name a kind that is not served yet.
func Strip(object any) (any, error) {
	if found, ok := object.(*v1alpha1.SharedVolume); ok {
		// Readers of the cache set the kind.
		found.TypeMeta = metav1.TypeMeta{}
		found.ManagedFields, found.Labels, found.OwnerReferences = nil, nil, nil
		found.Spec.FileSystemID = once(found.Spec.FileSystemID)
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
			pvc.Annotations = only(annotations, volumeUIDAnnotation)
		}
		for i := range pvc.OwnerReferences {
			ref := &pvc.OwnerReferences[i]
			ref.APIVersion, ref.Kind = once(ref.APIVersion), once(ref.Kind)
		}
		pvc.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: pvc.Spec.VolumeName}
		pvc.Status = corev1.PersistentVolumeClaimStatus{Phase: once(pvc.Status.Phase)}
		fold(pvc)
	}
	return object, nil
}

func stripMetadata(of *metav1.ObjectMeta) {
	of.ManagedFields = nil
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
