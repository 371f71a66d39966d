package openshift

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DriverNamespace is the namespace of CSI drivers and their operators.
const DriverNamespace = "openshift-cluster-csi-drivers"

// operatorNamespaces returns the namespaces in which operators run.
func operatorNamespaces() []string {
	return []string{DriverNamespace, "openshift-cluster-storage-operator"}
}

func (p Profile) namespaces() []client.Object {
	drivers := namespace(DriverNamespace)
	drivers.Labels = map[string]string{
		"openshift.io/cluster-monitoring":    "true",
		"pod-security.kubernetes.io/audit":   "privileged",
		"pod-security.kubernetes.io/enforce": "privileged",
		"pod-security.kubernetes.io/warn":    "privileged",
	}
	drivers.Annotations = map[string]string{
		"openshift.io/node-selector":    "",
		"workload.openshift.io/allowed": "management",
	}
	all := []client.Object{drivers}
	for _, name := range []string{
		"openshift-cluster-storage-operator", "openshift-cloud-credential-operator", "openshift-monitoring",
		"openshift-operators", "openshift-config", "openshift-config-managed",
	} {
		all = append(all, namespace(name))
	}
	return all
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
