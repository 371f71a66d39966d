package derived

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// certificate is one that a driver can load: of a CA that was made for this test, and whose key is nowhere.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBfjCCASOgAwIBAgIUFsmWSN07QsTh/+MNrNnPPtO3x9EwCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIaW52ZW50ZWQwIBcNMjYxMTIzMDMwOTM5WhgPMjEyNjEwMzAw
MzA5MzlaMBMxETAPBgNVBAMMCGludmVudGVkMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEYjIxrFLlif4xdiAU9O2/G/3Vnabqq8i/AyAa5P3u+1CUX9POqtF61aH7
zSTX0oDJtXUdwf8UQF9hTrw00fQKbqNTMFEwHQYDVR0OBBYEFGwCoaE7dOap9G+T
TQCkVE1prdgLMB8GA1UdIwQYMBaAFGwCoaE7dOap9G+TTQCkVE1prdgLMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhANaMtXdj/XOEjdeLYyv+IqK7
dtgc3aIMfwbwhaGahlehAiEA5ieabtBHDdTEI90OYN2pX9t+ixXK2Y2hiqo7BGlo
qag=
-----END CERTIFICATE-----
`

// privateKey is none, but a block of that type.
const privateKey = "-----BEGIN PRIVATE KEY-----\nbWFkZSB1cA==\n-----END PRIVATE KEY-----\n"

func TestCertificatesThatADriverCantLoadAreNotFollowed(t *testing.T) {
	in := func(namespace, name, content string) client.Object {
		return configMap(namespace, name, "ca-bundle.pem", content)
	}
	cloud := func(content string) client.Object {
		return in("openshift-config-managed", "kube-cloud-config", content)
	}
	own := func(content string) client.Object { return in(here, "disk-cloud-ca-bundle", content) }
	const wrong = "key ca-bundle.pem of ConfigMap openshift-config-managed/kube-cloud-config has no CA certificate in PEM: the driver "
	const correct = "; correct the same key in the ConfigMap of namespace openshift-config that spec.cloudConfig.name of Infrastructure cluster names"
	for name, tc := range map[string]struct {
		objects       []client.Object
		unserved      bool
		want, problem string
	}{
		"none":                    {},
		"none of its own":         {objects: []client.Object{cloud(" \n")}},
		"some":                    {objects: []client.Object{cloud(certificate)}, want: certificate},
		"some, beside a key":      {objects: []client.Object{cloud(privateKey + certificate)}, want: certificate},
		"some, without OpenShift": {objects: []client.Object{cloud(certificate)}, unserved: true},
		"none that can be loaded": {objects: []client.Object{cloud("junk")}, problem: wrong + "runs without" + correct},
		"none, after some": {objects: []client.Object{cloud("junk"), own(certificate)}, want: certificate, problem: wrong + "keeps its previous " +
			"certificates" + correct},
		"none, after others": {objects: []client.Object{cloud("junk"), own("junk")}, problem: wrong + "runs without" + correct},
		"none any more":      {objects: []client.Object{own(certificate)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, disk(), tc.objects...)
			if tc.unserved {
				c.Kinds = nil
			}
			got, problem, err := c.CA(t.Context())
			if err != nil || got != tc.want || problem != tc.problem {
				t.Errorf("%d bytes, %q, %v; want %d bytes, %q", len(got), problem, err, len(tc.want), tc.problem)
			}
			c.Driver.CloudCAVariable = ""
			if got, problem, err = c.CA(t.Context()); err != nil || got != "" || problem != "" {
				t.Errorf("a driver that follows none: %d bytes, %q, %v", len(got), problem, err)
			}
		})
	}
}
