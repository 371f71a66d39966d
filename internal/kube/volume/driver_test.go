package volume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Old clusters are full of volumes that name no CSI driver and are served by one all the same.
func TestVolumesOfInTreePluginsBelongToTheDriversThatServeThem(t *testing.T) {
	for want, source := range map[string]corev1.PersistentVolumeSource{
		"efs.csi.aws.com":          {CSI: &corev1.CSIPersistentVolumeSource{Driver: "efs.csi.aws.com"}},
		"ebs.csi.aws.com":          {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"pd.csi.storage.gke.io":    {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}},
		"disk.csi.azure.com":       {AzureDisk: &corev1.AzureDiskVolumeSource{}},
		"file.csi.azure.com":       {AzureFile: &corev1.AzureFilePersistentVolumeSource{}},
		"cinder.csi.openstack.org": {Cinder: &corev1.CinderPersistentVolumeSource{}},
		"csi.vsphere.vmware.com":   {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
		"":                         {NFS: &corev1.NFSVolumeSource{}},
	} {
		if got := DriverOf(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}); got != want {
			t.Errorf("driver %q, want %q", got, want)
		}
	}
}
