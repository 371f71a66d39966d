package openshift

import (
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Singleton is the name that the only object of each configuration kind has.
	Singleton = "cluster"
	// NotWantedAnnotation on a ClusterCSIDriver says that the cluster's platform has changed. The value of the annotation is the new platform. The
	// cluster-storage-operator sets the annotation. Operators remove drivers of the payload only if the annotation is set.
	NotWantedAnnotation = "storage.openshift.io/not-wanted"
	// ManagedByLabel is on every object that an operator of this repository applies. The value of the label is the operator's name. Pruning and removal
	// consider only objects with this label.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedAnnotation marks a CSIDriver that the cluster manages. OpenShift's operators write "true" (openshift/vmware-vsphere-csi-driver-operator
	// 030ff0e3, pkg/operator/utils/constants.go), and so do ours.
	ManagedAnnotation = "csi.openshift.io/managed"
)

// IsManaged reports whether the annotation says that the cluster manages a CSIDriver. If the value is not "true", operators of the cluster do not
// adopt a CSIDriver that another program or an administrator created.
func IsManaged(annotations map[string]string) bool { return annotations[ManagedAnnotation] == "true" }

// ManageCommand returns a command. With this command, an administrator lets the cluster manage a CSIDriver.
func ManageCommand(name string) string {
	return "oc annotate csidriver " + name + " " + ManagedAnnotation + "=true --overwrite"
}

// Manages reports whether an operator of the cluster created a CSIDriver, or is allowed to adopt it.
func Manages(object *storagev1.CSIDriver, operator string) bool {
	return object.Labels[ManagedByLabel] == operator || IsManaged(object.Annotations)
}

// InfrastructureKind returns the kind of the object with the cluster's name, platform and topology.
func InfrastructureKind() schema.GroupKind { return config("Infrastructure") }

// ProxyKind returns the kind of the cluster's proxy.
func ProxyKind() schema.GroupKind { return config("Proxy") }

// FeatureGateKind returns the kind of the object that lists the feature gates of the API servers.
func FeatureGateKind() schema.GroupKind { return config("FeatureGate") }

// APIServerKind returns the kind with the cluster's TLS profile. APIServerKind includes a version, because the operator reads this kind unstructured.
func APIServerKind() schema.GroupVersionKind { return configv1.GroupVersion.WithKind("APIServer") }

// ClusterCSIDriverKind returns the kind of the objects that configure drivers.
func ClusterCSIDriverKind() schema.GroupVersionKind {
	return operatorv1.GroupVersion.WithKind("ClusterCSIDriver")
}

// CloudCredentialKind returns the kind with the mode of the cloud-credential-operator.
func CloudCredentialKind() schema.GroupKind {
	return schema.GroupKind{Group: operatorv1.GroupName, Kind: "CloudCredential"}
}

func config(kind string) schema.GroupKind {
	return schema.GroupKind{Group: configv1.GroupName, Kind: kind}
}

// APIServer returns an empty object, for reads or watches of the APIServer.
func APIServer() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(APIServerKind())
	return object
}
