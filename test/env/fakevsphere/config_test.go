package fakevsphere

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vapi/tags"
)

// Three vCenters in one process share nothing: neither sessions nor inventory, tags, policies, users, faults or certificates.
func TestVCentersOfOneProcessShareNothing(t *testing.T) {
	one := []Datacenter{{Name: "dc2", Clusters: []Cluster{{Name: "c", Hosts: []Host{{Name: "h"}}}}, Datastores: []Datastore{{Name: "d"}}}}
	all, err := StartAll(Options{Version: "7.0.2"}, Options{Datacenters: one, Password: "other"}, Options{SelfSigned: true})
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(all)
	a, b, third := all[0], all[1], all[2]
	ca, cb, ct := signIn(t, a), signIn(t, b), signIn(t, third)
	if _, err := ca.tags.CreateCategory(t.Context(), &tags.Category{Name: "c", Cardinality: "SINGLE"}); err != nil {
		t.Fatal(err)
	}
	a.Tag("c", "t", "/dc1")
	if _, err := ca.policies.CreateProfile(t.Context(), policySpec("p", "c", "t")); err != nil {
		t.Fatal(err)
	}
	if len(b.Categories())+len(b.Policies())+len(third.Categories())+len(third.Policies()) != 0 {
		t.Error("what one has, another has")
	}
	if ca.soap.ServiceContent.About.Version != "7.0.2" || cb.soap.ServiceContent.About.Version != "8.0.3" {
		t.Error("the versions are mixed up")
	}
	if diff := cmp.Diff([]string{"/dc2"}, b.Paths("Datacenter")); diff != "" {
		t.Error(diff)
	}
	a.ExpireSessions()
	a.SetFault("", Fault{Cut: true})
	if err := cb.now(t.Context()); err != nil {
		t.Error(err)
	}
	if soap, rest := third.Sessions(); soap != 1 || rest != 1 {
		t.Errorf("%d and %d sessions", soap, rest)
	}
	if a.ProviderID("/dc1/vm/infra-x1/node1") == third.ProviderID("/dc1/vm/infra-x1/node1") {
		t.Error("two VMs have one UUID")
	}
	if err := ct.now(t.Context()); err != nil {
		t.Error(err)
	}
	b.Close()
	if err := ct.now(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOnlyWhoTrustsTheCAConnects(t *testing.T) {
	signed, self := start(t, Options{}), start(t, Options{SelfSigned: true, Address: "127.0.0.9"})
	for _, v := range []*VCenter{signed, self} {
		connect(t, v)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("%v", err)
		}
		dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
		connection, err := dialer.DialContext(t.Context(), "tcp", v.URL().Host)
		if err != nil {
			t.Fatal(err)
		}
		shown := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		_ = connection.Close()
		if thumbprint(shown.Raw) != v.Thumbprint || len(v.Thumbprint) != 59 {
			t.Errorf("%s, not %s", thumbprint(shown.Raw), v.Thumbprint)
		}
		if selfSigned := shown.Issuer.String() == shown.Subject.String(); selfSigned != (v == self) {
			t.Errorf("%s is signed by %s", shown.Subject, shown.Issuer)
		}
	}
}

func TestTheConfigurationNamesServersAndPortsAndTheSecretServersAlone(t *testing.T) {
	all, err := StartAll(Options{Password: `a"b\c`}, Options{User: "b@vsphere.local"})
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(all)
	all[0].Port, all[1].Port = 1001, 1002
	wantINI := `[Global]
secret-name = "vsphere-creds"
secret-namespace = "kube-system"
insecure-flag = "1"

[Workspace]
server = "127.0.0.1"
datacenter = "dc1"
default-datastore = "ds1"
folder = "/dc1/vm/infra-x1"
resourcepool-path = "/dc1/host/cluster1/Resources"

[VirtualCenter "127.0.0.1"]
port = "1001"
datacenters = "dc1"

[VirtualCenter "127.0.0.2"]
port = "1002"
datacenters = "dc1"

[Labels]
region = "openshift-region"
zone = "openshift-zone"
`
	if diff := cmp.Diff(wantINI, INI(true, all...)); diff != "" {
		t.Error(diff)
	}
	wantYAML := `global:
  secretName: vsphere-creds
  secretNamespace: kube-system
  insecureFlag: false
vcenter:
  "127.0.0.1":
    server: "127.0.0.1"
    port: 1001
    insecureFlag: false
    datacenters:
    - "dc1"
labels:
  region: openshift-region
  zone: openshift-zone
`
	if diff := cmp.Diff(wantYAML, YAML(false, all[0])); diff != "" {
		t.Error(diff)
	}
	want := map[string][]byte{
		"127.0.0.1.username": []byte("cluster@vsphere.local"), "127.0.0.1.password": []byte(`a"b\c`),
		"127.0.0.2.username": []byte("b@vsphere.local"), "127.0.0.2.password": []byte(all[1].Password),
	}
	if diff := cmp.Diff(want, SecretData(all...)); diff != "" {
		t.Error(diff)
	}
	if strings.Count(string(Roots(all...)), "BEGIN CERTIFICATE") != 2 {
		t.Errorf("%s", Roots(all...))
	}
}
