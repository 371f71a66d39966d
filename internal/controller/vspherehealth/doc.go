// Package vspherehealth checks whether the CSI driver can work with a cluster's vCenters. The checks read versions, VMs of nodes, datastores, tags
// and permissions. They replace the checks of two programs. The comment of each check names the repository, the commit and the file from which the
// check comes. For a file without a folder, this list has the folder:
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
