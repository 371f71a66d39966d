// Package v1alpha1 is the SharedVolume API, aws-efs.managed.openshift.io/v1alpha1: a PVC from two IDs, for developers who
// have no RBAC on the cluster.
//
// The API is that of the community's aws-efs-operator (seed "AWS EFS Operator for OpenShift Dedicated"). Objects that it
// has stored are read and work unchanged; what is new is optional and in the status.
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

// Phase sums up where a SharedVolume is.
type Phase string

// The phases that the community's operator had.
const (
	// Pending means that the volume or its PVC is still to be made or bound.
	Pending Phase = "Pending"
	// Ready means that the PVC is bound.
	Ready Phase = "Ready"
	// Deleting means that the SharedVolume waits for its PVC and volume to go.
	Deleting Phase = "Deleting"
	// Failed means that something is wrong; the message says what, and what to do.
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
	// ConditionAllowed says whether the namespace may use the access point. It is absent where nobody limits that. A PVC
	// that is bound stays so when it is False.
	ConditionAllowed = "Allowed"
	// ConditionMountable says whether AWS has what pods need to mount the share: False with what is missing, else True with the
	// reason Regional or OneZone. It is absent as long as the operator does not know. The phase does not depend on it.
	ConditionMountable = "Mountable"
)

// SharedVolume makes a PersistentVolumeClaim for an access point of an EFS file system, in its namespace and for all pods
// there. SharedVolumes in other namespaces can share the same access point. Deleting a SharedVolume deletes its PVC and
// never data.
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

	// spec names the access point. It is not meant to be changed: make another SharedVolume for another access point.
	Spec SharedVolumeSpec `json:"spec,omitempty"`
	// status is what the operator says.
	//
	// +kubebuilder:default={phase: "Pending"}
	Status SharedVolumeStatus `json:"status,omitempty"`
}

// SharedVolumeSpec names an access point of a file system.
//
// The patterns are as wide as those of objects that are already stored; a ValidatingAdmissionPolicy asks more of new ones.
type SharedVolumeSpec struct {
	// fileSystemID is the ID of the EFS file system, such as fs-0123456789abcdef0. It can't be changed.
	//
	// +kubebuilder:validation:Pattern=`^fs-[0-9a-f]+$`
	FileSystemID string `json:"fileSystemID"`
	// accessPointID is the ID of an access point of that file system, such as fsap-0123456789abcdef0. It can't be changed.
	//
	// +kubebuilder:validation:Pattern=`^fsap-[0-9a-f]+$`
	AccessPointID string `json:"accessPointID"`
}

// SharedVolumeStatus is what the operator says about a SharedVolume.
type SharedVolumeStatus struct {
	// claimRef names the PVC that pods use; it is in the namespace of the SharedVolume.
	//
	// +optional
	ClaimRef ClaimReference `json:"claimRef,omitempty"`
	// phase sums the conditions up: Pending, Ready, Deleting or Failed. Ready means that the PVC is bound.
	//
	// +kubebuilder:default=Pending
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// message says what is wrong or waited for, and what to do. It is empty if all is well.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// volumeName is the name of the PersistentVolume.
	//
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// observedGeneration is the generation of the SharedVolume that the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Ready, Bound and DriverInstalled, with a reason each; Allowed where the namespace is limited, and Mountable
	// where the operator can ask AWS.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClaimReference names a PVC in the namespace of the SharedVolume.
type ClaimReference struct {
	// apiGroup is empty: PVCs are in Kubernetes' core group.
	//
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// kind is PersistentVolumeClaim.
	//
	// +optional
	Kind string `json:"kind,omitempty"`
	// name is that of the PVC.
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
