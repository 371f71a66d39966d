package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// missingNamespace is the condition of a request whose Secret has no namespace to be in.
const missingNamespace = "MissingTargetNamespace"

// credentialsRequest is what the stand-in reads of a CredentialsRequest.
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

// key is how the Secret names its request.
func (r *credentialsRequest) key() string { return r.object.GetNamespace() + "/" + r.object.GetName() }

// withStatus returns the object with the status that it should have, and whether that differs from what it has.
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
	// A condition that was never true need not be there.
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

// secretData returns what the request's Secret holds in this mode, or nil if it gets none.
func secretData(request *credentialsRequest, mode mode) map[string][]byte {
	switch {
	case mode == mint:
		sum := sha256.Sum256([]byte(request.key()))
		id := "AKIAFAKE" + strings.ToUpper(hex.EncodeToString(sum[:6]))
		secret := "not-a-real-secret-" + hex.EncodeToString(sum[6:16])
		return map[string][]byte{
			"aws_access_key_id":     []byte(id),
			"aws_secret_access_key": []byte(secret),
			"credentials":           fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", id, secret),
		}
	case mode == sts && request.Spec.ProviderSpec.STSIAMRoleARN != "":
		return map[string][]byte{
			"credentials": fmt.Appendf(nil, "[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = %s\n",
				request.Spec.ProviderSpec.STSIAMRoleARN, request.Spec.CloudTokenPath),
		}
	default:
		return nil
	}
}

// requestOfSecret returns the request that a minted Secret belongs to.
func requestOfSecret(_ context.Context, object client.Object) []reconcile.Request {
	namespace, name, found := strings.Cut(object.GetAnnotations()[requestAnnotation], "/")
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
