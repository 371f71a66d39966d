package credential

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

func TestWhatIsKnownOfASecret(t *testing.T) {
	const policy = "cloudcredential.openshift.io/aws-policy-last-applied"
	data := map[string][]byte{"key": []byte("b"), "id": []byte("a")}
	hash := apply.ContentHash(data)
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   Secret
	}{
		"none":           {nil, Secret{}},
		"made by hand":   {secret(nil, data), Secret{Hash: hash, Keys: []string{"id", "key"}}},
		"an empty one":   {secret(nil, nil), Secret{Hash: apply.Digest("")}},
		"minted":         {secret(map[string]string{policy: "policy"}, data), Secret{Hash: hash, Keys: []string{"id", "key"}, Minted: true}},
		"passed through": {secret(map[string]string{policy: ""}, data), Secret{Hash: hash, Keys: []string{"id", "key"}, PassedThrough: true}},
		"made for a request": {
			secret(map[string]string{"cloudcredential.openshift.io/credentials-request": "a/b"}, data),
			Secret{Hash: hash, Keys: []string{"id", "key"}, Request: "a/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, _ := newSource(t)
			if tc.secret != nil {
				source, _ = newSource(t, tc.secret)
			}
			got, err := source.secret(t.Context(), "disk-keys")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	// Keys and values can't be mistaken for each other.
	source, cluster := newSource(t, secret(nil, map[string][]byte{"id": []byte("a\"\n\"key\":\"b")}))
	if got, err := source.secret(t.Context(), "disk-keys"); err != nil || got.Hash == hash {
		t.Errorf("another Secret has the same hash: %v", err)
	}
	cluster.Refuse(errors.New("no route"), "get Secret disk-keys")
	if _, err := source.secret(t.Context(), "disk-keys"); err == nil || err.Error() != "read Secret disk-keys: no route" {
		t.Error(err)
	}
	source.Secrets = nil
	if got, err := source.secret(t.Context(), "disk-keys"); err != nil || got.Hash != "" {
		t.Errorf("a preview reads Secrets: %+v, %v", got, err)
	}
}

// In default mode the Secrets show whether the cloud-credential-operator makes keys.
func TestWhetherKeysAreMinted(t *testing.T) {
	minted, passed := Secret{Hash: "a", Minted: true}, Secret{Hash: "a", PassedThrough: true}
	node := map[string]*cloudcredentialv1.CredentialsRequest{"disk-node-request": request("disk-node-request")}
	for name, tc := range map[string]struct {
		mode     operatorv1.CloudCredentialsMode
		unserved bool
		secrets  map[string]Secret
		requests map[string]*cloudcredentialv1.CredentialsRequest
		want     driver.Minting
	}{
		"mint mode says it":              {mode: operatorv1.CloudCredentialsModeMint, secrets: map[string]Secret{"disk-keys": minted}},
		"no cloud-credential-operator":   {unserved: true, secrets: map[string]Secret{"disk-keys": minted}},
		"nothing is known":               {},
		"minted":                         {secrets: map[string]Secret{"disk-keys": minted}, want: driver.Mints},
		"passed through":                 {secrets: map[string]Secret{"disk-keys": passed}, requests: node, want: driver.PassesThrough},
		"made by hand":                   {secrets: map[string]Secret{"disk-keys": {Hash: "a"}}},
		"an optional one proves nothing": {secrets: map[string]Secret{"disk-node-keys": passed}},
		"a request that was made stays":  {requests: node, want: driver.Mints},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := driver.Config{CredentialsMode: tc.mode, Kinds: served()}
			if tc.unserved {
				cfg.Kinds = nil
			}
			if got := (Found{Secrets: tc.secrets, Requests: tc.requests}).Minting(disk(), cfg); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestEachObjectIsReadOnce(t *testing.T) {
	source, cluster := newSource(t, secret(nil, map[string][]byte{"credentials": nil}), request("disk-request"), request("other"))
	found, err := source.Read(t.Context())
	if err != nil || len(found.Secrets) != 1 || found.Secrets["disk-keys"].Hash == "" || len(found.Requests) != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	want := []string{"get Secret " + here + "/disk-keys", "get Secret " + here + "/disk-node-keys", "list CredentialsRequest"}
	if diff := cmp.Diff(want, cluster.Reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	cluster.Refuse(errors.New("no route"), "list CredentialsRequest")
	if _, err := source.Read(t.Context()); err == nil || err.Error() != "list CredentialsRequests: no route" {
		t.Error(err)
	}
	source.Kinds = nil
	if found, err = source.Read(t.Context()); err != nil || len(found.Requests) > 0 {
		t.Errorf("a kind that is not served is read: %+v, %v", found, err)
	}
}

func TestTheFirstSecretThatIsMissingIsNamed(t *testing.T) {
	const keys, nodeKeys = "Secret storage-system/disk-keys", "Secret storage-system/disk-node-keys"
	for name, tc := range map[string]struct {
		change         func(secrets map[string]Secret)
		waits, problem string
	}{
		"none is missing": {change: func(map[string]Secret) {}},
		"no Secret":       {func(secrets map[string]Secret) { clear(secrets) }, keys, ""},
		"one of no use": {
			func(secrets map[string]Secret) { secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"id"}} }, keys,
			keys + " has keys [id], but needs key credentials, or keys id and key",
		},
		"the second one": {func(secrets map[string]Secret) { delete(secrets, "disk-node-keys") }, nodeKeys, ""},
	} {
		found := everything().found
		tc.change(found.Secrets)
		if waits, problem := found.Missing(disk(), here); waits != tc.waits || problem != tc.problem {
			t.Errorf("%s: %q, %q; want %q, %q", name, waits, problem, tc.waits, tc.problem)
		}
	}
}
