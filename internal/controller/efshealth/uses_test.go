package efshealth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestAllFormsOfVolumesAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		handle     string
		attributes map[string]string
		options    []string
		affinity   bool
		want       *volume
	}{
		"a file system":          {handle: "fs-11111111", want: &volume{fileSystem: regional}},
		"an access point":        {handle: "fs-11111111::fsap-11111111", want: &volume{fileSystem: regional, accessPoint: point}},
		"a path":                 {handle: "fs-11111111:/a:fsap-11111111", want: &volume{fileSystem: regional, accessPoint: point}},
		"with the prefix of 3.0": {handle: "efs:fs-11111111::fsap-11111111", want: &volume{fileSystem: regional, accessPoint: point}},
		"an option of 2020":      {handle: "fs-11111111", options: []string{"tls", "accesspoint=fsap-11111111"}, want: &volume{fileSystem: regional, accessPoint: point}},
		"with a zone":            {handle: "fs-11111111", options: []string{"az=us-east-1a"}, want: &volume{fileSystem: regional}},
		"with node affinity":     {handle: "fs-11111111", affinity: true, want: &volume{fileSystem: regional, placed: true}},
		"of S3":                  {handle: "s3files:fs-11111111"},
		"by address":             {handle: "fs-11111111", attributes: map[string]string{"mounttargetip": "10.0.0.1"}, want: &volume{fileSystem: regional, remote: true}},
		"of another account":     {handle: "fs-11111111", attributes: map[string]string{"crossaccount": "true"}, want: &volume{fileSystem: regional, remote: true}},
		"no ID":                  {handle: "fs-1111111"},
		"capitals":               {handle: "fs-1111111A"},
		"more than an ID":        {handle: "fs-11111111::fsap-11111111:x"},
		"nothing":                {handle: ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				MountOptions: test.options,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: efs.DriverName, VolumeHandle: test.handle, VolumeAttributes: test.attributes,
				}},
			}}
			if test.affinity {
				object.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
			}
			got, ok := volumeOf(object, efs.DriverName)
			if ok != (test.want != nil) {
				t.Fatalf("is one of the driver: %t", ok)
			}
			if test.want != nil {
				test.want.name = "pv"
				if diff := cmp.Diff(*test.want, got, cmp.AllowUnexported(volume{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if _, ok := volumeOf(object, "other.driver"); ok {
				t.Error("it is taken for one of another driver")
			}
		})
	}
}

func TestClassesOfThisAccountAreRead(t *testing.T) {
	type parameters = map[string]string
	for name, test := range map[string]struct {
		provisioner string
		parameters  parameters
		options     []string
		want        *class
	}{
		"with a file system":  {efs.DriverName, parameters{"fileSystemId": regional}, nil, &class{name: "sc", fileSystem: regional}},
		"with zone affinity":  {efs.DriverName, parameters{"fileSystemId": regional, "enforceZoneAffinity": "true"}, nil, &class{name: "sc", fileSystem: regional, placed: true}},
		"with a zone":         {efs.DriverName, parameters{"fileSystemId": regional}, []string{"tls", "az=us-east-1a"}, &class{name: "sc", fileSystem: regional, placed: true}},
		"the parameter az":    {efs.DriverName, parameters{"fileSystemId": regional, "az": "us-east-1a"}, nil, &class{name: "sc", fileSystem: regional}},
		"without":             {efs.DriverName, nil, nil, nil},
		"of another driver":   {"other.driver", parameters{"fileSystemId": regional}, nil, nil},
		"of another account":  {efs.DriverName, parameters{"fileSystemId": regional, "csi.storage.k8s.io/provisioner-secret-name": "x"}, nil, nil},
		"with something else": {efs.DriverName, parameters{"fileSystemId": "fs-1,x"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stripped, err := stripClass(&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "sc"}, Provisioner: test.provisioner, Parameters: test.parameters, MountOptions: test.options,
			})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := classOf(stripped.(*storagev1.StorageClass), efs.DriverName)
			if ok != (test.want != nil) || ok && got != *test.want {
				t.Errorf("%+v, %t", got, ok)
			}
		})
	}
}

