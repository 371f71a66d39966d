package awsefs

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// published is a volume, and which versions of the real driver refused it: NodePublishVolume of pkg/driver/node.go at each version of
// publishers, called with a mounter that does nothing. "1.0.0-0" is commit 778131e, which the community's operator installs.
type published struct {
	Name       string                            `json:"name"`
	Handle     string                            `json:"handle"`
	Mode       corev1.PersistentVolumeAccessMode `json:"mode"`
	Attributes map[string]string                 `json:"attributes"`
	Options    []string                          `json:"options"`
	Block      bool                              `json:"block"`
	RefusedBy  []string                          `json:"refusedBy"`
}

func (p published) volume() *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{}
	volume.Name, volume.Spec.AccessModes, volume.Spec.MountOptions = p.Name, []corev1.PersistentVolumeAccessMode{p.Mode}, p.Options
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: Name, VolumeHandle: p.Handle, VolumeAttributes: p.Attributes}
	if p.Block {
		volume.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	return volume
}

func readPublished(t *testing.T) []published {
	t.Helper()
	data, err := os.ReadFile("testdata/published-volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []published
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 20 {
		t.Fatal(len(all), err)
	}
	return all
}

// The table refuses what the real driver refused, and nothing else.
func TestTheTableRefusesTheVolumesThatTheRealDriverRefuses(t *testing.T) {
	publishers := []string{"1.0.0-0", "1.7.7", "2.1.15", "2.3.1", "3.0.0", "3.0.1", "3.4.1"}
	refused := map[string]bool{}
	for _, one := range readPublished(t) {
		for _, version := range publishers {
			problems, want := accepts().At(version).Volume(one.volume()), slices.Contains(one.RefusedBy, version)
			if want != (len(problems) > 0) {
				t.Errorf("%s, version %s: the real driver refuses it is %v, the table says %q", one.Name, version, want, problems)
			}
			refused[version] = refused[version] || want
		}
	}
	for _, version := range publishers {
		if !refused[version] {
			t.Errorf("version %s refused nothing", version)
		}
	}
}

// The sources of 3.5.0 have not been run here: its pull request says that each address of the map is checked.
func TestDriversFrom35OnRefuseMapsWithWhatIsNoAddress(t *testing.T) {
	for value, refused := range map[string]bool{
		`{"us-east-1a":"10.0.0.1","us-east-1b":"fd00::1"}`: false,
		`{"us-east-1a":"10.0.0.1,noexec"}`:                 true,
		`{"us-east-1a":"10.0.0.1","us-east-1b":""}`:        true,
		`{}`: false,
	} {
		volume := published{Handle: "fs-12345678", Mode: corev1.ReadWriteMany, Attributes: map[string]string{targetIPs: value}}.volume()
		if problems := accepts().At("3.4.2").Volume(volume); len(problems) > 0 {
			t.Errorf("3.4.2, %s: %q", value, problems)
		}
		if problems := accepts().At("3.5.0").Volume(volume); refused != (len(problems) > 0) {
			t.Errorf("3.5.0, %s: %q", value, problems)
		}
	}
}

// Who followed the advice gets a volume that the newest driver accepts.
func TestTheAdviceForAPathNamesAHandleThatTheDriverAccepts(t *testing.T) {
	for handle, want := range map[string]string{
		"fs-12345678":         `a new PersistentVolume with volumeHandle "fs-12345678:/a/b", and without attribute path`,
		"fs-12345678::":       `a new PersistentVolume with volumeHandle "fs-12345678:/a/b:", and without attribute path`,
		"fs-12345678:/x":      `a new PersistentVolume with volumeHandle "fs-12345678:/x", and without attribute path`,
		"fs-12345678::fsap-0": `a new PersistentVolume with volumeHandle "fs-12345678:/a/b:fsap-0", and without attribute path`,
	} {
		volume := published{Handle: handle, Mode: corev1.ReadWriteMany, Attributes: map[string]string{"Path": "/a/b"}}.volume()
		problems := accepts().At("3.4.1").Volume(volume)
		if len(problems) == 0 || problems[0].Instead != want {
			t.Errorf("%s: %q, want %q", handle, problems, want)
		}
	}
}

// Differences that no version refuses.
func TestAChangeIsSeenInItsVolumesOnly(t *testing.T) {
	for index, tc := range []struct {
		has, lacks published
	}{
		{published{Handle: "fs-12345678"}, published{Handle: "fs-12345678", Options: []string{"tls"}}},
		{published{Attributes: map[string]string{"mountTargetIp": "10.0.0.1"}}, published{Attributes: map[string]string{"mounttargetip": "10.0.0.1"}}},
		{published{Options: []string{"awscredsuri=/x"}}, published{Options: []string{"awsprofile=x"}}},
		{published{Options: []string{"iam"}}, published{}},
	} {
		change := changes()[index]
		if !change.Has(tc.has.volume()) || change.Has(tc.lacks.volume()) || change.What == "" || change.Source == "" {
			t.Errorf("%s: %v, %v", change.What, tc.has, tc.lacks)
		}
	}
	static := published{Handle: "fs-12345678::fsap-01234567"}.volume()
	static.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	last := changes()[len(changes())-1]
	if !last.Has(static) {
		t.Error("a static volume with policy Delete")
	}
	if static.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": Name}; last.Has(static) {
		t.Error("a volume of the driver")
	}
}
