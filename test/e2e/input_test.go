package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

func TestStartRefusesWhatCannotWork(t *testing.T) {
	cluster := pool.Lend(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		env.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	unreachable := write("unreachable", `{apiVersion: v1, kind: Config, current-context: a,
contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`)
	admin, err := os.ReadFile(cluster.Kubeconfig())
	env.Must(t, err)
	var stranger []string
	for _, line := range strings.Split(string(admin), "\n") {
		if before, _, found := strings.Cut(line, "token:"); found {
			line = before + "token: nobody"
		}
		stranger = append(stranger, line)
	}
	cases := map[string]struct {
		args        []string
		environment []string
		want        []string
	}{
		"an image variable is missing": {
			args:        []string{"start", "--kubeconfig", cluster.Kubeconfig()},
			environment: []string{"DRIVER_IMAGE=", "PROVISIONER_IMAGE="},
			want:        []string{"error: environment variables [DRIVER_IMAGE PROVISIONER_IMAGE] are empty", "efs.csi.aws.com"},
		},
		"the kubeconfig does not exist": {
			args: []string{"start", "--kubeconfig", filepath.Join(folder, "absent")},
			want: []string{"error: --kubeconfig " + filepath.Join(folder, "absent"), "no such file"},
		},
		"the kubeconfig is no kubeconfig": {
			args: []string{"start", "--kubeconfig", write("broken", "hello")},
			want: []string{"error: --kubeconfig " + filepath.Join(folder, "broken")},
		},
		"no cluster is configured": {
			args: []string{"start"},
			want: []string{"error: no cluster is configured: pass --kubeconfig FILE"},
		},
		"the API server can't be reached": {
			args: []string{"start", "--kubeconfig", unreachable},
			want: []string{"error: ", "the API server can't be reached", "127.0.0.1:1"},
		},
		"the API server does not know the user": {
			args: []string{"start", "--kubeconfig", write("stranger", strings.Join(stranger, "\n"))},
			want: []string{"error: ", "does not accept the credentials"},
		},
		"the namespace does not exist": {
			args: []string{"start", "--kubeconfig", cluster.Kubeconfig(), "--namespace", "nowhere"},
			want: []string{`error: namespace "nowhere" does not exist: create it, or pass another one with --namespace`},
		},
		"an unknown flag": {
			args: []string{"start", "--kubeconfg", "x"},
			want: []string{"error: flag provided but not defined: -kubeconfg"},
		},
		"no command": {
			args: []string{},
			want: []string{"error: the first argument must be start"},
		},
		"settings with wrong values": {
			args:        []string{"start", "--kubeconfig", cluster.Kubeconfig()},
			environment: []string{"NODE_MEMORY_LIMIT=lots", "PROVISIONER_WORKERS=0"},
			want: []string{
				`error: environment variable NODE_MEMORY_LIMIT="lots": must be a number of bytes, such as 2Gi`,
				`environment variable PROVISIONER_WORKERS="0": must be a whole number from 1 to 100`,
			},
		},
		"neither FIPS nor not": {
			args:        []string{"start", "--kubeconfig", cluster.Kubeconfig()},
			environment: []string{"FIPS_ENABLED=maybe"},
			want:        []string{`error: environment variable FIPS_ENABLED="maybe" must be true or false`},
		},
		"a log level that is no number": {
			args: []string{"start", "-v", "loud"},
			want: []string{`invalid value "loud" for flag -v: "loud" is not a whole number from 0 to 7`},
		},
		"a folder without certificates": {
			args: []string{"start", "--kubeconfig", cluster.Kubeconfig(), "--leader-elect=false", "--metrics-bind-address", "127.0.0.1:0",
				"--health-probe-bind-address", "0", "--metrics-cert-dir", folder},
			want: []string{"error: ", filepath.Join(folder, "tls.crt"), "no such file"},
		},
		"an argument too many": {
			args: []string{"start", "now"},
			want: []string{`error: unexpected argument "now"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			operator, err := env.RunOperator(env.Program(env.OperatorName), tc.args, tc.environment)
			env.Must(t, err)
			defer operator.Kill()
			ends(t, operator)
			output := operator.Output()
			for _, want := range tc.want {
				if !strings.Contains(output, want) {
					t.Errorf("output does not contain %q:\n%s", want, output)
				}
			}
			if strings.Contains(output, "panic") || strings.Contains(output, "goroutine ") {
				t.Errorf("a panic:\n%s", output)
			}
			if err := operator.Stop(); err == nil {
				t.Error("exit code 0, want a failure")
			}
		})
	}
}

func unknownManagementStateChangesNothingAndSaysSo(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	cr := env.EFS(operatorv1.Force)
	env.Must(t, cluster.Client.Create(t.Context(), cr))
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "the state reported", func() error {
		return errors.Join(
			cluster.Condition(t.Context(), "ManagementStateDegraded", operatorv1.ConditionTrue),
			cluster.Condition(t.Context(), "Degraded", operatorv1.ConditionTrue))
	})
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	env.Must(t, env.SaysIn(cr.Status.Conditions, "ManagementStateDegraded", "", `spec.managementState "Force" is unknown`))
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != 0 || len(cr.Finalizers) != 0 {
		t.Errorf("%d objects and finalizers %v, want none", len(owned), cr.Finalizers)
	}
	setState(t, cluster, operatorv1.Managed)
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
}

// Definitions that not every cluster has are taken away for the test and put back.
func TestWithoutOptionalKindsTheDriverWorksAndTheStatusSaysWhatIsLeftOut(t *testing.T) {
	cluster, err := env.Start(t.Context(), "--nodes", "4")
	env.Must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	env.Must(t, cluster.InstallManifests(t.Context()))
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
	env.Must(t, cluster.Audit.NoRefusals(0, env.OperatorUser))
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

// ends waits until the operator has ended by itself.
func ends(t *testing.T, operator *env.Operator) {
	t.Helper()
	env.Eventually(t, "the operator ends", func() error {
		select {
		case <-operator.Done():
			return nil
		default:
			return errors.New("it still runs")
		}
	})
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

func TestAClusterWithoutAnInfrastructureNameIsNotRolledOutTwice(t *testing.T) {
	cluster := clean(t)
	saved, err := cluster.Kubectl(t.Context(), "get", "infrastructure", "cluster", "-o", "jsonpath={.status.infrastructureName}")
	env.Must(t, err)
	rename := func(name string) error {
		_, err := cluster.Kubectl(context.Background(), "patch", "infrastructure", "cluster", "--subresource=status", "--type=merge",
			"-p", fmt.Sprintf(`{"status":{"infrastructureName":%q}}`, name))
		return err
	}
	env.Must(t, rename(""))
	t.Cleanup(func() { env.Must(t, rename(saved)) })
	operate(t, cluster)
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "the missing name reported", func() error {
		cr := env.EFS("")
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
		if !strings.Contains(fmt.Sprint(cr.Status.Conditions), "has no infrastructureName") {
			return fmt.Errorf("conditions %v", cr.Status.Conditions)
		}
		return nil
	})
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != 0 {
		t.Errorf("%d objects were applied before the cluster was known", len(owned))
	}
	env.Must(t, rename(saved))
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	if live := find(t, cluster, damage{kind: "deployment", name: "aws-efs-csi-driver-controller"}); live.GetGeneration() != 1 {
		t.Errorf("generation %d of the Deployment, want 1", live.GetGeneration())
	}
}
