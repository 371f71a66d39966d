package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// missingNamespace is the type of a condition. It is True if the namespace of the request's Secret does not exist.
const missingNamespace = "MissingTargetNamespace"

// credentialsRequest has those fields of a CredentialsRequest that the stand-in reads.
type credentialsRequest struct {
	requestFields
	object *unstructured.Unstructured
}

type requestFields struct {
	Spec struct {
		SecretRef struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"secretRef"`
		ProviderSpec struct {
			Kind          string `json:"kind"`
			STSIAMRoleARN string `json:"stsIAMRoleARN"`
		} `json:"providerSpec"`
		CloudTokenPath string `json:"cloudTokenPath"`
	} `json:"spec"`
	Status struct {
		Provisioned        bool               `json:"provisioned"`
		LastSyncGeneration int64              `json:"lastSyncGeneration"`
		Conditions         []requestCondition `json:"conditions"`
	} `json:"status"`
}

type requestCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func requestKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cloudcredential.openshift.io", Version: "v1", Kind: "CredentialsRequest"}
}

func newRequest() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(requestKind())
	return object
}

func newRequestList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(requestKind().GroupVersion().WithKind("CredentialsRequestList"))
	return list
}

func decodeRequest(object *unstructured.Unstructured) (*credentialsRequest, error) {
	request := &credentialsRequest{object: object}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &request.requestFields); err != nil {
		return nil, fmt.Errorf("decode CredentialsRequest %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return request, nil
}

// key returns the namespace and the name of the request, in the form in which the Secret's annotation has them.
func (r *credentialsRequest) key() string { return r.object.GetNamespace() + "/" + r.object.GetName() }

// withStatus returns the object with the wanted status. The second result is true if this status differs from the status that the object had.
func (r *credentialsRequest) withStatus(provisioned bool) (*unstructured.Unstructured, bool, error) {
	missing := ""
	for _, condition := range r.Status.Conditions {
		if condition.Type == missingNamespace {
			missing = condition.Status
		}
	}
	wantMissing := "True"
	if provisioned {
		wantMissing = "False"
	}
	// If the condition was never True, it can be absent.
	sameCondition := missing == wantMissing || missing == "" && provisioned
	generation := r.object.GetGeneration()
	synced := !provisioned || r.Status.LastSyncGeneration == generation
	if sameCondition && synced && r.Status.Provisioned == provisioned {
		return nil, false, nil
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	wanted := r.object.DeepCopy()
	status := map[string]any{"provisioned": provisioned}
	if provisioned {
		status["lastSyncGeneration"] = generation
		status["lastSyncTimestamp"] = now
		status["lastSyncCloudCredsSecretResourceVersion"] = "1"
	}
	if !sameCondition {
		status["conditions"] = []any{r.namespaceCondition(wantMissing, now)}
	}
	for field, value := range status {
		if err := unstructured.SetNestedField(wanted.Object, value, "status", field); err != nil {
			return nil, false, fmt.Errorf("set status.%s of CredentialsRequest %s: %w", field, r.key(), err)
		}
	}
	return wanted, true, nil
}

func (r *credentialsRequest) namespaceCondition(status, now string) map[string]any {
	condition := map[string]any{
		"type": missingNamespace, "status": status, "reason": "NamespaceExists", "message": "target namespace exists",
		"lastProbeTime": now, "lastTransitionTime": now,
	}
	if status == "True" {
		condition["reason"] = "NamespaceMissing"
		condition["message"] = fmt.Sprintf("target namespace %s not found", r.Spec.SecretRef.Namespace)
	}
	return condition
}

// provided is the content of a Secret for a request.
type provided struct {
	content map[string][]byte
	// forUser means that the Secret has keys of an AWS user. policy is the policy of this user.
	forUser bool
	policy  string
	// isRoot means that the Secret has the administrator's credentials.
	isRoot bool
}

func (p provided) annotations(request string) map[string]string {
	annotations := map[string]string{requestAnnotation: request}
	if p.forUser {
		annotations[policyAnnotation] = p.policy
	}
	return annotations
}

// is reports whether a Secret already has this content.
func (p provided) is(secret *corev1.Secret, request string) bool {
	for name, value := range p.annotations(request) {
		if got, found := secret.Annotations[name]; !found || got != value {
			return false
		}
	}
	return maps.EqualFunc(secret.Data, p.content, func(a, b []byte) bool { return string(a) == string(b) })
}

// secretData returns the content of the request's Secret in this mode. If the stand-in makes no Secret, the content is nil.
func secretData(request *credentialsRequest, mode mode) provided {
	kind := request.Spec.ProviderSpec.Kind
	isAWS := kind == "AWSProviderSpec"
	switch {
	case mode == passthrough && isAWS:
		return provided{content: minted(kind, "0000deadbeef", "not-a-real-secret-of-the-administrator"), forUser: true}
	case mode == mint || mode == passthrough:
		sum := sha256.Sum256([]byte(request.key()))
		data := provided{content: minted(kind, hex.EncodeToString(sum[:6]), "not-a-real-secret-"+hex.EncodeToString(sum[6:16])), forUser: isAWS}
		if isAWS {
			data.policy = `{"Version":"2012-10-17","Statement":[]}`
		}
		return data
	case mode == sts && request.Spec.ProviderSpec.STSIAMRoleARN != "":
		return provided{content: map[string][]byte{
			"credentials": fmt.Appendf(nil, "[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = %s\n",
				request.Spec.ProviderSpec.STSIAMRoleARN, request.Spec.CloudTokenPath),
		}}
	default:
		return provided{}
	}
}

// minted returns the content of a Secret for a cloud, with the data keys that drivers read. Argument "kind" is the kind of the request, which says
// which cloud this is.
func minted(kind, id, secret string) map[string][]byte {
	switch kind {
	case "GCPProviderSpec":
		return map[string][]byte{"service_account.json": fmt.Appendf(nil,
			`{"type":"service_account","project_id":"fake","client_email":"%s@fake.iam.gserviceaccount.com","private_key":"%s"}`, id, secret)}
	case "AzureProviderSpec":
		return map[string][]byte{
			"azure_client_id": []byte(id), "azure_client_secret": []byte(secret), "azure_tenant_id": []byte("fake-tenant"),
			"azure_subscription_id": []byte("fake-subscription"), "azure_region": []byte("fake-region"),
			"azure_resourcegroup": []byte("fake-rg"), "azure_resource_prefix": []byte("fake"),
		}
	case "OpenStackProviderSpec":
		return map[string][]byte{
			"clouds.yaml": fmt.Appendf(nil, "clouds:\n  openstack:\n    auth:\n      auth_url: https://fake.invalid:5000\n"+
				"      username: %s\n      password: %s\n", id, secret),
			"clouds.conf": fmt.Appendf(nil, "[Global]\nauth-url = https://fake.invalid:5000\nusername = %s\npassword = %s\n", id, secret),
		}
	case "IBMCloudProviderSpec", "IBMCloudPowerVSProviderSpec":
		return map[string][]byte{
			"ibmcloud_api_key":    []byte(secret),
			"ibm-credentials.env": fmt.Appendf(nil, "IBMCLOUD_AUTHTYPE=iam\nIBMCLOUD_APIKEY=%s\n", secret),
		}
	case "VSphereProviderSpec":
		return map[string][]byte{"vcenter.fake.invalid.username": []byte(id), "vcenter.fake.invalid.password": []byte(secret)}
	default:
		id = "AKIAFAKE" + strings.ToUpper(id)
		return map[string][]byte{
			"aws_access_key_id":     []byte(id),
			"aws_secret_access_key": []byte(secret),
			"credentials":           fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", id, secret),
		}
	}
}
