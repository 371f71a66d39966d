package all

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

func TestFilesOfADriverAreReadBack(t *testing.T) {
	for seed := range uint64(40 * shareOfSeeds) {
		filesReadBack(t, seed)
	}
}

func FuzzFilesOfADriverAreReadBack(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(filesReadBack)
}

// bundle is a CA certificate with other text around it.
func (m maker) bundle() string {
	_, key, _ := ed25519.GenerateKey(nil)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	made, _ := x509.CreateCertificate(nil, template, template, key.Public(), key)
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}))
	var text strings.Builder
	for range m.IntN(5) {
		text.WriteString(m.one(certificate, "Certificate chain\n 0 s:CN = ca\n", "\n",
			"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	}
	return text.String()
}

// hostile are characters that can end or extend a quoted text.
const hostile = `"\;#=[] ,:%` + "'`\n\r\t\x00" + letters

// filesReadBack renders the files of all drivers. Invalid input causes an error without a password.
func filesReadBack(t *testing.T, seed uint64) {
	t.Helper()
	const canary = "s3cr3t"
	for _, d := range Drivers() {
		if d.Derived == nil {
			continue
		}
		m := maker{rand.New(rand.NewPCG(seed, 37))}
		inputs := m.inputs(canary)
		content, err := d.Derived.Build(inputs)
		if err != nil {
			if strings.Contains(err.Error(), canary) || len(content) > 0 {
				t.Errorf("%s, seed %d: error %v with %d files", d.Name, seed, err, len(content))
			}
			continue
		}
		fail := func(format string, values ...any) {
			t.Errorf("%s, seed %d: "+format+"\n%q", slices.Concat([]any{d.Name, seed}, values, []any{content})...)
		}
		if ca := string(content[driver.CloudCAKey]); ca != "" && ca != driver.Certificates(ca) {
			fail("the CA certificates have something else")
		}
		switch d.Name {
		case "csi.vsphere.vmware.com":
			checkVSphere(inputs, content, fail)
		case "cinder.csi.openstack.org":
			checkCinder(content, fail)
		case "disk.csi.azure.com", "file.csi.azure.com":
			checkAzure(d.Credentials[0].Secret, inputs, content, fail)
		}
	}
}

// inputs returns the inputs of all drivers.
func (m maker) inputs(canary string) driver.DerivedInputs {
	text := func(most int) string { return m.one("plain", m.text(letters, most), m.text(hostile, most)) }
	ini := "[BlockStorage]\n"
	for range m.IntN(4) {
		ini += m.one("node-volume-attach-limit", "rescan-on-resize", "ignore-volume-az", "other", text(8)) +
			m.one(" = ", "=", "") + m.one("25", "true", "ten", "1.5", text(6)) + "\n"
	}
	conf := "[Global]\ncluster-id = a\n[VirtualCenter \"vcenter.example\"]\ndatacenters = \"" + text(8) + "\"\n"
	azure, _ := json.Marshal(map[string]any{"cloud": "AzurePublicCloud", "tenantId": text(8), "resourceGroup": text(12), "vmType": "standard"})
	clouds, _ := json.Marshal(map[string]any{"clouds": map[string]any{"openstack": map[string]any{"auth": map[string]any{"auth_url": "https://k", "password": canary}}}})
	inputs := driver.DerivedInputs{
		ConfigMaps: map[string]map[string]string{
			"cinder-csi-config":     {"config": ini, "enable_topology": m.one("", "true", "maybe")},
			"kube-cloud-config":     {"cloud.conf": conf, driver.CloudCAKey: m.bundle()},
			"cloud-provider-config": {"config": string(azure)},
		},
		Cloud: driver.CloudFacts{Known: true, DatastoreURL: m.one("", "ds:///vmfs/volumes/"+text(12))},
		Cluster: driver.DerivedCluster{
			InfrastructureID: m.one("dev-x7k2p", text(70)),
			VSphere:          &configv1.VSpherePlatformSpec{},
			DriverConfig: operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.VSphereDriverType, VSphere: &operatorv1.VSphereCSIDriverConfigSpec{
				TopologyCategories: slices.Repeat([]string{text(10)}, m.IntN(2)),
			}},
		},
		Secrets: map[string]map[string][]byte{},
	}
	for _, d := range Drivers() {
		if d.Derived == nil {
			continue
		}
		inputs.Secrets[d.Credentials[0].Secret] = map[string][]byte{
			"clouds.yaml": clouds, "azure_client_id": []byte(text(10)), "azure_client_secret": []byte(canary + text(10)),
			"vcenter.example.username": []byte(m.one("svc@corp.example", text(10)+"@corp.example")), "vcenter.example.password": []byte(canary + text(12)),
		}
	}
	return inputs
}

func checkVSphere(inputs driver.DerivedInputs, content map[string][]byte, fail func(string, ...any)) {
	read, err := variants.ReadGcfg(string(content["cloud.conf"]))
	if err != nil {
		fail("the driver can't read its configuration: %v", err)
	}
	secret := inputs.Secrets["vmware-vsphere-cloud-credentials"]
	for key, want := range map[string]string{
		"global/cluster-id":                                     inputs.Cluster.InfrastructureID,
		"labels/topology-categories":                            strings.Join(inputs.Cluster.DriverConfig.VSphere.TopologyCategories, ","),
		"virtualcenter vcenter.example/user":                    string(secret["vcenter.example.username"]),
		"virtualcenter vcenter.example/password":                string(secret["vcenter.example.password"]),
		"virtualcenter vcenter.example/migration-datastore-url": inputs.Cloud.DatastoreURL,
	} {
		if read[key] != want {
			fail("the driver reads %s as %q, want %q", key, read[key], want)
		}
	}
}

// checkCinder reads the types of the driver's fields as gopkg.in/gcfg.v1 v1.2.3 does, set.go and types.
func checkCinder(content map[string][]byte, fail func(string, ...any)) {
	read, err := variants.ReadGcfg(string(content["cloud.conf"]))
	if err != nil || read["global/cloud"] != "openstack" || read["global/use-clouds"] != "true" {
		fail("the driver reads %q: %v", read, err)
	}
	for key, pattern := range map[string]string{
		"blockstorage/node-volume-attach-limit": `[+-]?[0-9]+|-?0x[0-9a-fA-F]+`, "blockstorage/rescan-on-resize": `(?i:true|false|yes|no|on|off|0|1)`,
		"blockstorage/ignore-volume-az": `(?i:true|false|yes|no|on|off|0|1)`,
	} {
		if value, found := read[key]; found && !regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(value) {
			fail("the driver can't read %s = %q", key, value)
		}
	}
}

func checkAzure(secret string, inputs driver.DerivedInputs, content map[string][]byte, fail func(string, ...any)) {
	var read, config map[string]any
	if err := json.Unmarshal(content["cloud.conf"], &read); err != nil {
		fail("the driver can't read its configuration: %v", err)
	}
	if err := json.Unmarshal([]byte(inputs.ConfigMaps["cloud-provider-config"]["config"]), &config); err != nil {
		fail("%v", err)
	}
	config["aadClientId"] = strings.TrimSpace(string(inputs.Secrets[secret]["azure_client_id"]))
	config["aadClientSecret"] = strings.TrimSpace(string(inputs.Secrets[secret]["azure_client_secret"]))
	for key, want := range config {
		if read[key] != want {
			fail("the driver reads %s as %q, want %q", key, read[key], want)
		}
	}
}
