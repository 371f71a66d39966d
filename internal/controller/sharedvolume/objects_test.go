package sharedvolume

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

func owner(namespace, name string) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-of-" + "sv"},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: "fs-1234cdef", AccessPointID: "fsap-0123456789abcdef"},
	}
}

func TestVolumeAndPVCNameEachOtherFromTheStart(t *testing.T) {
	sv := owner("proj2", "sv1")
	volume := newVolume(sv, plainVolumeName(sv.Namespace, sv.Name), "uid-of-pvc")
	pvc := newPVC(sv, volume.Name)
	if volume.Name != "pv-proj2-sv1" || pvc.Name != "pvc-sv1" {
		t.Errorf("names %s and %s, want those of the manual", volume.Name, pvc.Name)
	}
	if ref := volume.Spec.ClaimRef; ref.Namespace != pvc.Namespace || ref.Name != pvc.Name || pvc.Spec.VolumeName != volume.Name {
		t.Errorf("the volume is for %v, the PVC %s/%s wants %s", ref, pvc.Namespace, pvc.Name, pvc.Spec.VolumeName)
	}
	if got, ok := efs.ShareOf(volume); !ok || got != (efs.Share{FileSystem: "fs-1234cdef", AccessPoint: "fsap-0123456789abcdef"}) {
		t.Errorf("share %v %v", got, ok)
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Error("the data would go with the volume")
	}
	if refs := pvc.OwnerReferences; len(refs) != 1 || refs[0].UID != sv.UID {
		t.Errorf("owner %v: the PVC would not go with its SharedVolume", refs)
	}
	if diff := cmp.Diff(volume.Labels, pvc.Labels); diff != "" {
		t.Errorf("labels differ:\n%s", diff)
	}
}

func TestNamesFitAndStayDifferent(t *testing.T) {
	long := strings.Repeat("n", 253)
	seen := map[string]string{}
	for _, sv := range []*v1alpha1.SharedVolume{
		owner("a", "b-c"), owner("ns", long), owner("ns", long[:252]+"m"), owner("other", long), owner("ns", strings.Repeat("a.", 126)+"b"),
	} {
		for _, name := range []string{
			plainVolumeName(sv.Namespace, sv.Name), sv.Namespace + "/" + pvcName(sv.Name),
			uniqueVolumeName(sv.Namespace, sv.Name, "one"), uniqueVolumeName(sv.Namespace, sv.Name, "two"),
		} {
			if before, taken := seen[name]; taken {
				t.Errorf("%s is the name for %s and %s/%s", name, before, sv.Namespace, sv.Name)
			}
			seen[name] = sv.Namespace + "/" + sv.Name
			_, object, hasNamespace := strings.Cut(name, "/")
			if !hasNamespace {
				object = name
			}
			if problems := validation.IsDNS1123Subdomain(object); len(problems) > 0 {
				t.Errorf("%s is no name: %v", object, problems)
			}
		}
		for key, value := range labels(sv.Namespace, sv.Name) {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("label %s=%s: %v", key, value, problems)
			}
		}
	}
	if plainVolumeName("a", "b-c") != plainVolumeName("a-b", "c") {
		t.Error("the usual names collide no more; then the other name is not needed")
	}
	if uniqueVolumeName("a", "b-c", "1") == uniqueVolumeName("a-b", "c", "2") {
		t.Error("the other names collide")
	}
}
