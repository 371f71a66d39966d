// Package vspherehealth checks a cluster's vCenters: whether their versions, the nodes' VMs, datastores, tags and permissions let the CSI driver
// work. It replaces the checks of two programs. The comment of each check names the repository, the commit and the file of its
// limits. If the comment names a file without its folder, the file is in the folder of this list:
//
//   - openshift/vmware-vsphere-csi-driver-operator 030ff0e3: pkg/operator/vspherecontroller/checks
//   - openshift/vsphere-problem-detector b2f09a5b: pkg/check
//
// Checks are pure functions. If a vCenter does not answer, its earlier findings stay in the conditions.
//
// read.go says what a poll must ask the vCenters for (Want). Each new Snapshot of cloud/vsphere triggers reconciler.go. Then evaluate runs the
// checks, conditions.go turns the findings into conditions, and reconciler.go writes the conditions. The ClusterCSIDriver controller reads the Facts
// through derived.Cloud. The Facts say whether that controller may install the driver. The reasons are in docs/decisions/0045, 0046 and 0047.
package vspherehealth
