package manila

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// made returns a class as the cluster stores it.
func made(className, shareType string) driver.Class {
	class := classOf(className, shareType)
	return driver.Class{Kind: "StorageClass", Name: class.Name, Provisioner: class.Provisioner, Parameters: class.Parameters}
}

// theirs returns a class of another owner.
func theirs(className, provisioner, shareType string) driver.Class {
	return driver.Class{Kind: "StorageClass", Name: className, Provisioner: provisioner, Parameters: map[string]string{"type": shareType}}
}

// names returns the created classes with their share types.
func names(cfg driver.Config) []string {
	found := []string{}
	for _, class := range classes(cfg) {
		found = append(found, class.Name+"="+class.Parameters[typeParameter])
	}
	slices.Sort(found)
	return found
}

func answer(repeated bool, types ...string) driver.CloudFacts {
	return driver.CloudFacts{Known: true, Repeated: repeated, ShareTypes: types}
}

func TestAClassFollowsEachShareType(t *testing.T) {
	hashed := func(shareType string) string { return hashedName(shareType) + "=" + shareType }
	gold := made("csi-manila-gold", "gold")
	for name, tc := range map[string]struct {
		cfg  driver.Config
		want []string
	}{
		"none": {driver.Config{Cloud: answer(true)}, []string{}},
		"some": {driver.Config{Cloud: answer(true, "default", "Fast_NFS")}, []string{"csi-manila-default=default", "csi-manila-fast-nfs=Fast_NFS"}},
		"names collide": {
			driver.Config{Cloud: answer(true, "Default_NFS", "default-nfs", "DEFAULT-NFS")},
			[]string{"csi-manila-default-nfs=default-nfs", hashed("DEFAULT-NFS"), hashed("Default_NFS")},
		},
		"who was first keeps the name": {
			driver.Config{Cloud: answer(true, "Default_NFS", "default-nfs"), Classes: []driver.Class{made("csi-manila-default-nfs", "Default_NFS")}},
			[]string{"csi-manila-default-nfs=Default_NFS", hashed("default-nfs")},
		},
		"a suffix stays when the name gets free": {
			driver.Config{Cloud: answer(true, "default-nfs"), Classes: []driver.Class{made(hashedName("default-nfs"), "default-nfs")}},
			[]string{hashed("default-nfs")},
		},
		"somebody has the name": {
			driver.Config{Cloud: answer(true, "gold"), Classes: []driver.Class{theirs("csi-manila-gold", "other.example.com", "gold")}}, []string{hashed("gold")},
		},
		"somebody has the name, with our driver": {
			driver.Config{Cloud: answer(true, "gold"), Classes: []driver.Class{theirs("csi-manila-gold", driverName, "silver")}}, []string{hashed("gold")},
		},
		"nobody has asked":            {driver.Config{Classes: []driver.Class{gold, theirs("csi-manila-mine", driverName, "gold")}}, []string{"csi-manila-gold=gold"}},
		"it is gone, says one answer": {driver.Config{Cloud: answer(false), Classes: []driver.Class{gold}}, []string{"csi-manila-gold=gold"}},
		"it is gone, say two":         {driver.Config{Cloud: answer(true), Classes: []driver.Class{gold}}, []string{}},
		"it is gone, and in use":      {driver.Config{Cloud: answer(true), Classes: []driver.Class{gold}, ClassesInUse: map[string]bool{"csi-manila-gold": true}}, []string{"csi-manila-gold=gold"}},
		"it is back":                  {driver.Config{Cloud: answer(true, "gold"), Classes: []driver.Class{gold}}, []string{"csi-manila-gold=gold"}},
		"it has no name":              {driver.Config{Cloud: answer(true, "", "gold")}, []string{"csi-manila-gold=gold"}},
		"the type of a gone one's name": {
			driver.Config{Cloud: answer(true, "gold"), Classes: []driver.Class{made("csi-manila-gold", "Gold")}, ClassesInUse: map[string]bool{"csi-manila-gold": true}},
			[]string{"csi-manila-gold=Gold", hashed("gold")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, names(tc.cfg)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Another order of the cloud's types, and another reconciliation, change nothing.
func TestNamesOfClassesAreStable(t *testing.T) {
	types := []string{"a_b", "a-b", "A-B", "ä", strings.Repeat("x", 10000), "../../etc", "default", "-", "a..b", "a b", "\u202e"}
	first := names(driver.Config{Cloud: answer(true, types...)})
	if len(first) != len(types) {
		t.Fatalf("%d classes of %d share types", len(first), len(types))
	}
	slices.Reverse(types)
	cfg := driver.Config{Cloud: answer(true, types...)}
	if diff := cmp.Diff(first, names(cfg)); diff != "" {
		t.Errorf("in another order (-want +got):\n%s", diff)
	}
	for _, class := range classes(cfg) {
		cfg.Classes = append(cfg.Classes, made(class.Name, class.Parameters[typeParameter]))
		if problems := validation.IsDNS1123Subdomain(class.Name); len(problems) > 0 || !strings.HasPrefix(class.Name, classPrefix) {
			t.Errorf("%s: %v", class.Name, problems)
		}
	}
	if diff := cmp.Diff(first, names(cfg)); diff != "" {
		t.Errorf("once more (-want +got):\n%s", diff)
	}
	cfg.Cloud = driver.CloudFacts{}
	if diff := cmp.Diff(first, names(cfg)); diff != "" {
		t.Errorf("without an answer (-want +got):\n%s", diff)
	}
}

func TestOnlyWhatWasMadeIsKnownAsSuch(t *testing.T) {
	for name, tc := range map[string]struct {
		class driver.Class
		want  bool
	}{
		"of OpenShift's operator":   {made("csi-manila-default-nfs", "Default_NFS"), true},
		"with a suffix":             {made(hashedName("ä"), "ä"), true},
		"another name":              {made("csi-manila-mine", "default"), false},
		"another driver":            {theirs("csi-manila-default", "other.example.com", "default"), false},
		"another Secret":            {theirs("csi-manila-default", driverName, "default"), false},
		"no type":                   {made("csi-manila-", ""), false},
		"something else altogether": {driver.Class{}, false},
	} {
		if got := isMade(tc.class); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestACloudWithoutManilaHasNothingToDrive(t *testing.T) {
	for name, tc := range map[string]struct {
		facts driver.CloudFacts
		want  string
	}{
		"nobody has asked": {driver.CloudFacts{}, ""},
		"no Manila":        {driver.CloudFacts{Known: true, NoService: true}, "the service catalogue of the cloud has no Manila"},
		"no share types":   {answer(false), "Manila shows no share types"},
		"one":              {answer(false, "default"), ""},
	} {
		if got := nothingToDrive(driver.Config{Cloud: tc.facts}); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestTheSecretOfTheClassesHasNoCredentials(t *testing.T) {
	inputs := driver.DerivedInputs{Secrets: map[string]map[string][]byte{credentials: {
		"clouds.yaml": []byte("clouds: {openstack: {auth: {auth_url: https://k, password: s3cr3t}}}"),
	}}}
	content, err := Driver().Derived.Build(inputs)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"os-cloud": []byte("openstack"), "os-useClouds": []byte("true"), "os-cloudsFile": []byte("/etc/openstack/clouds.yaml")}
	if diff := cmp.Diff(want, content); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	inputs.Secrets[credentials]["clouds.yaml"] = []byte("s3cr3t")
	if _, err := Driver().Derived.Build(inputs); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("error %v", err)
	}
}

func TestThePolicyOfGroupsIsASetting(t *testing.T) {
	for value, want := range map[string]bool{"": true, "None": true, "File": true, "ReadWriteOnceWithFSType": true, "none": false, "Always": false} {
		if _, err := Driver().ReadSettings(func(string) string { return value }); (err == nil) != want {
			t.Errorf("%q: error %v", value, err)
		}
	}
}
