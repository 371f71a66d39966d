// Package vspherehealth checks a cluster's vCenters: whether their versions, the nodes' VMs, datastores, tags and permissions let the CSI driver
// work. It replaces the checks of two programs. Each check names the program of its threshold:
//
//   - operator: openshift/vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/vspherecontroller/checks
//   - detector: openshift/vsphere-problem-detector b2f09a5b, pkg/check
//
// Checks are pure functions. For a vCenter that does not answer, the earlier findings stay in the conditions.
//
// read.go returns the subject of a poll (Want). Each new Snapshot of cloud/vsphere triggers reconciler.go, evaluate runs the checks,
// conditions.go turns their findings into conditions, and reconciler.go writes these. The ClusterCSIDriver controller reads through derived.Cloud
// whether it may install the driver (Facts). Why: docs/decisions/0045, 0046 and 0047.
package vspherehealth