func TestAFingerprintChangesWithWhatAWSIsAskedAbout(t *testing.T) {
	base, _ := healthy()
	for name, change := range map[string]func(*uses){
		"a volume":        func(u *uses) { u.volumes = u.volumes[1:] },
		"an access point": func(u *uses) { u.volumes[0].accessPoint = other },
		"a class":         func(u *uses) { u.classes = u.classes[1:] },
		"a zone":          func(u *uses) { u.zones = u.zones[1:] },
		"its file system": func(u *uses) { u.classes[0].fileSystem = absent },
	} {
		changed, _ := healthy()
		change(&changed)
		if changed.fingerprint() == base.fingerprint() {
			t.Errorf("%s does not count", name)
		}
	}
	same, _ := healthy()
	same.volumes[0].name, same.nodeRole = "renamed", true
	if same.fingerprint() != base.fingerprint() {
		t.Error("what AWS knows nothing of counts")
	}
}

func TestOnlyZonesOfTheRegionCanHaveMountTargets(t *testing.T) {
	for zone, want := range map[string]bool{
		"us-east-1a": true, "us-east-1": false, "us-east-1-bos-1a": false, "us-west-2a": false, "us-east-1-wl1-bos-wlz-1": false, "": false,
	} {
		if isZone(zone, "us-east-1") != want {
			t.Errorf("%q: want %t", zone, want)
		}
	}
}

func TestCredentialsAreKnownByAHashOfWhatIsOfUse(t *testing.T) {
	credentials := driver.Credentials{Secret: secretName, Keys: [][]string{{"role"}, {"id", "key"}}, Optional: true}
	made := func(annotations map[string]string, pairs ...string) *corev1.Secret {
		one := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: secretName, Annotations: annotations}, Data: map[string][]byte{}}
		for i := 0; i < len(pairs); i += 2 {
			one.Data[pairs[i]] = []byte(pairs[i+1])
		}
		return one
	}
	passed := map[string]string{driver.PolicyAnnotation: ""}
	hashOf := func(required bool, objects ...client.Object) string {
		t.Helper()
		r, _ := onAWS(t, &region{}, objects...)
		one := credentials
		one.Optional = !required
		hash, err := r.hashOf(t.Context(), secretName, one)
		if err != nil {
			t.Fatal(err)
		}
		r.Node = one
		if has, err := r.hasNodeRole(t.Context()); err != nil || has != (hash != "") {
			t.Errorf("it has a role: %t, error %v", has, err)
		}
		return hash
	}
	for name, hash := range map[string]string{
		"absent": hashOf(false), "empty": hashOf(false, made(nil)), "half": hashOf(false, made(nil, "id", "x")),
		"the administrator's own": hashOf(false, made(passed, "role", "x")),
	} {
		if hash != "" {
			t.Errorf("%s: of use", name)
		}
	}
	known := map[string]string{}
	for name, hash := range map[string]string{
		"a role": hashOf(false, made(nil, "role", "x")), "another role": hashOf(false, made(nil, "role", "y")), "keys": hashOf(false, made(nil, "id", "x", "key", "y")),
		"keys with a line end": hashOf(false, made(nil, "id", "x\nkey:y", "key", "z")), "keys that look like these": hashOf(false, made(nil, "id", "x", "key", "y\nkey:z")),
		"more": hashOf(false, made(nil, "role", "x", "other", "y")),
	} {
		if before := known[hash]; hash == "" || before != "" {
			t.Errorf("%s: hash %q, that of %s", name, hash, before)
		}
		known[hash] = name
	}
	if known[hashOf(true, made(passed, "role", "x"))] != "a role" {
		t.Error("what the controller must have is withheld from it")
	}
}
