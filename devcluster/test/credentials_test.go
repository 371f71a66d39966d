package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
)

const credentialsNamespace = "openshift-cloud-credential-operator"

// credentialsRequest makes a request for a Secret of the same name.
func credentialsRequest(name, secretNamespace string, provider map[string]any) *unstructured.Unstructured {
	provider["kind"] = "AWSProviderSpec"
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cloudcredential.openshift.io/v1",
		"kind":       "CredentialsRequest",
		"metadata":   map[string]any{"namespace": credentialsNamespace, "name": name},
		"spec": map[string]any{
			"secretRef":      map[string]any{"namespace": secretNamespace, "name": name},
			"providerSpec":   provider,
			"cloudTokenPath": "/var/run/secrets/token",
		},
	}}
	return object
}

func (r *running) create(object client.Object) {
	r.t.Helper()
	if err := r.client.Create(context.Background(), object); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) delete(object client.Object) {
	r.t.Helper()
	if err := r.client.Delete(context.Background(), object); err != nil {
		r.t.Fatal(err)
	}
}

// expect waits until the object is as the check wants it.
func (r *running) expect(object client.Object, check func() error) {
	r.t.Helper()
	eventually(r.t, func() error {
		if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check()
	})
}

func (r *running) expectGone(object client.Object) {
	r.t.Helper()
	eventually(r.t, func() error {
		err := r.client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %T %s: got %w, want not found", object, object.GetName(), err)
		}
		return nil
	})
}

// change edits an object that may be written by others at the same time.
func (r *running) change(object client.Object, edit func()) {
	r.t.Helper()
	r.expect(object, func() error {
		before := object.DeepCopyObject().(client.Object)
		edit()
		return r.client.Patch(context.Background(), object, client.MergeFrom(before))
	})
}

func provisioned(request *unstructured.Unstructured, want bool) func() error {
	return func() error {
		got, _, err := unstructured.NestedBool(request.Object, "status", "provisioned")
		if err != nil || got != want {
			return fmt.Errorf("CredentialsRequest %s: provisioned is %v, want %v (%w)", request.GetName(), got, want, err)
		}
		generation, _, err := unstructured.NestedInt64(request.Object, "status", "lastSyncGeneration")
		if want && (err != nil || generation != request.GetGeneration()) {
			return fmt.Errorf("CredentialsRequest %s: synced generation %d, want %d (%w)", request.GetName(), generation, request.GetGeneration(), err)
		}
		return nil
	}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func credentialsAreMinted(t *testing.T, r *running) {
	request := credentialsRequest("minted", openshift.DriverNamespace, map[string]any{})
	r.create(request)
	r.expect(request, provisioned(request, true))
	minted := secret(openshift.DriverNamespace, "minted")
	complete := func() error {
		id := string(minted.Data["aws_access_key_id"])
		if id == "" || len(minted.Data["aws_secret_access_key"]) == 0 || !strings.Contains(string(minted.Data["credentials"]), id) {
			return fmt.Errorf("the Secret holds %v", minted.Data)
		}
		return nil
	}
	r.expect(minted, complete)
	if got, want := minted.Annotations["cloudcredential.openshift.io/credentials-request"], credentialsNamespace+"/minted"; got != want {
		t.Errorf("the Secret names the request %q, want %q", got, want)
	}
	if !slices.Contains(request.GetFinalizers(), "cloudcredential.openshift.io/deprovision") {
		t.Errorf("the request has the finalizers %v", request.GetFinalizers())
	}
	r.delete(minted)
	r.expect(minted, complete)
	r.change(minted, func() { delete(minted.Data, "credentials") })
	r.expect(minted, complete)
	r.change(request, func() {
		_ = unstructured.SetNestedField(request.Object, "/elsewhere", "spec", "cloudTokenPath")
	})
	r.expect(request, provisioned(request, true))
	r.delete(request)
	r.expectGone(request)
	r.expectGone(minted)
}

func credentialsWaitForNamespace(_ *testing.T, r *running) {
	request := credentialsRequest("early", "comes-late", map[string]any{})
	r.create(request)
	missing := func(want string) func() error {
		return func() error {
			conditions, _, err := unstructured.NestedSlice(request.Object, "status", "conditions")
			for _, c := range conditions {
				condition, _ := c.(map[string]any)
				if condition["type"] == "MissingTargetNamespace" && condition["status"] == want {
					return nil
				}
			}
			return fmt.Errorf("the conditions are %v, want MissingTargetNamespace=%s (%w)", conditions, want, err)
		}
	}
	r.expect(request, missing("True"))
	r.expect(request, provisioned(request, false))
	r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "comes-late"}})
	r.expect(request, provisioned(request, true))
	r.expect(request, missing("False"))
	r.expect(secret("comes-late", "early"), func() error { return nil })
	r.delete(request)
	r.expectGone(request)
}

