// Package v1 has the only kind of the external-snapshotter's API that a CSI driver operator writes: the VolumeSnapshotClass of
// snapshot.storage.k8s.io/v1. The module with the types would be one more dependency for four fields.
//
// +kubebuilder:object:generate=true
// +groupName=snapshot.storage.k8s.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultAnnotation marks the VolumeSnapshotClass for snapshots that name no class.
const DefaultAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

// CRD is the name of the kind's CustomResourceDefinition.
const CRD = "volumesnapshotclasses.snapshot.storage.k8s.io"

// GroupVersion returns the API group and version of VolumeSnapshotClass.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
}

// ContentKind returns VolumeSnapshotContent, the kind of snapshots in the storage system. This package has no Go type for this kind, because
// operators read only the driver of a VolumeSnapshotContent.
func ContentKind() schema.GroupVersionKind { return GroupVersion().WithKind("VolumeSnapshotContent") }

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &VolumeSnapshotClass{}, &VolumeSnapshotClassList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// VolumeSnapshotClass says how snapshots of a driver's volumes are made.
//
// +kubebuilder:object:root=true
type VolumeSnapshotClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Driver is the CSI name of the driver.
	Driver string `json:"driver"`
	// Parameters are the driver's own.
	Parameters map[string]string `json:"parameters,omitempty"`
	// DeletionPolicy is Delete or Retain.
	DeletionPolicy string `json:"deletionPolicy"`
}

// VolumeSnapshotClassList is a list of VolumeSnapshotClasses.
//
// +kubebuilder:object:root=true
type VolumeSnapshotClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VolumeSnapshotClass `json:"items"`
}
