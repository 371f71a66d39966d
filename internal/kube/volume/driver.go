// Package volume finds the CSI driver of a PersistentVolume, and the pods that use PersistentVolumes.
package volume

import (
	corev1 "k8s.io/api/core/v1"
)

// plugin is an in-tree plugin of Kubernetes. CSI migration (KEP-625) replaces the plugin with a CSI driver: Kubernetes and the sidecars translate the
// plugin's objects (k8s.io/csi-translation-lib v0.36.3, translate.go). test/real compares the names in plugins with the names in Kubernetes.
type plugin struct {
	// provisioner is the name in StorageClasses, and driver is the name of the CSI driver.
	provisioner, driver string
	// serves reports whether a PersistentVolume belongs to the plugin. inline reports whether a volume in a pod belongs to the plugin.
	serves func(*corev1.PersistentVolumeSource) bool
	inline func(*corev1.VolumeSource) bool
}

// plugins returns all plugins. The result is an array, and so needs no allocation, because InlineDriverOf calls plugins for each volume of each pod.
func plugins() [6]plugin {
	return [...]plugin{
		{
			"kubernetes.io/aws-ebs", "ebs.csi.aws.com",
			func(in *corev1.PersistentVolumeSource) bool { return in.AWSElasticBlockStore != nil },
			func(in *corev1.VolumeSource) bool { return in.AWSElasticBlockStore != nil },
		},
		{
			"kubernetes.io/gce-pd", "pd.csi.storage.gke.io",
			func(in *corev1.PersistentVolumeSource) bool { return in.GCEPersistentDisk != nil },
			func(in *corev1.VolumeSource) bool { return in.GCEPersistentDisk != nil },
		},
		{
			"kubernetes.io/azure-disk", "disk.csi.azure.com",
			func(in *corev1.PersistentVolumeSource) bool { return in.AzureDisk != nil },
			func(in *corev1.VolumeSource) bool { return in.AzureDisk != nil },
		},
		{
			"kubernetes.io/azure-file", "file.csi.azure.com",
			func(in *corev1.PersistentVolumeSource) bool { return in.AzureFile != nil },
			func(in *corev1.VolumeSource) bool { return in.AzureFile != nil },
		},
		{
			"kubernetes.io/cinder", "cinder.csi.openstack.org",
			func(in *corev1.PersistentVolumeSource) bool { return in.Cinder != nil },
			func(in *corev1.VolumeSource) bool { return in.Cinder != nil },
		},
		{
			"kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com",
			func(in *corev1.PersistentVolumeSource) bool { return in.VsphereVolume != nil },
			func(in *corev1.VolumeSource) bool { return in.VsphereVolume != nil },
		},
	}
}

// DriverOf returns the name of the CSI driver that serves a volume. For an in-tree volume, it returns the driver of CSI migration (KEP-625). For
// other volumes, it returns an empty text.
func DriverOf(volume *corev1.PersistentVolume) string {
	source := &volume.Spec.PersistentVolumeSource
	if source.CSI != nil {
		return source.CSI.Driver
	}
	for _, plugin := range plugins() {
		if plugin.serves(source) {
			return plugin.driver
		}
	}
	return ""
}

// Provisioner returns the name of the CSI driver that provisions the volumes of a StorageClass with this provisioner. For an in-tree provisioner, it
// returns the driver of CSI migration. It returns any other name unchanged.
func Provisioner(name string) string {
	for _, plugin := range plugins() {
		if plugin.provisioner == name {
			return plugin.driver
		}
	}
	return name
}

// InTree returns the in-tree provisioner that a CSI driver replaces. For other drivers, it returns an empty text.
func InTree(driver string) string {
	for _, plugin := range plugins() {
		if plugin.driver == driver {
			return plugin.provisioner
		}
	}
	return ""
}

// InlineDriverOf returns the name of the CSI driver of an inline volume, which a pod uses without a PersistentVolumeClaim. For an inline volume of an
// in-tree plugin, it returns the driver of CSI migration, because the kubelet also translates inline volumes. For other volumes, it returns an empty
// text.
func InlineDriverOf(volume *corev1.Volume) string {
	if volume.CSI != nil {
		return volume.CSI.Driver
	}
	for _, plugin := range plugins() {
		if plugin.inline(&volume.VolumeSource) {
			return plugin.driver
		}
	}
	return ""
}
