package sharedvolume

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

func owner(namespace, name string) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-of-" + "sv"},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: "fs-1234cdef", AccessPointID: "fsap-0123456789abcdef"},
	}
}

func TestVolumeAndClaimNameEachOtherFromTheStart(t *testing.T) {
	sv := owner("proj2", "sv1")
	volume := newVolume(sv, volumeName(sv.Namespace, sv.Name))
	claim := newClaim(sv, volume.Name)
	if volume.Name != "pv-proj2-sv1" || claim.Name != "pvc-sv1" {
		t.Errorf("names %s and %s, want those of the manual", volume.Name, claim.Name)
	}
	if ref := volume.Spec.ClaimRef; ref.Namespace != claim.Namespace || ref.Name != claim.Name || claim.Spec.VolumeName != volume.Name {
		t.Errorf("the volume is for %v, the claim %s/%s wants %s", ref, claim.Namespace, claim.Name, claim.Spec.VolumeName)
	}
	if got, ok := shareOf(volume); !ok || got != (share{"fs-1234cdef", "fsap-0123456789abcdef"}) {
		t.Errorf("share %v %v", got, ok)
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Error("the data would go with the volume")
	}
	if refs := claim.OwnerReferences; len(refs) != 1 || refs[0].UID != sv.UID {
		t.Errorf("owner %v: the claim would not go with its SharedVolume", refs)
	}
	if diff := cmp.Diff(volume.Labels, claim.Labels); diff != "" {
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
			volumeName(sv.Namespace, sv.Name), sv.Namespace + "/" + claimName(sv.Name),
			otherVolumeName(sv.Namespace, sv.Name, "one"), otherVolumeName(sv.Namespace, sv.Name, "two"),
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
		for key, value := range labels(sv) {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("label %s=%s: %v", key, value, problems)
			}
		}
	}
	if volumeName("a", "b-c") != volumeName("a-b", "c") {
		t.Error("the usual names collide no more; then the other name is not needed")
	}
	if otherVolumeName("a", "b-c", "1") == otherVolumeName("a-b", "c", "2") {
		t.Error("the other names collide")
	}
}

func TestSharesOfOlderVolumesAreUnderstood(t *testing.T) {
	volume := func(driver, handle string, options ...string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			MountOptions:           options,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}},
		}}
	}
	want := share{"fs-1234cdef", "fsap-01234567"}
	for name, good := range map[string]*corev1.PersistentVolume{
		"today":                        volume(DriverName, "fs-1234cdef::fsap-01234567"),
		"drivers 3.0 to 3.4":           volume(DriverName, "efs:fs-1234cdef::fsap-01234567"),
		"before June 2020":             volume(DriverName, "fs-1234cdef", "tls", "accesspoint=fsap-01234567"),
		"before June 2020, one option": volume(DriverName, "fs-1234cdef", "accesspoint=fsap-01234567"),
	} {
		if got, ok := shareOf(good); !ok || got != want {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for name, bad := range map[string]*corev1.PersistentVolume{
		"no CSI volume":         {},
		"another driver":        volume("ebs.csi.aws.com", "fs-1234cdef::fsap-01234567"),
		"a path":                volume(DriverName, "fs-1234cdef:/path:fsap-01234567"),
		"no access point":       volume(DriverName, "fs-1234cdef"),
		"two parts":             volume(DriverName, "fs-1234cdef:fsap-01234567"),
		"four parts":            volume(DriverName, "fs-1234cdef:::fsap-01234567"),
		"two access points":     volume(DriverName, "fs-1234cdef", "accesspoint=fsap-1", "accesspoint=fsap-2"),
		"an option in an ID":    volume(DriverName, "fs-1234cdef", "accesspoint=fsap-1,noresvport"),
		"a line in an ID":       volume(DriverName, "fs-1234cdef\n::fsap-01234567"),
		"capitals":              volume(DriverName, "fs-1234CDEF::fsap-01234567"),
		"the IDs are exchanged": volume(DriverName, "fsap-01234567::fs-1234cdef"),
		"nothing":               volume(DriverName, ""),
	} {
		if got, ok := shareOf(bad); ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
}

// Whatever a volume says, a share that is read from it says the same when it is written again.
func FuzzShareOf(f *testing.F) {
	for _, handle := range []string{"fs-1::fsap-2", "efs:fs-1::fsap-2", "fs-1", "fs-1:/p:fsap-2", "::", "fs-1::fsap-2,x"} {
		f.Add(handle, "accesspoint=fsap-3")
	}
	f.Fuzz(func(t *testing.T, handle, option string) {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			MountOptions:           []string{option},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: DriverName, VolumeHandle: handle}},
		}}
		found, ok := shareOf(volume)
		if !ok {
			return
		}
		if strings.ContainsAny(found.handle(), ",/ \n\t") || strings.Count(found.handle(), ":") != 2 {
			t.Errorf("handle %q", found.handle())
		}
		volume.Spec.CSI.VolumeHandle, volume.Spec.MountOptions = found.handle(), nil
		if again, ok := shareOf(volume); !ok || again != found {
			t.Errorf("%v became %v %v", found, again, ok)
		}
	})
}

// The schema and the controller agree on what an ID is.
func FuzzIsID(f *testing.F) {
	for _, id := range []string{"fs-1", "fsap-1", "fs-", "fs-G", "fs-1 ", "fs-1\n", "1", "fs-fs-1", "fs-１"} {
		f.Add(id)
	}
	schema := regexp.MustCompile(`^fs-[0-9a-f]+$`)
	f.Fuzz(func(t *testing.T, id string) {
		if got, want := isID("fs-", id), schema.MatchString(id); got != want {
			t.Errorf("%q: %v, the schema says %v", id, got, want)
		}
	})
}