// setMode changes the credentials mode of the cluster until the test ends, and returns when the stand-in knows.
func (r *running) setMode(mode operatorv1.CloudCredentialsMode, issuer string) {
	r.t.Helper()
	set := func(mode operatorv1.CloudCredentialsMode, issuer string) {
		authentication := &configv1.Authentication{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		r.change(authentication, func() { authentication.Spec.ServiceAccountIssuer = issuer })
		config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		r.change(config, func() { config.Spec.CredentialsMode = mode })
		eventually(r.t, func() error { return r.probe(mode, issuer) })
	}
	set(mode, issuer)
	r.t.Cleanup(func() { set(operatorv1.CloudCredentialsModeMint, "") })
}

// probe makes a request and reports an error if it is not answered as the mode demands.
func (r *running) probe(mode operatorv1.CloudCredentialsMode, issuer string) error {
	r.t.Helper()
	request := credentialsRequest("probe", openshift.DriverNamespace, map[string]any{"stsIAMRoleARN": "arn:aws:iam::123456789012:role/a"})
	r.create(request)
	r.settle()
	got := secret(openshift.DriverNamespace, "probe")
	err := client.IgnoreNotFound(r.client.Get(context.Background(), client.ObjectKeyFromObject(got), got))
	if err != nil {
		return err
	}
	r.delete(request)
	r.expectGone(request)
	wantKey := mode == operatorv1.CloudCredentialsModeMint
	wantRole := !wantKey && issuer != ""
	key, role := len(got.Data["aws_access_key_id"]) > 0, strings.Contains(string(got.Data["credentials"]), "role_arn")
	if key != wantKey || role != wantRole {
		// In manual mode, the stand-in leaves the Secret that it has made in another.
		if err := client.IgnoreNotFound(r.client.Delete(context.Background(), got)); err != nil {
			return err
		}
		return fmt.Errorf("mode %s, issuer %q: got a key: %v, a role: %v, want %v, %v", mode, issuer, key, role, wantKey, wantRole)
	}
	return nil
}

// settle waits until the stand-in has dealt with all requests made so far. It deals with them in their order, and in
// every mode it lets a deleted one go.
func (r *running) settle() {
	r.t.Helper()
	for range 2 {
		// What one event of a request begins, a second one ends: the first is that of the new finalizer.
		marker := credentialsRequest("marker", openshift.DriverNamespace, map[string]any{})
		marker.SetFinalizers([]string{"cloudcredential.openshift.io/deprovision"})
		r.create(marker)
		r.delete(marker)
		r.expectGone(marker)
	}
}

func manualModeProvidesNothing(t *testing.T, r *running) {
	before := credentialsRequest("from-before", openshift.DriverNamespace, map[string]any{})
	r.create(before)
	r.expect(before, provisioned(before, true))
	r.setMode(operatorv1.CloudCredentialsModeManual, "")
	request := credentialsRequest("by-hand", openshift.DriverNamespace, map[string]any{"stsIAMRoleARN": "arn:aws:iam::123456789012:role/a"})
	r.create(request)
	r.settle()
	if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(request), request); err != nil {
		t.Fatal(err)
	}
	if err := provisioned(request, false)(); err != nil {
		t.Error(err)
	}
	if len(request.GetFinalizers()) > 0 {
		t.Errorf("the request has the finalizers %v", request.GetFinalizers())
	}
	made := secret(openshift.DriverNamespace, "by-hand")
	if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(made), made); !apierrors.IsNotFound(err) {
		t.Errorf("get the Secret: got %v, want not found", err)
	}
	r.delete(request)
	r.expectGone(request)
	// A finalizer from another mode must not keep the request for ever.
	r.delete(before)
	r.expectGone(before)
	r.delete(secret(openshift.DriverNamespace, "from-before"))
}

func stsProvidesRole(t *testing.T, r *running) {
	r.setMode(operatorv1.CloudCredentialsModeManual, "https://issuer.invalid")
	const role = "arn:aws:iam::123456789012:role/a"
	request := credentialsRequest("role", openshift.DriverNamespace, map[string]any{"stsIAMRoleARN": role})
	r.create(request)
	r.expect(request, provisioned(request, true))
	made := secret(openshift.DriverNamespace, "role")
	r.expect(made, func() error { return nil })
	for _, want := range []string{"role_arn = " + role, "web_identity_token_file = /var/run/secrets/token", "sts_regional_endpoints = regional"} {
		if got := string(made.Data["credentials"]); !strings.Contains(got, want) || len(made.Data) != 1 {
			t.Errorf("%q is not in %q, or there are other keys: %d in all", want, got, len(made.Data))
		}
	}
	without := credentialsRequest("no-role", openshift.DriverNamespace, map[string]any{})
	r.create(without)
	r.settle()
	if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(without), without); err != nil {
		t.Fatal(err)
	}
	if err := provisioned(without, false)(); err != nil {
		t.Error(err)
	}
	r.delete(without)
	r.delete(request)
	r.expectGone(request)
	r.expectGone(made)
}
