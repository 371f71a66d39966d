package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
