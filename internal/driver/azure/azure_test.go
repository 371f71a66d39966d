package azure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// canary must not appear in any message.
const canary = "s3cr3t"

func principal(further ...string) map[string][]byte {
	secret := map[string][]byte{clientID: []byte("app"), clientSecret: []byte(canary), tenantID: []byte("tenant")}
	for i := 0; i < len(further); i += 2 {
		secret[further[i]] = []byte(further[i+1])
	}
	return secret
}

func TestTheIdentityOfTheDriverReplacesTheConfigurations(t *testing.T) {
	const token = "/var/run/secrets/openshift/serviceaccount/token"
	for name, tc := range map[string]struct {
		config string
		secret map[string][]byte
		want   string
	}{
		"service principal": {
			`{"cloud":"AzurePublicCloud","tenantId":"theirs","aadClientId":"","aadClientSecret":"","useManagedIdentityExtension":true,"maximumLoadBalancerRuleCount":250}`,
			principal(),
			`{"aadClientId":"app","aadClientSecret":"s3cr3t","cloud":"AzurePublicCloud","maximumLoadBalancerRuleCount":250,"tenantId":"theirs",` +
				`"useFederatedWorkloadIdentityExtension":false,"useManagedIdentityExtension":false}`,
		},
		"workload identity": {
			`{"cloud":"AzureUSGovernmentCloud","tenantId":"theirs","aadClientSecret":"old","a":"text"}`,
			principal(clientSecret, "", federatedTokenFile, token+"\n"),
			`{"a":"text","aadClientId":"app","aadFederatedTokenFile":"` + token + `","cloud":"AzureUSGovernmentCloud","tenantId":"tenant",` +
				`"useFederatedWorkloadIdentityExtension":true,"useManagedIdentityExtension":false}`,
		},
		"an identity that is written otherwise": {
			`{"AADClientID":"other","userAssignedIdentityID":"node","aadClientCertPath":"/x","location":"West US"}`, principal(),
			`{"aadClientId":"app","aadClientSecret":"s3cr3t","location":"West US","useFederatedWorkloadIdentityExtension":false,"useManagedIdentityExtension":false}`,
		},
		"a number that a float would change": {
			`{"n":9007199254740993}`, principal(),
			`{"aadClientId":"app","aadClientSecret":"s3cr3t","n":9007199254740993,"useFederatedWorkloadIdentityExtension":false,"useManagedIdentityExtension":false}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(map[string]string{"config": tc.config}, "creds", tc.secret)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(content[cloudConf])); diff != "" || len(content) != 1 {
				t.Errorf("%d keys, configuration (-want +got):\n%s", len(content), diff)
			}
		})
	}
}

func TestAStackHubHasItsAddresses(t *testing.T) {
	content, err := build(map[string]string{"config": `{"cloud":"AzureStackCloud"}`, "endpoints": `{"name":"hub"}`}, "creds", principal())
	if err != nil || string(content[stackEndpoints]) != `{"name":"hub"}` {
		t.Errorf("addresses %q, %v", content[stackEndpoints], err)
	}
}

func TestWhatIsWrongIsSaidWithoutAnySecret(t *testing.T) {
	const good = `{"cloud":"AzurePublicCloud"}`
	for name, tc := range map[string]struct {
		config, endpoints string
		secret            map[string][]byte
		want              string
	}{
		"both":            {good, "", principal(federatedTokenFile, "/token"), "both azure_client_secret and azure_federated_token_file are in Secret creds: remove one"},
		"neither":         {good, "", principal(clientSecret, " "), "neither azure_client_secret nor azure_federated_token_file is in Secret creds: add one"},
		"no application":  {good, "", principal(clientID, ""), "azure_client_id of Secret creds is empty"},
		"no tenant":       {good, "", principal(clientSecret, "", federatedTokenFile, "/token", tenantID, ""), "needs key azure_tenant_id, which the Secret lacks: add it"},
		"no JSON":         {`{"aadClientSecret":"` + canary + `",}`, "", principal(), "key config of ConfigMap openshift-config/cloud-provider-config is not a JSON object"},
		"nothing":         {"", "", principal(), "is not a JSON object"},
		"null":            {"null", "", principal(), "is not a JSON object"},
		"a list":          {"[]", "", principal(), "is not a JSON object"},
		"more than one":   {good + good, "", principal(), "is not a JSON object"},
		"YAML":            {"cloud: AzurePublicCloud\n", "", principal(), "is not a JSON object"},
		"a hub's missing": {`{"cloud":"AZURESTACKCLOUD"}`, "", principal(), "key endpoints"},
		"a hub's no JSON": {`{"cloud":"AzureStackCloud"}`, canary, principal(), "key endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(map[string]string{"config": tc.config, "endpoints": tc.endpoints}, "creds", tc.secret)
			if err == nil || content != nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("error %v and %d keys, want an error that says %q", err, len(content), tc.want)
			}
		})
	}
}
