package volume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
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

func TestClassesOfInTreePluginsBelongToTheDriversThatProvision(t *testing.T) {
	for _, plugin := range plugins() {
		if got := Provisioner(plugin.provisioner); got != plugin.driver {
			t.Errorf("%s is provisioned by %q, want %q", plugin.provisioner, got, plugin.driver)
		}
		if got := InTree(plugin.driver); got != plugin.provisioner {
			t.Errorf("driver %s replaces %q, want %q", plugin.driver, got, plugin.provisioner)
		}
		if got := Provisioner(plugin.driver); got != plugin.driver {
			t.Errorf("driver %s is provisioned by %q", plugin.driver, got)
		}
	}
	for _, other := range []string{"efs.csi.aws.com", "kubernetes.io/no-provisioner", "kubernetes.io/portworx-volume", ""} {
		if got := Provisioner(other); got != other || InTree(other) != "" {
			t.Errorf("%q is provisioned by %q, and replaces %q", other, got, InTree(other))
		}
	}
}

// A pod can name an in-tree volume without a PersistentVolumeClaim. It would hang without the driver, like any other pod with a volume of it.
func TestAPodWithAnInTreeVolumeButNoPVCUsesTheDriver(t *testing.T) {
	pods := []client.Object{}
	for name, source := range map[string]corev1.VolumeSource{
		"ebs":     {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
		"pd":      {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}},
		"disk":    {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "disk"}},
		"file":    {AzureFile: &corev1.AzureFileVolumeSource{ShareName: "share"}},
		"cinder":  {Cinder: &corev1.CinderVolumeSource{VolumeID: "volume"}},
		"vsphere": {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] a/b.vmdk"}},
		"nfs":     {NFS: &corev1.NFSVolumeSource{}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
		ended := pod.DeepCopy()
		ended.Name, ended.Status.Phase = name+"-ended", corev1.PodSucceeded
		pods = append(pods, pod, ended)
	}
	reader := canned.New(scheme.Scheme, pods...)
	for driver, want := range map[string][]string{
		"ebs.csi.aws.com": {"default/ebs"}, "pd.csi.storage.gke.io": {"default/pd"}, "disk.csi.azure.com": {"default/disk"},
		"file.csi.azure.com": {"default/file"}, "cinder.csi.openstack.org": {"default/cinder"}, "csi.vsphere.vmware.com": {"default/vsphere"},
		"efs.csi.aws.com": {},
	} {
		volumes, err := OfDriver(t.Context(), reader, driver)
		if err != nil {
			t.Fatal(err)
		}
		users, err := volumes.Users(t.Context(), reader)
		if diff := cmp.Diff(want, Pods(users)); diff != "" || err != nil {
			t.Errorf("%s: users (-want +got):\n%s%v", driver, diff, err)
		}
	}
}
