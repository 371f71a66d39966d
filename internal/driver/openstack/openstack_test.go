package openstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// canary must not appear in any message.
const canary = "s3cr3t"

// certificate is a CA certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}))
}

func with(installers, secrets string) driver.DerivedInputs {
	return driver.DerivedInputs{
		ConfigMaps: map[string]map[string]string{kubeCloudConfig: {driver.CloudCAKey: installers}},
		Secrets:    map[string]map[string][]byte{"creds": {CACert: []byte(secrets)}},
	}
}

func TestTheCAIsTheInstallersOrTheSecrets(t *testing.T) {
	one, another := certificate(t), certificate(t)
	for name, tc := range map[string]struct {
		inputs    driver.DerivedInputs
		want, err string
	}{
		"none":                  {with("", ""), "", ""},
		"no ConfigMap":          {driver.DerivedInputs{}, "", ""},
		"blanks":                {with(" \n", "\n"), "", ""},
		"the installer's":       {with(one, another), one, ""},
		"the Secret's":          {with("", another), another, ""},
		"several":               {with(one+another, ""), one + another, ""},
		"none that can be read": {with(canary, ""), "", "key ca-bundle.pem of ConfigMap openshift-config-managed/kube-cloud-config has no CA certificate in PEM"},
		"something after it":    {with(one+canary, ""), one, ""},
		"a key":                 {with("", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "", "key cacert of Secret creds has no CA certificate"},
		"no certificate in it":  {with("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""), "", "has no CA certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CA(tc.inputs, "creds")
			if got != tc.want || (err == nil) != (tc.err == "") {
				t.Fatalf("%d bytes, error %v", len(got), err)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), canary)) {
				t.Errorf("error %v, want %s", err, tc.err)
			}
		})
	}
}

func TestWhatIsWrongWithCloudsIsSaidWithoutASecret(t *testing.T) {
	for text, want := range map[string]string{
		"clouds: {openstack: {auth: {auth_url: https://keystone, password: " + canary + "}}}": "",
		"clouds: {other: {auth: {auth_url: https://keystone, password: " + canary + "}}}":     `has no entry clouds.openstack:`,
		"clouds: {openstack: {auth: {password: " + canary + "}}}":                             "has no clouds.openstack.auth.auth_url",
		"clouds: {openstack: {auth: {auth_url: ''}}}":                                         "has no clouds.openstack.auth.auth_url",
		"clouds: [" + canary:                  "is not a valid clouds.yaml",
		"clouds: {openstack: " + canary + "}": "is not a valid clouds.yaml",
		canary:                                "is not a valid clouds.yaml",
		"":                                    `has no entry clouds.openstack:`,
	} {
		inputs := driver.DerivedInputs{Secrets: map[string]map[string][]byte{"creds": {CloudsYAML: []byte(text)}}}
		err := CheckClouds(inputs, "creds")
		if (err == nil) != (want == "") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Secret creds") || strings.Contains(err.Error(), canary)) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestASectionIsReadAsTheDriverReadsIt(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                 {"", ""},
		"another section":         {"[Global]\npassword = a;b\"c\n", ""},
		"plain":                   {"[BlockStorage]\nrescan-on-resize = true\n", "rescan-on-resize = true\n"},
		"between others":          {"[Global]\nuse-clouds=true\n\n[BlockStorage]\nignore-volume-az=yes\n[LoadBalancer]\nmax-shared-lb = 2\n", "ignore-volume-az = yes\n"},
		"comments":                {"; one\n[BlockStorage] # two\n# three\nnode-volume-attach-limit = 25 ; four\n", "node-volume-attach-limit = 25\n"},
		"quotes":                  {"[BlockStorage]\nbs-version = \"v3\"\n", "bs-version = v3\n"},
		"a key alone":             {"[BlockStorage]\nignore-volume-az\n", "ignore-volume-az = true\n"},
		"twice":                   {"[BlockStorage]\na = 1\nb = 2\n[Global]\n[blockstorage]\nA = 3\n", "b = 2\nA = 3\n"},
		"carriage returns":        {"[BlockStorage]\r\na = 1\r\n", "a = 1\n"},
		"a subsection of others":  {"[BlockStorage \"x\"]\na = 1\n", ""},
		"a key of a later driver": {"[BlockStorage]\nsome-new-key = some value\n", "some-new-key = some value\n"},
	} {
		t.Run(name, func(t *testing.T) {
			section, err := SectionOf(tc.text, "BlockStorage")
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want != "" {
				want = "[BlockStorage]\n" + want
			}
			if diff := cmp.Diff(want, section.Write("BlockStorage")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\n":                "line 1 belongs to no section",
		canary:                   "line 1 belongs to no section",
		"[Block" + canary + "\n": "line 1 is not a valid section header",
		"[Global]\npassword = " + canary + "\\\n[BlockStorage]\n": `line 2 ends with \`,
		"[Global]\npassword = \"\"\"" + canary + "\n":             `line 2 has """`,
		"[BlockStorage]\na = " + canary + "\x00\n":                "line 2 has invisible characters",
		"[BlockStorage]\na = " + canary + "\u2028[Global]\n":      "line 2 has invisible characters",
		"[BlockStorage]\na = [" + canary + "]\n":                  "line 2 has an invalid value for key a",
		"[BlockStorage]\na = $(" + canary + ")\n":                 "line 2 has an invalid value for key a",
		"[BlockStorage]\na =\n":                                   "line 2 has an invalid value for key a",
		"[BlockStorage]\n../" + canary + " = 1\n":                 "line 2 has an invalid key",
		"[BlockStorage]\nä" + canary + " = 1\n":                   "line 2 has an invalid key",
		"[BlockStorage]\n" + strings.Repeat("a", longestConf):     "has 65551 bytes, more than 65536",
	} {
		section, err := SectionOf(text, "BlockStorage")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) || section != nil {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}
