package vsphere

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/vsphere/cloudconfig"
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
		"the first failure":              {with(Timeout), 1, firstPause},
		"the second":                     {with(Timeout), 2, 2 * firstPause},
		"the fourth":                     {with(Timeout), 4, 8 * firstPause},
		"the fifth":                      {with(Timeout), 5, Interval},
		"the hundredth":                  {with(Timeout), 100, Interval},
		"one of two":                     {with("", NoConnection), 1, firstPause},
		"a password that is wrong":       {with(LoginRefused), 1, Interval},
		"a password, and another outage": {with(LoginRefused, Timeout), 1, firstPause},
	} {
		poller := &Poller{failures: tc.failures, Jitter: exact}
		if got := poller.pause(tc.seen); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestClustersDoNotAskAtTheSameTime(t *testing.T) {
	poller, seen := &Poller{}, map[time.Duration]bool{}
	for range 100 {
		pause := poller.lengthen(Interval)
		if seen[pause] = true; pause < Interval || pause > Interval+Interval/10 {
			t.Errorf("%s", pause)
		}
	}
	if len(seen) < 2 {
		t.Error("it is always the same")
	}
}

func TestTheBudgetIsOfAnyMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	limited := &budget{limit: 3, now: func() time.Time { return now }}
	spent := func(times int) (granted int) {
		for range times {
			if limited.spend() {
				granted++
			}
		}
		return granted
	}
	if first := spent(2); first != 2 {
		t.Errorf("first %d", first)
	}
	now = now.Add(30 * time.Second)
	if more := spent(5); more != 1 {
		t.Errorf("half a minute later %d more", more)
	}
	now = now.Add(30 * time.Second)
	if more := spent(5); more != 2 {
		t.Errorf("a minute later %d more", more)
	}
	now = now.Add(time.Hour)
	if more := spent(5); more != 3 {
		t.Errorf("an hour later %d more", more)
	}
}

func TestAnAnswerThatIsTooLongOrCutOffIsNone(t *testing.T) {
	broken := errors.New("connection reset")
	for name, tc := range map[string]struct {
		from io.Reader
		left int
		want error
	}{
		"short":    {strings.NewReader("12345"), 10, nil},
		"to fit":   {strings.NewReader("12345"), 6, nil},
		"too long": {strings.NewReader("12345"), 4, errTooLong},
		"cut off":  {io.MultiReader(strings.NewReader("123"), breaking{broken}), 10, errCutOff},
	} {
		text, err := io.ReadAll(&bounded{ReadCloser: io.NopCloser(tc.from), left: tc.left})
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || len(text) > tc.left {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// breaking ends with an error.
type breaking struct{ err error }

func (f breaking) Read([]byte) (int, error) { return 0, f.err }

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

func TestRequestsAreCountedByAFewWords(t *testing.T) {
	for status, want := range map[int]string{
		0: "unreachable", 200: "answered", 204: "answered", 302: "refused", 401: "unauthorized", 403: "forbidden", 404: "refused", 429: "limited",
		500: "failed", 503: "limited", 504: "failed",
	} {
		if got := outcome(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}
