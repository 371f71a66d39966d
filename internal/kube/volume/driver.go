// Package volume finds the CSI driver of a PersistentVolume, and the pods that use it.
package volume

import (
	corev1 "k8s.io/api/core/v1"
)

// DriverOf is the name of the CSI driver that serves a volume. In-tree volumes have the driver of CSI migration (KEP-625). It is empty for other
// volumes.
func DriverOf(volume *corev1.PersistentVolume) string {
	source := volume.Spec.PersistentVolumeSource
	switch {
	case source.CSI != nil:
		return source.CSI.Driver
	case source.AWSElasticBlockStore != nil:
		return "ebs.csi.aws.com"
	case source.GCEPersistentDisk != nil:
		return "pd.csi.storage.gke.io"
	case source.AzureDisk != nil:
		return "disk.csi.azure.com"
	case source.AzureFile != nil:
		return "file.csi.azure.com"
	case source.Cinder != nil:
		return "cinder.csi.openstack.org"
	case source.VsphereVolume != nil:
		return "csi.vsphere.vmware.com"
	default:
		return ""
	}
}
