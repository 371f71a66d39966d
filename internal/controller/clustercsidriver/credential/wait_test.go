package credential

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

const waitForMinting = "waiting for Secret storage-system/disk-keys, which shows whether the cloud-credential-operator creates keys for this cluster"

// Without it, node pods would be started twice, or with keys that they must not have.
func TestHowLongPodsWaitUntilItIsKnownWhetherKeysAreMinted(t *testing.T) {
	usual := driver.Config{Namespace: here, Kinds: served(), CredentialsMode: operatorv1.CloudCredentialsModeDefault}
	with := func(change func(cfg *driver.Config)) driver.Config {
		cfg := usual
		change(&cfg)
		return cfg
	}
	old := request("disk-request")
	old.CreationTimestamp = metav1.NewTime(began.Add(-90 * time.Second))
	older := request("disk-request")
	older.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
	failing := old.DeepCopy()
	failing.Status.Conditions = []cloudcredentialv1.CredentialsRequestCondition{{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue}}
	for name, tc := range map[string]struct {
		cfg     driver.Config
		request *cloudcredentialv1.CredentialsRequest
		secret  Secret
		want    string
		wait    time.Duration
	}{
		"no request yet":               {usual, nil, Secret{}, waitForMinting, 2 * time.Minute},
		"a request":                    {usual, old, Secret{}, waitForMinting, 30 * time.Second},
		"an old request":               {usual, older, Secret{}, "", 0},
		"a request that fails":         {usual, failing, Secret{}, "", 0},
		"a Secret of the request":      {usual, old, Secret{Hash: "a", Request: cloudcredentialv1.Namespace + "/disk-request"}, waitForMinting, 30 * time.Second},
		"a Secret that was made first": {usual, nil, Secret{Hash: "a"}, "", 0},
		"it is known":                  {with(func(cfg *driver.Config) { cfg.Minting = driver.PassesThrough }), nil, Secret{}, "", 0},
		"another mode":                 {with(func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual }), nil, Secret{}, "", 0},
		"nobody makes any":             {with(func(cfg *driver.Config) { cfg.Kinds = nil }), nil, Secret{}, "", 0},
		"roles for all of them":        {with(func(cfg *driver.Config) { cfg.RoleARNs = map[string]string{"ROLEARN": "arn"} }), nil, Secret{}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found := Found{
				Requests: map[string]*cloudcredentialv1.CredentialsRequest{"disk-request": tc.request}, Secrets: map[string]Secret{"disk-keys": tc.secret},
			}
			got, wait := found.Wait(disk(), tc.cfg, disk().Credentials[1], began)
			if got != tc.want || wait != tc.wait {
				t.Errorf("%q for %s, want %q for %s", got, wait, tc.want, tc.wait)
			}
		})
	}
}

// Clocks may differ: what was made in the future is not waited for any longer.
func TestNobodyWaitsLongerThanTwoMinutes(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: 2 * time.Minute, 0: 2 * time.Minute, time.Minute: time.Minute, 2 * time.Minute: 0, time.Hour: 0,
	} {
		one := request("disk-request")
		one.CreationTimestamp = metav1.NewTime(began.Add(-age))
		if got := RestOfWait(one, began); got != want {
			t.Errorf("made %s ago: %s, want %s", age, got, want)
		}
	}
}

func TestWhichHashOfASecretCounts(t *testing.T) {
	credentials := disk().Credentials
	minting := driver.Config{Kinds: served(), CredentialsMode: operatorv1.CloudCredentialsModeMint}
	passing := driver.Config{Kinds: served(), CredentialsMode: operatorv1.CloudCredentialsModePassthrough}
	keys := []string{"credentials"}
	ofRequest := cloudcredentialv1.Namespace + "/disk-node-request"
	for name, tc := range map[string]struct {
		cfg         driver.Config
		credentials driver.Credentials
		found       Secret
		want        string
	}{
		"its own":                                       {minting, credentials[0], Secret{Hash: "new", Keys: keys}, "new"},
		"the one before, while it is gone":              {minting, credentials[0], Secret{}, "before"},
		"the one before, while it is made":              {minting, credentials[0], Secret{Hash: "new", Keys: []string{"id"}}, "before"},
		"an optional one":                               {minting, credentials[1], Secret{Hash: "new", Keys: keys, Request: ofRequest}, "new"},
		"an optional one that goes with its request":    {passing, credentials[1], Secret{Hash: "new", Keys: keys, Request: ofRequest}, ""},
		"an optional one that somebody has made":        {passing, credentials[1], Secret{Hash: "new", Keys: keys}, "new"},
		"an optional one of another request":            {passing, credentials[1], Secret{Hash: "new", Keys: keys, Request: "other/request"}, "new"},
		"an optional one with the cluster's own keys":   {minting, credentials[1], Secret{Hash: "new", Keys: keys, PassedThrough: true}, ""},
		"one of the controller with the cluster's keys": {minting, credentials[0], Secret{Hash: "new", Keys: keys, PassedThrough: true}, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			has := Found{Secrets: map[string]Secret{tc.credentials.Secret: tc.found}}
			if got := has.Lasting(tc.cfg, tc.credentials, "before"); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestOnlyACopyOfTheClustersKeysIsWithdrawnFromNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		secrets map[string]Secret
		want    string
	}{
		"none":                 {nil, ""},
		"minted":               {map[string]Secret{"disk-node-keys": {Hash: "a", Minted: true}}, ""},
		"passed through":       {map[string]Secret{"disk-node-keys": {Hash: "a", PassedThrough: true}}, "disk-node-keys"},
		"of the controller":    {map[string]Secret{"disk-keys": {Hash: "a", PassedThrough: true}}, ""},
		"made by hand, or STS": {map[string]Secret{"disk-node-keys": {Hash: "a"}}, ""},
	} {
		if got := (Found{Secrets: tc.secrets}).Withdrawn(disk()); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestHowLongPodsWaitForASecret(t *testing.T) {
	const keys, nodeKeys = "waiting for Secret storage-system/disk-keys", "waiting for Secret storage-system/disk-node-keys"
	for name, tc := range map[string]struct {
		change func(c *scene)
		of     int
		now    time.Duration
		want   string
		wait   time.Duration
	}{
		"one that the pods need":    {of: 0, now: time.Hour, want: keys},
		"an optional one":           {of: 1, now: time.Minute, want: nodeKeys, wait: time.Minute},
		"an optional one, for long": {of: 1, now: 2 * time.Minute},
		"one that can't be made": {change: func(c *scene) {
			c.found.Requests["disk-node-request"].Status.Conditions = []cloudcredentialv1.CredentialsRequestCondition{
				{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue},
			}
		}, of: 1},
		"one that is not asked for":    {change: func(c *scene) { c.cfg.Kinds = nil }, of: 1},
		"one whose request is not yet": {change: func(c *scene) { clear(c.found.Requests) }, of: 1, now: time.Hour, want: nodeKeys, wait: 2 * time.Minute},
	} {
		c := everything()
		if tc.change != nil {
			tc.change(c)
		}
		if got, wait := c.found.Wait(c.driver, c.cfg, c.driver.Credentials[tc.of], began.Add(tc.now)); got != tc.want || wait != tc.wait {
			t.Errorf("%s: %q for %s, want %q for %s", name, got, wait, tc.want, tc.wait)
		}
	}
}
