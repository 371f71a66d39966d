package clustercsidriver

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestWhatIsKnownOfASecret(t *testing.T) {
	const policy = "cloudcredential.openshift.io/aws-policy-last-applied"
	data := map[string][]byte{"key": []byte("b"), "id": []byte("a")}
	hash := apply.ContentHash(data)
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   foundSecret
	}{
		"none":           {nil, foundSecret{}},
		"made by hand":   {secret(nil, data), foundSecret{hash: hash, keys: []string{"id", "key"}}},
		"an empty one":   {secret(nil, nil), foundSecret{hash: apply.Digest("")}},
		"minted":         {secret(map[string]string{policy: "policy"}, data), foundSecret{hash: hash, keys: []string{"id", "key"}, minted: true}},
		"passed through": {secret(map[string]string{policy: ""}, data), foundSecret{hash: hash, keys: []string{"id", "key"}, passedThrough: true}},
		"made for a request": {
			secret(map[string]string{"cloudcredential.openshift.io/credentials-request": "a/b"}, data),
			foundSecret{hash: hash, keys: []string{"id", "key"}, request: "a/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			if tc.secret != nil {
				trip = newTrip(t, disk(), tc.secret)
			}
			got, err := trip.secret(t.Context(), "disk-keys")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(foundSecret{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	// Keys and values can't be mistaken for each other.
	trip := newTrip(t, disk(), secret(nil, map[string][]byte{"id": []byte("a\"\n\"key\":\"b")}))
	if got, err := trip.secret(t.Context(), "disk-keys"); err != nil || got.hash == hash {
		t.Errorf("another Secret has the same hash: %v", err)
	}
	trip.cluster.Refuse(errors.New("no route"), "get Secret disk-keys")
	if _, err := trip.secret(t.Context(), "disk-keys"); err == nil || err.Error() != "read Secret disk-keys: no route" {
		t.Error(err)
	}
	trip.Secrets = nil
	if got, err := trip.secret(t.Context(), "disk-keys"); err != nil || got.hash != "" {
		t.Errorf("a preview reads Secrets: %+v, %v", got, err)
	}
}

// In default mode the Secrets show whether the cloud-credential-operator makes keys.
func TestWhetherKeysAreMinted(t *testing.T) {
	minted, passed := foundSecret{hash: "a", minted: true}, foundSecret{hash: "a", passedThrough: true}
	node := map[string]*cloudcredentialv1.CredentialsRequest{"disk-node-request": request("disk-node-request")}
	for name, tc := range map[string]struct {
		mode     operatorv1.CloudCredentialsMode
		unserved bool
		secrets  map[string]foundSecret
		requests map[string]*cloudcredentialv1.CredentialsRequest
		want     driver.Minting
	}{
		"mint mode says it":              {mode: operatorv1.CloudCredentialsModeMint, secrets: map[string]foundSecret{"disk-keys": minted}},
		"no cloud-credential-operator":   {unserved: true, secrets: map[string]foundSecret{"disk-keys": minted}},
		"nothing is known":               {},
		"minted":                         {secrets: map[string]foundSecret{"disk-keys": minted}, want: driver.Mints},
		"passed through":                 {secrets: map[string]foundSecret{"disk-keys": passed}, requests: node, want: driver.PassesThrough},
		"made by hand":                   {secrets: map[string]foundSecret{"disk-keys": {hash: "a"}}},
		"an optional one proves nothing": {secrets: map[string]foundSecret{"disk-node-keys": passed}},
		"a request that was made stays":  {requests: node, want: driver.Mints},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Driver: disk(), Kinds: allKinds()}
			if tc.unserved {
				r.Kinds = nil
			}
			if got := r.minting(tc.mode, live{secrets: tc.secrets, requests: tc.requests}); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Without it, node pods would be started twice, or with keys that they must not have.
func TestHowLongPodsWaitUntilItIsKnownWhetherKeysAreMinted(t *testing.T) {
	usual := driver.Config{Kinds: allKinds(), CredentialsMode: operatorv1.CloudCredentialsModeDefault}
	with := func(change func(cfg *driver.Config)) driver.Config {
		cfg := usual
		change(&cfg)
		return cfg
	}
	old := request("disk-request")
	old.CreationTimestamp = metav1.NewTime(began.Add(-90 * time.Second))
	older := request("disk-request")
	older.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
	for name, tc := range map[string]struct {
		cfg     driver.Config
		request *cloudcredentialv1.CredentialsRequest
		want    string
		wait    time.Duration
	}{
		"no request yet":        {usual, nil, waitForMinting, 2 * time.Minute},
		"a request":             {usual, old, waitForMinting, 30 * time.Second},
		"an old request":        {usual, older, "", 0},
		"it is known":           {with(func(cfg *driver.Config) { cfg.Minting = driver.PassesThrough }), nil, "", 0},
		"another mode":          {with(func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual }), nil, "", 0},
		"nobody makes any":      {with(func(cfg *driver.Config) { cfg.Kinds = nil }), nil, "", 0},
		"roles for all of them": {with(func(cfg *driver.Config) { cfg.RoleARNs = map[string]string{"ROLEARN": "arn"} }), nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			got, wait := trip.waitForMinting(tc.cfg, live{requests: map[string]*cloudcredentialv1.CredentialsRequest{"disk-request": tc.request}})
			if got != tc.want || wait != tc.wait {
				t.Errorf("%q for %s, want %q for %s", got, wait, tc.want, tc.wait)
			}
		})
	}
}
