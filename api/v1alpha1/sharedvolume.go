// Package v1alpha1 is the SharedVolume API, aws-efs.managed.openshift.io/v1alpha1: a PVC from two IDs, for developers
// without cluster-wide permissions.
//
// The API is that of the community's aws-efs-operator (seed "AWS EFS Operator for OpenShift Dedicated"). Objects that it
// stored work unchanged. Fields that this operator adds are optional, and in the status.
//
// +kubebuilder:object:generate=true
// +groupName=aws-efs.managed.openshift.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "aws-efs.managed.openshift.io", Version: "v1alpha1"}
}

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &SharedVolume{}, &SharedVolumeList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// Phase summarizes the state of a SharedVolume.
type Phase string

// The phases. They have the names that the community's operator used, because stored objects contain these names.
const (
	// Pending means that the operator still has to create or bind the volume or its PVC.
	Pending Phase = "Pending"
	// Ready means that the PVC is bound.
	Ready Phase = "Ready"
	// Deleting means that the SharedVolume waits until others remove their finalizers. Its PVC and volume go afterwards.
	Deleting Phase = "Deleting"
	// Failed means that the operator can't continue; the message says why, and what to do.
	Failed Phase = "Failed"
)

// The types of the conditions.
const (
	// ConditionReady is True if the PVC is bound, so that pods can use it where the driver is installed.
	ConditionReady = "Ready"
	// ConditionBound is True if the PVC is bound to the volume.
	ConditionBound = "Bound"
	// ConditionDriverInstalled is True if the cluster has the driver that mounts the volume.
	ConditionDriverInstalled = "DriverInstalled"
	// ConditionAllowed says whether the namespace may use the access point. It is absent in namespaces without limits. A bound PVC stays bound when the
	// condition becomes False.
	ConditionAllowed = "Allowed"
	// ConditionMountable says whether AWS has what pods need to mount the share. It is False with a message that names what is missing, or True with
	// reason Regional or OneZone. It is absent until the operator knows. The phase does not depend on it.
	ConditionMountable = "Mountable"
)

// SharedVolume creates a PersistentVolumeClaim for an access point of an EFS file system, for all pods in its namespace.
// SharedVolumes in other namespaces can share the same access point. Deleting a SharedVolume deletes its PVC, but never
// data.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=sharedvolumes,singular=sharedvolume,shortName=sv,scope=Namespaced
// +kubebuilder:printcolumn:name="File System",type=string,JSONPath=`.spec.fileSystemID`
// +kubebuilder:printcolumn:name="Access Point",type=string,JSONPath=`.spec.accessPointID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.status.claimRef.name`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
type SharedVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the access point. It is immutable: for another access point, create another SharedVolume.
	Spec SharedVolumeSpec `json:"spec,omitempty"`
	// status is the observed state, which the operator reports.
	//
	// +kubebuilder:default={phase: "Pending"}
	Status SharedVolumeStatus `json:"status,omitempty"`
}

// SharedVolumeSpec names an access point of a file system.
//
// The patterns must accept objects that are already stored. A ValidatingAdmissionPolicy is stricter with new ones.
type SharedVolumeSpec struct {
	// fileSystemID is the ID of the EFS file system, such as fs-0123456789abcdef0. It is immutable.
	//
	// +kubebuilder:validation:Pattern=`^fs-[0-9a-f]+$`
	FileSystemID string `json:"fileSystemID"`
	// accessPointID is the ID of an access point of that file system, such as fsap-0123456789abcdef0. It is immutable.
	//
	// +kubebuilder:validation:Pattern=`^fsap-[0-9a-f]+$`
	AccessPointID string `json:"accessPointID"`
}

// SharedVolumeStatus is the observed state of a SharedVolume.
type SharedVolumeStatus struct {
	// claimRef names the PVC for pods, in the namespace of the SharedVolume.
	//
	// +optional
	ClaimRef ClaimReference `json:"claimRef,omitempty"`
	// phase summarizes the conditions: Pending, Ready, Deleting or Failed. Ready means that the PVC is bound.
	//
	// +kubebuilder:default=Pending
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// message says what is wrong, or what the operator waits for, and what to do. It is empty without a problem.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// volumeName is the name of the PersistentVolume.
	//
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// observedGeneration is the generation of the SharedVolume that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready, Bound and DriverInstalled; also Allowed if the namespace has limits, and Mountable if the
	// operator can check AWS.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClaimReference names a PVC in the namespace of the SharedVolume.
type ClaimReference struct {
	// apiGroup is empty, because PVCs are in the core API group.
	//
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// kind is PersistentVolumeClaim.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	// name is the name of the PVC.
	//
	// +optional
	Name string `json:"name,omitempty"`
}

// SharedVolumeList is a list of SharedVolumes.
//
// +kubebuilder:object:root=true
type SharedVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SharedVolume `json:"items"`
}
