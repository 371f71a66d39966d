package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const efsDriver = "efs.csi.aws.com"

// message is that of one condition, with its reason; empty if the condition is not there.
func message(cr *operatorv1.ClusterCSIDriver, kind string) string {
	for _, condition := range cr.Status.Conditions {
		if condition.Type == kind {
			return condition.Reason + ": " + condition.Message
		}
	}
	return ""
}

// manualMode makes the administrator responsible for credentials, until the test ends.
func manualMode(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	credentialsMode(t, cluster, operatorv1.CloudCredentialsModeManual)
}

// credentialsMode sets how the cluster hands out credentials, until the test ends.
func credentialsMode(t *testing.T, cluster *env.Cluster, mode operatorv1.CloudCredentialsMode) {
	t.Helper()
	config := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	before := config.Spec.CredentialsMode
	set := func(mode operatorv1.CloudCredentialsMode) error {
		patch := fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, mode)
		object := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		return cluster.Client.Patch(context.Background(), object, env.Merge(patch))
	}
	env.Must(t, set(mode))
	t.Cleanup(func() {
		if err := set(before); err != nil {
			t.Error(err)
		}
	})
}

// tokenMode makes it a cluster with STS, until the test ends: manual mode, and an issuer that the cloud trusts.
func tokenMode(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	manualMode(t, cluster)
	issuer := func(url string) error {
		_, err := cluster.Kubectl(context.Background(), "patch", "authentication.config.openshift.io", "cluster", "--type=merge",
			"-p", fmt.Sprintf(`{"spec":{"serviceAccountIssuer":%q}}`, url))
		return err
	}
	env.Must(t, issuer("https://oidc.example"))
	t.Cleanup(func() { env.Must(t, issuer("")) })
}

// secret is one that an administrator makes.
func secret(name string) *corev1.Secret {
	return env.KeySecret(name, "AKIAEXAMPLE", "made-up-"+name)
}

// rotate gives a Secret another key.
func rotate(t *testing.T, cluster *env.Cluster, object *corev1.Secret, key string) error {
	t.Helper()
	object.Data["aws_secret_access_key"] = []byte(key)
	return cluster.Client.Update(t.Context(), object)
}

// recreate deletes a Secret and makes one with the same content.
func recreate(t *testing.T, cluster *env.Cluster, object *corev1.Secret) error {
	t.Helper()
	data := object.Data
	if err := cluster.Client.Delete(t.Context(), object); err != nil {
		return err
	}
	*object = *secret(object.Name)
	object.Data = data
	return cluster.Client.Create(t.Context(), object)
}

// state checks that the message of a condition contains a text.
func state(ctx context.Context, cluster *env.Cluster, kind, want string) error {
	cr := env.EFS("")
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	if cr.Status.ObservedGeneration != cr.Generation {
		return errors.New("the newest generation is not observed yet")
	}
	if got := message(cr, kind); !strings.Contains(got, want) {
		return fmt.Errorf("condition %s is %q, want %q in it", kind, got, want)
	}
	return nil
}

// mentioned returns an error unless a condition has the text.
func mentioned(ctx context.Context, cluster *env.Cluster, text string) error {
	cr := env.EFS("")
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	if !strings.Contains(fmt.Sprint(cr.Status.Conditions), text) {
		return fmt.Errorf("no condition has %q: %v", text, cr.Status.Conditions)
	}
	return nil
}
