// Package volume finds the CSI driver of a PersistentVolume, and the pods that use PersistentVolumes.
package volume

import (
	corev1 "k8s.io/api/core/v1"
)

// DriverOf returns the name of the CSI driver that serves a volume. For an in-tree volume, it returns the driver of CSI migration (KEP-625). For
// other volumes, it returns an empty text.
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
