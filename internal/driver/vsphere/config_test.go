package vsphere

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

const (
	canary = "s3cr3t"
	legacy = `[Global]
secret-name = "vsphere-creds"
secret-namespace = "kube-system"
insecure-flag = "1"

[Workspace]
server = "vc1.example"
datacenter = "dc"
default-datastore = "ds"
folder = "/dc/vm/dev"

[VirtualCenter "vc1.example"]
datacenters = "dc"
`
	three = `global:
  secretName: vsphere-creds
  secretNamespace: kube-system
  insecureFlag: false
vcenter:
  vc1.example: {server: vc1.example, port: 443, datacenters: [dc1, dc2]}
  vc2.example: {server: vc2.example, port: 8443, datacenters: [dc]}
  10.0.0.7: {server: 10.0.0.7, insecureFlag: true, datacenters: [dc]}
`
	verified = "[VirtualCenter \"vc1.example\"]\ndatacenters = \"dc\"\n"
)

// inputs returns the inputs of a cluster with one vCenter that has answered.
func inputs(text string, change func(*driver.DerivedInputs)) driver.DerivedInputs {
	made := driver.DerivedInputs{
		ConfigMaps: map[string]map[string]string{kubeCloudConfig: {cloudConf: text}},
		Cloud:      driver.CloudFacts{Known: true, DatastoreURL: "ds:///vmfs/volumes/1/"},
		Cluster:    driver.DerivedCluster{InfrastructureID: "dev-x7k2p"},
		Secrets:    map[string]map[string][]byte{credentials: {}},
	}
	for _, server := range []string{"vc1.example", "vc2.example", "10.0.0.7"} {
		made.Secrets[credentials][cloudconfig.Key(server, "username")] = []byte("admin@vsphere.local")
		made.Secrets[credentials][cloudconfig.Key(server, "password")] = []byte(canary)
	}
	if change != nil {
		change(&made)
	}
	return made
}

// login sets the login of the first vCenter.
func login(user, password string) func(*driver.DerivedInputs) {
	return func(made *driver.DerivedInputs) {
		made.Secrets[credentials][cloudconfig.Key("vc1.example", "username")] = []byte(user)
		made.Secrets[credentials][cloudconfig.Key("vc1.example", "password")] = []byte(password)
	}
}

func withConfig(change func(*operatorv1.VSphereCSIDriverConfigSpec)) func(*driver.DerivedInputs) {
	return func(made *driver.DerivedInputs) {
		made.Cluster.DriverConfig = operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.VSphereDriverType, VSphere: &operatorv1.VSphereCSIDriverConfigSpec{},
		}
		change(made.Cluster.DriverConfig.VSphere)
	}
}

