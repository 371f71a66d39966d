package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// listening returns a free address for the operator.
func listening(t *testing.T) string {
	t.Helper()
	address, err := env.FreeAddress(t.Context())
	env.Must(t, err)
	return address
}

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, cluster *env.Cluster, name string) string {
	t.Helper()
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	env.Scene{Cluster: cluster, T: t}.Keep(object)
	token, err := cluster.Token(t.Context(), object.Namespace, name)
	env.Must(t, err)
	return token
}

func TestMetricsAreServedToThoseWhoMayReadThem(t *testing.T) {
	cluster := clean(t)
	address := listening(t)
	operator, err := cluster.StartOperator(t.Context(),
		[]string{"--leader-elect=false", "--metrics-secure=true", "--metrics-bind-address", address}, nil)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	url := "https://" + address + "/metrics"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	env.Scene{Cluster: cluster, T: t}.Keep(role)
	env.Scene{Cluster: cluster, T: t}.Keep(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	})
	env.Eventually(t, "the endpoint answers", func() error {
		_, err := env.Ask(t.Context(), url, "", env.Trusting(0))
		return err
	})
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	for who, tc := range map[string]struct {
		token string
		want  int
	}{
		"nobody":                     {"", http.StatusUnauthorized},
		"a stranger":                 {"made-up", http.StatusUnauthorized},
		"an account without a right": {account(t, cluster, "stranger"), http.StatusForbidden},
		"an account with the right":  {account(t, cluster, "reader"), http.StatusOK},
	} {
		for range 10 {
			code, err := env.Ask(t.Context(), url, tc.token, env.Trusting(0))
			if err != nil || code != tc.want {
				t.Errorf("%s gets %d (%v), want %d", who, code, err, tc.want)
			}
		}
	}
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	asked := map[string]int{}
	for _, request := range requests {
		asked[request.Object.Resource]++
	}
	if asked["tokenreviews"] != 3 || asked["subjectaccessreviews"] != 2 {
		t.Errorf("40 scrapes of 4 scrapers asked the API server %v, want 3 tokenreviews and 2 subjectaccessreviews", asked)
	}
	if code, err := env.Ask(t.Context(), "http://"+address+"/metrics", "", nil); err == nil && code == http.StatusOK {
		t.Error("plain HTTP is answered")
	}
}

// The endpoint follows the profile of the APIServer where that is meant for all servers, without a restart.
func TestTheOperatorsOwnEndpointFollowsTheTLSProfile(t *testing.T) {
	cluster := clean(t)
	serveAdherence(t, cluster)
	address := listening(t)
	operator, err := cluster.StartOperator(t.Context(),
		[]string{"--leader-elect=false", "--metrics-secure=true", "--metrics-bind-address", address}, nil)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	old := func() error {
		_, err := env.Ask(t.Context(), "https://"+address+"/metrics", "", env.Trusting(tls.VersionTLS12))
		return err
	}
	refused := func() error {
		err := old()
		if err == nil {
			return errors.New("TLS 1.2 is still accepted")
		}
		if !strings.Contains(err.Error(), "protocol version") {
			return err
		}
		return nil
	}
	env.Eventually(t, "TLS 1.2 accepted by default", old)
	set := func(spec string) {
		t.Helper()
		_, err := cluster.Kubectl(context.Background(), "patch", "apiserver", "cluster", "--type=merge", "-p", `{"spec":`+spec+`}`)
		env.Must(t, err)
	}
	t.Cleanup(func() { set(`{"tlsSecurityProfile":null,"tlsAdherence":null}`) })
	set(`{"tlsSecurityProfile":{"type":"Modern","modern":{}},"tlsAdherence":"StrictAllComponents"}`)
	env.Eventually(t, "TLS 1.2 refused", refused)
	set(`{"tlsAdherence":"LegacyAdheringComponentsOnly"}`)
	env.Eventually(t, "TLS 1.2 accepted", old)
}

// serveAdherence adds the field to the CRD of APIServer: the one in use here is older than the field.
func serveAdherence(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName("apiservers.config.openshift.io")
	const path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tlsAdherence"
	patch := func(text string) error {
		return cluster.Client.Patch(context.Background(), crd.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(text)))
	}
	env.Must(t, patch(`[{"op":"add","path":"`+path+`","value":{"type":"string"}}]`))
	t.Cleanup(func() { env.Must(t, patch(`[{"op":"remove","path":"`+path+`"}]`)) })
	env.Eventually(t, "the field served", func() error {
		text, err := cluster.Kubectl(t.Context(), "patch", "apiserver", "cluster", "--type=merge", "-p", `{"spec":{"tlsAdherence":"NoOpinion"}}`,
			"--dry-run=server", "-o", "jsonpath={.spec.tlsAdherence}")
		if err == nil && text != "NoOpinion" {
			err = errors.New("it is pruned")
		}
		return err
	})
}

func TestProbesAnswer(t *testing.T) {
	cluster := clean(t)
	address := listening(t)
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false", "--health-probe-bind-address", address}, nil)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	for _, path := range []string{"/healthz", "/readyz"} {
		env.Eventually(t, path, func() error {
			code, err := env.Ask(t.Context(), "http://"+address+path, "", nil)
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("code %d", code)
			}
			return err
		})
	}
}

// spec.operatorLogLevel has an effect on the running operator.
func theOperatorsLogLevelIsFollowedLive(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	set := func(level string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"operatorLogLevel":%q}}`, level)
		env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), env.Merge(patch)))
		env.Eventually(t, "the generation observed", func() error { return cluster.Settled(t.Context()) })
		env.Quiet(t, operator)
	}
	// At this level the client of the API server logs every request.
	count := func() int { return strings.Count(operator.Output(), `verb="PATCH"`) }
	if count() > 0 {
		t.Fatalf("requests are logged at the normal level:\n%s", operator.Output())
	}
	set("TraceAll")
	loud := count()
	if loud == 0 {
		t.Errorf("no request is logged at level TraceAll:\n%s", operator.Output())
	}
	set("Normal")
	loud = count()
	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "delete", "service", "aws-efs-csi-driver-controller-metrics")
	env.Must(t, err)
	env.Eventually(t, "the Service made again", func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-controller-metrics"}, &corev1.Service{})
	})
	env.Quiet(t, operator)
	if count() != loud {
		t.Error("requests are still logged at the normal level")
	}
	if text := operator.Output(); strings.Count(text, "Bearer ") != strings.Count(text, "Bearer <masked>") {
		t.Error("a token is in the log")
	}
}
