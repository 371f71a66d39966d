package vsphere

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func exact(pause time.Duration) time.Duration { return pause }

func TestThePauseFollowsFromWhatIsWrong(t *testing.T) {
	with := func(reasons ...Reason) Snapshot {
		seen := Snapshot{}
		for _, reason := range reasons {
			one := VCenter{}
			if reason != "" {
				one.Err = &Error{Reason: reason}
			}
			seen.VCenters = append(seen.VCenters, one)
		}
		return seen
	}
	for name, tc := range map[string]struct {
		seen     Snapshot
		failures int
		want     time.Duration
	}{
		"nothing":                        {with(""), 0, Interval},
		"no vCenter":                     {with(), 0, Interval},
		"the first failure":              {with(Timeout), 1, 30 * time.Second},
		"the second":                     {with(Timeout), 2, time.Minute},
		"the fourth":                     {with(Timeout), 4, 4 * time.Minute},
		"the fifth":                      {with(Timeout), 5, Interval},
		"the hundredth":                  {with(Timeout), 100, Interval},
		"one of two":                     {with("", NoConnection), 1, 30 * time.Second},
		"a password that is wrong":       {with(LoginRefused), 1, Interval},
		"a password, and another outage": {with(LoginRefused, Timeout), 1, 30 * time.Second},
	} {
		poller := &Poller{failures: tc.failures, Jitter: exact}
		if got := poller.pause(tc.seen); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestACertificateIsThatOfATrustedCAOrOfTheThumbprint(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	leaf := server.Certificate()
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	print1, print256 := fmt.Sprintf("%X", sha1.Sum(leaf.Raw)), fmt.Sprintf("%x", sha256.Sum256(leaf.Raw))
	for name, tc := range map[string]struct {
		pool       *x509.CertPool
		server     string
		thumbprint string
		trusted    bool
	}{
		"a trusted CA":              {trusted, "127.0.0.1", "x", true},
		"a trusted CA, other name":  {trusted, "127.0.0.9", "x", false},
		"the thumbprint":            {x509.NewCertPool(), "127.0.0.1", print1, true},
		"the thumbprint, SHA-256":   {x509.NewCertPool(), "127.0.0.1", print256, true},
		"the thumbprint, any name":  {x509.NewCertPool(), "127.0.0.9", print1, true},
		"the thumbprint by colons":  {x509.NewCertPool(), "127.0.0.1", strings.Join([]string{print1[:2], print1[2:]}, ":"), true},
		"half of the thumbprint":    {x509.NewCertPool(), "127.0.0.1", print1[:20], false},
		"the thumbprint of another": {x509.NewCertPool(), "127.0.0.1", strings.Repeat("0", 40), false},
		"nothing":                   {x509.NewCertPool(), "127.0.0.1", "", false},
	} {
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		err := verify(state, tc.pool, cloudconfig.VCenterConfig{Server: tc.server, Thumbprint: tc.thumbprint})
		if (err == nil) != tc.trusted || err != nil && certificateProblem(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := verify(tls.ConnectionState{}, trusted, cloudconfig.VCenterConfig{}); certificateProblem(err) == "" {
		t.Errorf("no certificate: %v", err)
	}
}

func TestTheWorkspaceCountsWhereThereIsNoFailureDomain(t *testing.T) {
	place := cloudconfig.Workspace{Server: "b", Datacenter: "dc2", Datastore: "ds", Folder: "/dc2/vm/f", ResourcePool: "/dc2/host/c/Resources"}
	topology := configv1.VSpherePlatformTopology{Datacenter: "dc2", Datastore: "ds", Folder: "/dc2/vm/f", ResourcePool: "/dc2/host/c/Resources"}
	made := func(server string) []configv1.VSpherePlatformFailureDomainSpec {
		return []configv1.VSpherePlatformFailureDomainSpec{{Server: server, Topology: topology}}
	}
	without := func(change func(*cloudconfig.Workspace)) cloudconfig.Workspace {
		changed := place
		change(&changed)
		return changed
	}
	two := configs("a", "b")
	two[0].Datacenters, two[1].Datacenters = []string{"dc1", "dc2"}, []string{"dc2"}
	configured := []configv1.VSpherePlatformFailureDomainSpec{{Name: "x"}}
	for name, tc := range map[string]struct {
		domains []configv1.VSpherePlatformFailureDomainSpec
		config  cloudconfig.Config
		want    []configv1.VSpherePlatformFailureDomainSpec
	}{
		"a failure domain":          {configured, cloudconfig.Config{VCenters: two, Workspace: place}, configured},
		"none":                      {nil, cloudconfig.Config{VCenters: two, Workspace: place}, made("b")},
		"no workspace":              {nil, cloudconfig.Config{VCenters: two}, nil},
		"no vCenter":                {nil, cloudconfig.Config{Workspace: place}, nil},
		"a vCenter that is unknown": {nil, cloudconfig.Config{VCenters: configs("a"), Workspace: place}, nil},
		"no server":                 {nil, cloudconfig.Config{VCenters: two, Workspace: without(func(w *cloudconfig.Workspace) { w.Server = "" })}, made("a")},
		"the one datacenter":        {nil, cloudconfig.Config{VCenters: two, Workspace: without(func(w *cloudconfig.Workspace) { w.Datacenter = "" })}, made("b")},
	} {
		got := Want{InfrastructureID: "x", FailureDomains: tc.domains}.WithDefault(tc.config)
		if diff := cmp.Diff(tc.want, got.FailureDomains); diff != "" || got.InfrastructureID != "x" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestAFailureDomainIsOfOneVCenter(t *testing.T) {
	want := Want{FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{Name: "1", Server: "a"}, {Name: "2", Server: "b"}, {Name: "3", Server: "a"}}}
	for server, names := range map[string]string{"a": "13", "b": "2", "c": ""} {
		got := ""
		for _, one := range want.of(server) {
			got += one.Name
		}
		if got != names {
			t.Errorf("%s: %q, want %q", server, got, names)
		}
	}
}

func TestRequestsToAVCenterAreCountedByServerAndOutcome(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry, "csi.vsphere.vmware.com")
	if err != nil {
		t.Fatal(err)
	}
	metrics.Answered(time.Unix(1000, 0), "vc1")
	for _, status := range []int{413, 429, 500, 503} {
		metrics.Count("vc1", status)
	}
	const calls = "csi_operator_cloud_calls_total csi.vsphere.vmware.com"
	want := map[string]float64{
		"csi_operator_cloud_answer_timestamp_seconds csi.vsphere.vmware.com vc1": 1000,
		calls + " refused vc1": 1, calls + " limited vc1": 2, calls + " failed vc1": 1,
	}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Error(diff)
	}
}