func TestTheConfigurationOfTheDriver(t *testing.T) {
	const head = "[Global]\ncluster-id = \"dev-x7k2p\"\ncluster-distribution = \"OpenShift\"\n"
	const user = "user = \"admin@vsphere.local\"\npassword = \"s3cr3t\"\n"
	const first = "[VirtualCenter \"vc1.example\"]\n" + user + "port = \"443\"\ndatacenters = \"dc\"\n"
	const url = "migration-datastore-url = \"ds:///vmfs/volumes/1/\"\n"
	const ca = "ca-file = \"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem\"\n"
	for name, tc := range map[string]struct {
		text   string
		change func(*driver.DerivedInputs)
		want   string
	}{
		"legacy, which is not verified by the user's word": {legacy, nil, head + first + "insecure-flag = \"true\"\n" + url},
		"verified":                          {verified, nil, head + first + ca + url},
		"a thumbprint":                      {verified + "thumbprint = \"AA:BB\"\n", nil, head + first + "thumbprint = \"AA:BB\"\n" + url},
		"files of other pods can't be read": {verified + "ca-file = \"/etc/vsphere/ca.pem\"\n", nil, head + first + ca + url},
		"no datastore":                      {verified, func(made *driver.DerivedInputs) { made.Cloud.DatastoreURL = "" }, head + first + ca},
		"failure domains": {
			verified, func(made *driver.DerivedInputs) { made.Cluster.VSphere = domains(2, "vc1.example") },
			head + first + ca + url + "[Labels]\ntopology-categories = \"openshift-zone,openshift-region\"\n",
		},
		"one failure domain": {verified, func(made *driver.DerivedInputs) { made.Cluster.VSphere = domains(1, "VC1.example") }, head + first + ca + url},
		"categories of one's own": {
			verified, withConfig(func(own *operatorv1.VSphereCSIDriverConfigSpec) {
				own.TopologyCategories = []string{"rack", "row of racks"}
			}),
			head + first + ca + url + "[Labels]\ntopology-categories = \"rack,row of racks\"\n",
		},
		"limits of snapshots": {
			verified, withConfig(func(own *operatorv1.VSphereCSIDriverConfigSpec) {
				own.GlobalMaxSnapshotsPerBlockVolume, own.GranularMaxSnapshotsPerBlockVolumeInVSAN = new(uint32(1)), new(uint32(2))
				own.GranularMaxSnapshotsPerBlockVolumeInVVOL = new(uint32(3))
			}),
			head + first + ca + url + "[Snapshot]\nglobal-max-snapshots-per-block-volume = \"1\"\n" +
				"granular-max-snapshots-per-block-volume-vsan = \"2\"\ngranular-max-snapshots-per-block-volume-vvol = \"3\"\n",
		},
		// With several, the datastore of in-tree volumes is unknown.
		"three vCenters": {
			three, func(made *driver.DerivedInputs) {
				made.Cluster.VSphere = domains(3, "vc1.example", "vc2.example", "10.0.0.7")
			},
			head + "[VirtualCenter \"vc1.example\"]\n" + user + "port = \"443\"\ndatacenters = \"dc1,dc2\"\n" + ca +
				"[VirtualCenter \"vc2.example\"]\n" + user + "port = \"8443\"\ndatacenters = \"dc\"\n" + ca +
				"[VirtualCenter \"10.0.0.7\"]\n" + user + "port = \"443\"\ndatacenters = \"dc\"\ninsecure-flag = \"true\"\n" +
				"[Labels]\ntopology-categories = \"openshift-zone,openshift-region\"\n",
		},
		"a user of a domain": {verified, login(`CORP\svc`, canary), strings.Replace(head+first+ca+url, "admin@vsphere.local", `CORP\\svc`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(inputs(tc.text, tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(content[cloudConf])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := variants.ReadGcfg(string(content[cloudConf])); err != nil {
				t.Errorf("it can't be read: %v", err)
			}
		})
	}
}

// All printable characters work, and none is interpreted.
func TestAPasswordWithEveryPrintableCharacterReachesTheDriver(t *testing.T) {
	for _, password := range []string{printable(), "x\" \n"[:2] + `]`, `"; insecure-flag = true`, `a\`, "#", "päss wörd ", `[VirtualCenter "evil"]`} {
		content, err := build(inputs(verified, login("admin@vsphere.local", password)))
		if err != nil {
			t.Fatalf("%q: %v", password, err)
		}
		got, err := variants.ReadGcfg(string(content[cloudConf]))
		if err != nil || got["virtualcenter vc1.example/password"] != password {
			t.Errorf("%q is read as %q, %v", password, got["virtualcenter vc1.example/password"], err)
		}
		for key := range got {
			if strings.Contains(key, "evil") || strings.Contains(key, "insecure") {
				t.Errorf("%q makes key %s", password, key)
			}
		}
	}
}

// Errors say what to do, and contain no secret.
func TestWhatCanNotBeFollowedIsSaid(t *testing.T) {
	named := func(names ...string) func(*driver.DerivedInputs) {
		return withConfig(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.TopologyCategories = names })
	}
	six := ""
	for i := range 6 {
		six += fmt.Sprintf("[VirtualCenter \"vc%d.example\"]\ndatacenters = dc\n", i)
	}
	const conf, own = "key cloud.conf of ConfigMap openshift-config-managed/kube-cloud-config ", "spec.driverConfig.vSphere.topologyCategories of ClusterCSIDriver csi.vsphere.vmware.com"
	for name, tc := range map[string]struct {
		text   string
		change func(*driver.DerivedInputs)
		want   string
	}{
		"no key":            {"", func(made *driver.DerivedInputs) { made.ConfigMaps[kubeCloudConfig] = nil }, strings.TrimSuffix(conf, " ") + ", which lists the cluster's vCenters, is missing"},
		"nothing":           {"", nil, conf + "can't be used: it is empty"},
		"no vCenter":        {"[Global]\nport = 443\n", nil, conf + "can't be used: it names no vCenter"},
		"two of one name":   {verified + verified, nil, conf + "can't be used: line 3 repeats the section of line 1"},
		"and of one host":   {verified + strings.Replace(verified, "vc1", "VC1", 1), nil, conf + "can't be used: line 3 repeats the section of line 1"},
		"six vCenters":      {six, nil, conf + "can't be used: it names 6 vCenters, but the driver supports at most 5"},
		"injected section":  {"[VirtualCenter \"vc1\\\"]\n[VirtualCenter \\\"evil\"]\n", nil, conf + "can't be used: line 1 is not a valid section header"},
		"a line break":      {verified + "thumbprint = \"a\rb\"\n", nil, conf + "can't be used: line 3 has invisible characters"},
		"datacenters":       {"vcenter:\n  vc1.example: {server: vc1.example, datacenters: [\"a,b\"]}\n", nil, conf + "can't be used: line 2 has a comma in the name of a datacenter"},
		"a long ID":         {verified, func(made *driver.DerivedInputs) { made.Cluster.InfrastructureID = strings.Repeat("a", 65) }, " of the Infrastructure cluster: it is longer than 64 characters"},
		"no user":           {verified, login("", canary), "the credentials in Secret vmware-vsphere-cloud-credentials can't be used: the key vc1.example.username"},
		"no password":       {verified, login("a@b", ""), "the credentials in Secret vmware-vsphere-cloud-credentials can't be used: the key vc1.example.password"},
		"no domain":         {verified, login(canary, canary), `the user of vCenter vc1.example in Secret vmware-vsphere-cloud-credentials has no domain; the driver takes user@domain or domain\user`},
		"two domains":       {verified, login(canary+"@a@b", canary), "has more than one @; the driver takes"},
		"a user's quote":    {verified, login(canary+"\"@b", canary), "has a character that the driver does not accept"},
		"line break":        {verified, login("a@b", canary+"\ninsecure-flag = true"), "the key vc1.example.password of the Secret with the credentials has line breaks"},
		"carriage return":   {verified, login("a@b", canary+"\r"), "the key vc1.example.password of the Secret with the credentials has line breaks"},
		"no UTF-8":          {verified, login("a@b", canary+"\xff"), "is not UTF-8"},
		"no topology":       {three, nil, "with several vCenters, the driver starts only with a topology"},
		"six categories":    {verified, named("a", "b", "c", "d", "e", "f"), own + " has 6 categories, but the driver supports at most 5"},
		"a comma":           {verified, named("a,b"), "category 1 in " + own + " is empty, or has a comma"},
		"an empty category": {verified, named("a", ""), "category 2 in " + own + " is empty, or has a comma"},
		"a broken category": {verified, named("a\n[Global]"), "category 1 in " + own + " is empty, or has a comma"},
		"twice":             {verified, named("a", "a"), "category a appears twice in " + own},
		"a hostile store": {verified, func(made *driver.DerivedInputs) { made.Cloud.DatastoreURL = "ds:///\n[Global]" },
			"the URL of the default datastore has a line break"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(inputs(tc.text, tc.change))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), canary) || content != nil {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), ": ") {
				t.Errorf("it does not say what to do: %v", err)
			}
		})
	}
}

// Without an answer of the vCenter, the last configuration stays. Only a new cluster waits for the first answer.
func TestTheDatastoreOfMigratedVolumesStaysWhileNobodyAnswers(t *testing.T) {
	previous := map[string][]byte{cloudConf: []byte("x"), migrationURL: []byte("ds:///before/")}
	for name, tc := range map[string]struct {
		cloud    driver.CloudFacts
		previous map[string][]byte
		want     string
		waits    bool
	}{
		"an answer":                     {driver.CloudFacts{Known: true, DatastoreURL: "ds:///now/"}, previous, "ds:///now/", false},
		"an answer without a datastore": {driver.CloudFacts{Known: true}, previous, "ds:///before/", false},
		"no answer":                     {driver.CloudFacts{}, previous, "ds:///before/", false},
		"no answer, and there was none": {driver.CloudFacts{}, map[string][]byte{cloudConf: []byte("x")}, "", false},
		"a new cluster":                 {driver.CloudFacts{}, nil, "", true},
		"there is no datastore":         {driver.CloudFacts{Known: true}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(inputs(verified, func(made *driver.DerivedInputs) { made.Cloud, made.Previous = tc.cloud, tc.previous }))
			if tc.waits {
				if !errors.Is(err, driver.ErrCloudUnknown) || content != nil {
					t.Errorf("%v, %v", content, err)
				}
				return
			}
			if err != nil || string(content[migrationURL]) != tc.want || strings.Contains(string(content[cloudConf]), migrationURL) != (tc.want != "") {
				t.Errorf("%q, %v; want %q", content[migrationURL], err, tc.want)
			}
		})
	}
}

// With several vCenters, nothing waits, because no default datastore is needed.
func TestSeveralVCentersHaveNoMigrationURL(t *testing.T) {
	content, err := build(inputs(three, func(made *driver.DerivedInputs) {
		made.Cloud, made.Cluster.VSphere = driver.CloudFacts{}, &configv1.VSpherePlatformSpec{
			FailureDomains: domains(3, "vc1.example", "vc2.example", "10.0.0.7").FailureDomains,
		}
		made.Previous = map[string][]byte{migrationURL: []byte("ds:///before/")}
	}))
	if err != nil || content[migrationURL] != nil || strings.Contains(string(content[cloudConf]), "migration") {
		t.Errorf("%v: %s", err, content[cloudConf])
	}
}
