package standin

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func request(t *testing.T, role string) *credentialsRequest {
	t.Helper()
	object := newRequest()
	object.SetNamespace(requestNamespace)
	object.SetName("a")
	object.SetGeneration(3)
	object.Object["spec"] = map[string]any{
		"secretRef":      map[string]any{"namespace": "ns", "name": "secret"},
		"providerSpec":   map[string]any{"stsIAMRoleARN": role},
		"cloudTokenPath": "/token",
	}
	return decode(t, object)
}

func decode(t *testing.T, object *unstructured.Unstructured) *credentialsRequest {
	t.Helper()
	r, err := decodeRequest(object)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatusThatIsTrueIsNotWrittenAgain(t *testing.T) {
	for _, provisioned := range []bool{true, false} {
		wanted, changed, err := request(t, "").withStatus(provisioned)
		if err != nil || !changed {
			t.Fatalf("provisioned %v: first status: changed %v (%v)", provisioned, changed, err)
		}
		if _, changed, err := decode(t, wanted).withStatus(provisioned); err != nil || changed {
			t.Errorf("provisioned %v: second status: changed %v (%v)", provisioned, changed, err)
		}
		if _, changed, err := decode(t, wanted).withStatus(!provisioned); err != nil || !changed {
			t.Errorf("provisioned %v: the opposite: changed %v (%v)", provisioned, changed, err)
		}
		wanted.SetGeneration(4)
		if _, changed, err := decode(t, wanted).withStatus(provisioned); err != nil || changed != provisioned {
			t.Errorf("provisioned %v: next generation: changed %v (%v)", provisioned, changed, err)
		}
	}
}

func TestMintedSecretHasTheKeysOfItsCloud(t *testing.T) {
	for kind, want := range map[string][]string{
		"":                            {"aws_access_key_id", "aws_secret_access_key", "credentials"},
		"AWSProviderSpec":             {"aws_access_key_id", "aws_secret_access_key", "credentials"},
		"GCPProviderSpec":             {"service_account.json"},
		"IBMCloudProviderSpec":        {"ibm-credentials.env", "ibmcloud_api_key"},
		"IBMCloudPowerVSProviderSpec": {"ibm-credentials.env", "ibmcloud_api_key"},
		"OpenStackProviderSpec":       {"clouds.conf", "clouds.yaml"},
		"VSphereProviderSpec":         {"vcenter.fake.invalid.password", "vcenter.fake.invalid.username"},
		"AzureProviderSpec": {
			"azure_client_id", "azure_client_secret", "azure_region", "azure_resource_prefix", "azure_resourcegroup",
			"azure_subscription_id", "azure_tenant_id",
		},
	} {
		r := request(t, "")
		r.Spec.ProviderSpec.Kind = kind
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(secretData(r, mint).content))); diff != "" {
			t.Errorf("%q: -want +got:\n%s", kind, diff)
		}
		if secretData(r, manual).content != nil {
			t.Errorf("%q: a Secret in manual mode", kind)
		}
	}
}

func TestSecretDependsOnTheMode(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/a"
	for name, test := range map[string]struct {
		mode mode
		role string
		want []string
		keys int
	}{
		"mint":             {mint, "", []string{"aws_access_key_id = AKIAFAKE"}, 3},
		"passthrough":      {passthrough, "", []string{"aws_access_key_id = AKIAFAKE0000DEADBEEF"}, 3},
		"manual":           {manual, role, nil, 0},
		"STS":              {sts, role, []string{"role_arn = " + role, "web_identity_token_file = /token"}, 1},
		"STS without role": {sts, "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, test.role)
			r.Spec.ProviderSpec.Kind = "AWSProviderSpec"
			data := secretData(r, test.mode)
			if len(data.content) != test.keys {
				t.Errorf("got %d keys, want %d", len(data.content), test.keys)
			}
			for _, want := range test.want {
				if !strings.Contains(string(data.content["credentials"]), want) {
					t.Errorf("%q is not in %q", want, data.content["credentials"])
				}
			}
		})
	}
}

// The policy tells keys that were made for a request from the administrator's, and nothing else does.
func TestThePolicyTellsMintedKeysFromPassedThroughOnes(t *testing.T) {
	const policy = "cloudcredential.openshift.io/aws-policy-last-applied"
	for name, test := range map[string]struct {
		mode     mode
		kind     string
		has, set bool
	}{
		"mint":                  {mint, "AWSProviderSpec", true, true},
		"passthrough":           {passthrough, "AWSProviderSpec", true, false},
		"mint on another cloud": {mint, "GCPProviderSpec", false, false},
		"STS":                   {sts, "AWSProviderSpec", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, "arn:aws:iam::123456789012:role/a")
			r.Spec.ProviderSpec.Kind = test.kind
			value, has := secretData(r, test.mode).annotations(r.key())[policy]
			if has != test.has || (value != "") != test.set {
				t.Errorf("annotation %q, there: %v", value, has)
			}
		})
	}
}
