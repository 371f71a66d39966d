package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

// Definitions that not every cluster has are taken away for good: this is the last test.
func TestWithoutOptionalKindsTheDriverWorksAndTheStatusSaysWhatIsLeftOut(t *testing.T) {
	cluster := pool.LendForGood(t)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	for _, name := range []string{
		"credentialsrequests.cloudcredential.openshift.io", "servicemonitors.monitoring.coreos.com",
		"infrastructures.config.openshift.io", "cloudcredentials.operator.openshift.io",
		"proxies.config.openshift.io", "apiservers.config.openshift.io",
	} {
		deleteDefinition(t, cluster, name)
	}
	dashboards := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.ManagedNamespace}}
	env.Must(t, cluster.Client.Delete(t.Context(), dashboards))
	env.Eventually(t, "no namespace for dashboards", func() error { return cluster.Gone(t.Context(), dashboards) })
	// Without a cloud-credential-operator the administrator makes it.
	env.Must(t, cluster.Client.Create(t.Context(), secret("aws-efs-cloud-credentials")))
	first := operate(t, cluster)
	install(t, cluster)
	cr := env.EFS("")
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	for _, condition := range cr.Status.Conditions {
		if condition.Type != "Available" {
			continue
		}
		for _, want := range []string{"CredentialsRequest.cloudcredential.openshift.io", "ServiceMonitor.monitoring.coreos.com", "Infrastructure.config.openshift.io",
			"Proxy.config.openshift.io", "APIServer.config.openshift.io"} {
			if !strings.Contains(condition.Message, want) {
				t.Errorf("message %q does not say that %s is missing", condition.Message, want)
			}
		}
	}
	env.Must(t, cluster.Audit.NoRefusals(mark, env.OperatorUser))
	if failed, err := first.Metric(t.Context(), "controller_runtime_reconcile_errors_total"); err != nil || failed != 0 {
		t.Errorf("%v reconciles have failed (%v):\n%s", failed, err, first.Output())
	}
	env.Must(t, cluster.Uninstall(t.Context()))

	isNotReadyWithoutARight(t, cluster)

	deleteDefinition(t, cluster, "clustercsidrivers.operator.openshift.io")
	operator, err := cluster.StartOperator(t.Context(), nil, nil)
	env.Must(t, err)
	defer operator.Kill()
	ends(t, operator)
	if want := "the cluster does not serve kind ClusterCSIDriver of operator.openshift.io/v1"; !strings.Contains(operator.Output(), want) {
		t.Errorf("output does not contain %q:\n%s", want, operator.Output())
	}
}

// isNotReadyWithoutARight takes the right to watch one kind away from the operator.
func isNotReadyWithoutARight(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: env.OperatorName}}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role))
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "poddisruptionbudgets")
	})
	env.Must(t, cluster.Client.Update(t.Context(), role))
	address := listening(t)
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false", "--health-probe-bind-address", address}, nil)
	env.Must(t, err)
	defer operator.Kill()
	env.Eventually(t, "the missing right in the log", func() error {
		if !strings.Contains(operator.Output(), `poddisruptionbudgets.policy is forbidden`) {
			return errors.New(operator.Output())
		}
		return nil
	})
	for path, want := range map[string]int{"/readyz": http.StatusInternalServerError, "/healthz": http.StatusOK} {
		env.Eventually(t, path, func() error {
			code, err := env.Ask(t.Context(), "http://"+address+path, "", nil)
			if err == nil && code != want {
				err = fmt.Errorf("code %d, want %d", code, want)
			}
			return err
		})
	}
}

func deleteDefinition(t *testing.T, cluster *env.Cluster, name string) {
	t.Helper()
	crd := convert(&apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	})
	env.Must(t, cluster.Client.Delete(t.Context(), crd))
	env.Eventually(t, name+" gone", func() error { return cluster.Gone(t.Context(), crd) })
}
