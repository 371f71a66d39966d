// Package releases holds all that is applied against the CustomResourceDefinitions and the Kubernetes of every OpenShift that is
// supported. One control plane, which has the feature gates of the oldest Kubernetes that it can emulate, gets the CRDs of one release
// after the other while the operators run.
package releases

import "fmt"

// release is a version of OpenShift with what it brings. An earlier patch release is stricter than a later one.
type release struct {
	version string
	// api is the version of github.com/openshift/api that an operator of the release was built with: the name is in the go.mod of its
	// branch release-<version>.
	api string
	// monitoring is the version of prometheus-operator in jsonnet/versions.yaml, or of the CRD in manifests/, of
	// openshift/cluster-monitoring-operator, branch release-<version>. Where the Go module proxy lacks it, it is the next patch version,
	// whose schema is the same.
	monitoring string
	// kubernetes is a version of k8s.io/client-go of the release's Kubernetes.
	kubernetes string
}

// minor is the number of the release's Kubernetes, such as 28.
func (r release) minor() int {
	var minor, patch int
	_, _ = fmt.Sscanf(r.kubernetes, "v0.%d.%d", &minor, &patch)
	return minor
}

// releases are promised by the guide, the oldest one first.
func releases() []release {
	return []release{
		{"4.15", "v0.0.0-20240228005710-4511c790cc60", "v0.70.0", "v0.28.8"}, // openshift/cluster-storage-operator
		{"4.16", "v0.0.0-20240530231226-9d1c2e5ff5a8", "v0.73.2", "v0.29.6"}, // openshift/cluster-storage-operator
		{"4.17", "v0.0.0-20240724184751-84047ef4a2ce", "v0.75.1", "v0.30.4"}, // openshift/vmware-vsphere-csi-driver-operator
		{"4.18", "v0.0.0-20241105204636-dfe4d9fc5cef", "v0.78.2", "v0.31.4"}, // openshift/cluster-storage-operator
		{"4.19", "v0.0.0-20250320170726-75d64d71980b", "v0.81.0", "v0.32.3"}, // openshift/csi-operator
		{"4.20", "v0.0.0-20250807013041-3315d665549f", "v0.85.0", "v0.33.2"}, // openshift/csi-operator
		{"4.21", "v0.0.0-20251111193948-50e2ece149d7", "v0.87.1", "v0.34.3"}, // openshift/cluster-storage-operator
		{"4.22", "v0.0.0-20260317165824-54a3998d81eb", "v0.90.1", "v0.35.4"}, // openshift/cluster-storage-operator
		{"4.23", "v0.0.0-20260721120239-14262bf791c8", "v0.93.0", "v0.36.3"}, // openshift/cluster-storage-operator
	}
}

// monitoring76 is the prometheus-operator that a user met whose cluster refused our ServiceMonitor.
const monitoring76 = "v0.76.2"

// The feature sets of OpenShift whose CRDs differ.
func featureSets() []string { return []string{"Default", "TechPreviewNoUpgrade"} }

// needed are the CRDs of openshift/api whose objects the operators read or write, or manifests bring.
func needed() []string {
	return []string{
		"apiservers.config.openshift.io", "authentications.config.openshift.io", "clusteroperators.config.openshift.io",
		"clusterversions.config.openshift.io", "featuregates.config.openshift.io", "imagedigestmirrorsets.config.openshift.io",
		"imagetagmirrorsets.config.openshift.io", "infrastructures.config.openshift.io", "proxies.config.openshift.io",
		"cloudcredentials.operator.openshift.io", "clustercsidrivers.operator.openshift.io", "storages.operator.openshift.io",
		"securitycontextconstraints.security.openshift.io", "consoleclidownloads.console.openshift.io",
		"consolequickstarts.console.openshift.io", "consoleyamlsamples.console.openshift.io",
	}
}

// monitored are the CRDs of prometheus-operator.
func monitored() []string {
	return []string{"prometheusrules.monitoring.coreos.com", "servicemonitors.monitoring.coreos.com"}
}
