package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// rollouts are the generations of the two workloads: each change of what the pods are adds one.
type rollouts struct{ controller, nodes int64 }

func workloads(t *testing.T, cluster *env.Cluster) (*appsv1.Deployment, *appsv1.DaemonSet) {
	t.Helper()
	deployment, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-controller"}, deployment))
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: "efs-csi-node"}, daemonSet))
	return deployment, daemonSet
}

func generations(t *testing.T, cluster *env.Cluster) rollouts {
	t.Helper()
	deployment, daemonSet := workloads(t, cluster)
	return rollouts{deployment.Generation, daemonSet.Generation}
}

// pods are the two pod specs and the number of controllers as text, for a search.
func pods(t *testing.T, cluster *env.Cluster) string {
	t.Helper()
	deployment, daemonSet := workloads(t, cluster)
	text, err := json.Marshal([]any{deployment.Spec, daemonSet.Spec})
	env.Must(t, err)
	return string(text)
}

// configuration is a change of the cluster's or the driver's configuration.
type configuration struct {
	object client.Object
	// change is a merge patch, undo the one that takes it back. Status says that they are for the status.
	change, undo string
	status       bool
	// want must be in the pods afterwards, and must not be before.
	want []string
	// rollouts are how many each workload does.
	rollouts rollouts
}

func configurations() map[string]configuration {
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	apiServer := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	topology := func(mode string) string { return fmt.Sprintf(`{"status":{"controlPlaneTopology":%q}}`, mode) }
	tls := func(profile string) configuration {
		return configuration{
			object: apiServer, change: `{"spec":{"tlsSecurityProfile":` + profile + `}}`, undo: `{"spec":{"tlsSecurityProfile":null}}`,
			rollouts: rollouts{controller: 1},
		}
	}
	with := func(c configuration, want ...string) configuration {
		c.want = want
		return c
	}
	return map[string]configuration{
		"proxy": {
			object: &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, status: true,
			change:   `{"status":{"httpProxy":"http://proxy.example:3128","httpsProxy":"http://proxy.example:3129","noProxy":".svc"}}`,
			undo:     `{"status":{"httpProxy":null,"httpsProxy":null,"noProxy":null}}`,
			want:     []string{`{"name":"HTTP_PROXY","value":"http://proxy.example:3128"}`, `{"name":"NO_PROXY","value":".svc"}`},
			rollouts: rollouts{1, 1},
		},
		"TLS profile Modern": with(tls(`{"type":"Modern","modern":{}}`), "--tls-min-version=VersionTLS13"),
		"resource tags": {
			object: infrastructure, status: true,
			change:   `{"status":{"platformStatus":{"aws":{"resourceTags":[{"key":"cost:center","value":"42"}]}}}}`,
			undo:     `{"status":{"platformStatus":{"aws":{"resourceTags":null}}}}`,
			want:     []string{`cost\\:center:42 kubernetes.io/cluster/`},
			rollouts: rollouts{controller: 1},
		},
		"a single node": {
			object: infrastructure, status: true, change: topology("SingleReplica"), undo: topology("HighlyAvailable"),
			want: []string{`"replicas":1`, "--leader-election-lease-duration=270s"}, rollouts: rollouts{controller: 1},
		},
		"two nodes and an arbiter": {
			object: infrastructure, status: true, change: topology("HighlyAvailableArbiter"), undo: topology("HighlyAvailable"),
		},
		"log level": {
			object: env.EFS(""), change: `{"spec":{"logLevel":"Trace"}}`, undo: `{"spec":{"logLevel":"Normal"}}`,
			want: []string{"--v=6"}, rollouts: rollouts{1, 1},
		},
		"volume metrics": {
			object:   env.EFS(""),
			change:   `{"spec":{"driverConfig":{"driverType":"AWS","aws":{"efsVolumeMetrics":{"state":"RecursiveWalk"}}}}}`,
			undo:     `{"spec":{"driverConfig":{"driverType":"","aws":null}}}`,
			want:     []string{"--vol-metrics-refresh-period=240", "--vol-metrics-fs-rate-limit=5"},
			rollouts: rollouts{nodes: 1},
		},
	}
}

// A change of the configuration restarts exactly the pods that depend on it, once. The changes come one on top of the other, and are taken back together.
func configurationRollsOutOnceToWhatDependsOnIt(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	all := configurations()
	// Both are about the topology.
	order := []string{"two nodes and an arbiter", "a single node", "proxy", "TLS profile Modern", "resource tags", "log level", "volume metrics"}
	if len(order) != len(all) {
		t.Fatalf("%d of %d configurations", len(order), len(all))
	}
	for _, name := range order {
		t.Run(name, func(t *testing.T) {
			tc, before := all[name], generations(t, cluster)
			hasNot(t, cluster, tc.want)
			configure(t, cluster, tc, tc.change)
			settle(t, cluster, operator, rollouts{before.controller + tc.rollouts.controller, before.nodes + tc.rollouts.nodes})
			for _, want := range tc.want {
				if text := pods(t, cluster); !strings.Contains(text, want) {
					t.Errorf("the pods have no %s:\n%s", want, text)
				}
			}
		})
	}
	t.Run("TestATagThatTheDriverCantCarryIsReportedAndLeftOut", func(t *testing.T) { aTagThatTheDriverCantCarryIsReportedAndLeftOut(t, cluster) })
	for _, name := range order {
		configure(t, cluster, all[name], all[name].undo)
	}
	env.Eventually(t, "the last change observed", func() error { return cluster.Settled(t.Context()) })
	env.Quiet(t, operator)
	for _, name := range order {
		hasNot(t, cluster, all[name].want)
	}
}

// hasNot checks that these texts are not in the pods.
func hasNot(t *testing.T, cluster *env.Cluster, texts []string) {
	t.Helper()
	have := pods(t, cluster)
	for _, text := range texts {
		if strings.Contains(have, text) {
			t.Errorf("the pods have %s:\n%s", text, have)
		}
	}
}

func configure(t *testing.T, cluster *env.Cluster, tc configuration, patch string) {
	t.Helper()
	object, ok := tc.object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", tc.object)
	}
	raw := env.Merge(patch)
	if tc.status {
		env.Must(t, cluster.Client.Status().Patch(context.Background(), object, raw))
	} else {
		env.Must(t, cluster.Client.Patch(context.Background(), object, raw))
	}
}

// settle waits until the roll-outs are done and the operator is at rest, and checks that there were no more.
func settle(t *testing.T, cluster *env.Cluster, operator *env.Operator, want rollouts) {
	t.Helper()
	env.Eventually(t, "the roll-outs", func() error {
		if got := generations(t, cluster); got != want {
			return fmt.Errorf("generations %v, want %v", got, want)
		}
		return cluster.Settled(t.Context())
	})
	env.Quiet(t, operator)
	if got := generations(t, cluster); got != want {
		t.Errorf("generations %v, want %v: there were more roll-outs than changes", got, want)
	}
}

// changedSecretsRestartTheirPodsOnce needs manual mode: there Secrets are the administrator's, so that nobody else changes them meanwhile.
func changedSecretsRestartTheirPodsOnce(t *testing.T, cluster *env.Cluster, operator *env.Operator, controller *corev1.Secret) {
	t.Helper()
	start := generations(t, cluster)
	steps := []struct {
		name   string
		change func() error
		want   rollouts
	}{
		{"another key for the controller", func() error { return rotate(t, cluster, controller, "another-key") }, rollouts{1, 0}},
		{"the same content once more", func() error { return rotate(t, cluster, controller, "another-key") }, rollouts{1, 0}},
		{"an annotation", func() error {
			_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "annotate", "secret", controller.Name, "example.com/note=x")
			return err
		}, rollouts{1, 0}},
		{"deleted and made again with the same content", func() error { return recreate(t, cluster, controller) }, rollouts{1, 0}},
		{"a Secret for the nodes", func() error {
			node := secret("node-aws-efs-cloud-credentials")
			env.Scene{Cluster: cluster, T: t}.Keep(node)
			return nil
		}, rollouts{1, 1}},
	}
	for _, step := range steps {
		env.Must(t, step.change())
		env.Quiet(t, operator)
		t.Log(step.name)
		settle(t, cluster, operator, rollouts{start.controller + step.want.controller, start.nodes + step.want.nodes})
	}
}

func theTrustedCABundleRestartsBothPodsOnce(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	start := generations(t, cluster)
	if text := pods(t, cluster); strings.Count(text, `"mountPath":"/etc/pki/ca-trust/extracted/pem"`) != 2 {
		t.Errorf("the bundle is not mounted into both pods:\n%s", text)
	}
	bundle := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "user-ca-bundle"},
		Data:       map[string]string{"ca-bundle.crt": "# A certificate of the administrator.\n"},
	}
	env.Scene{Cluster: cluster, T: t}.Keep(bundle)
	t.Cleanup(func() {
		_, err := cluster.Kubectl(context.Background(), "patch", "proxy", "cluster", "--type=merge", "-p", `{"spec":{"trustedCA":{"name":""}}}`)
		if err != nil {
			t.Error(err)
		}
	})
	_, err := cluster.Kubectl(t.Context(), "patch", "proxy", "cluster", "--type=merge", "-p", `{"spec":{"trustedCA":{"name":"user-ca-bundle"}}}`)
	env.Must(t, err)
	settle(t, cluster, operator, rollouts{start.controller + 1, start.nodes + 1})
	// Somebody empties it and the network operator fills it in again: the pods need not know.
	_, err = cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "patch", "configmap", "aws-efs-csi-driver-trusted-ca-bundle",
		"--type=merge", "-p", `{"data":{"ca-bundle.crt":null}}`)
	env.Must(t, err)
	env.Quiet(t, operator)
	settle(t, cluster, operator, rollouts{start.controller + 1, start.nodes + 1})
}

// What the cluster makes for the driver may come late, first the name of the cluster, then the Secrets. The pods are started once, when it is all there.
func TestTheFirstRolloutWaitsForLateInputs(t *testing.T) {
	cluster := clean(t)
	saved, err := cluster.Kubectl(t.Context(), "get", "infrastructure", "cluster", "-o", "jsonpath={.status.infrastructureName}")
	env.Must(t, err)
	rename := func(name string) error {
		infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		return cluster.Client.Status().Patch(context.Background(), infrastructure, env.Merge(fmt.Sprintf(`{"status":{"infrastructureName":%q}}`, name)))
	}
	env.Must(t, rename(""))
	t.Cleanup(func() { env.Must(t, rename(saved)) })
	operator := operate(t, cluster)
	env.Must(t, cluster.StopComponent(t.Context(), "stand-ins"))
	back := false
	t.Cleanup(func() {
		if !back {
			env.Must(t, cluster.StartComponent(context.Background(), "stand-ins"))
		}
	})
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "the missing name reported", func() error { return mentioned(t.Context(), cluster, "has no infrastructureName") })
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != 0 {
		t.Errorf("%d objects were applied before the cluster was known", len(owned))
	}
	env.Must(t, rename(saved))
	env.Eventually(t, "the status says what is waited for", func() error {
		return errors.Join(
			state(t.Context(), cluster, "AWSEFSDriverControllerServiceControllerProgressing",
				"waiting for Secret openshift-cluster-csi-drivers/aws-efs-cloud-credentials"),
			state(t.Context(), cluster, "AWSEFSDriverNodeServiceControllerProgressing",
				"waiting for Secret openshift-cluster-csi-drivers/node-aws-efs-cloud-credentials"),
			cluster.Condition(t.Context(), "Available", operatorv1.ConditionFalse))
	})
	env.Quiet(t, operator)
	env.Must(t, cluster.Gone(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-controller",
	}}))
	env.Must(t, cluster.StartComponent(t.Context(), "stand-ins"))
	back = true
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	settle(t, cluster, operator, rollouts{1, 1})
}

func aTagThatTheDriverCantCarryIsReportedAndLeftOut(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	configure(t, cluster, configurations()["resource tags"], `{"status":{"platformStatus":{"aws":{"resourceTags":[{"key":"name","value":"John "}]}}}}`)
	env.Eventually(t, "the condition", func() error {
		return errors.Join(
			state(t.Context(), cluster, "ConfigObservationDegraded", `resource tag "name"="John " of the Infrastructure cluster`),
			cluster.Condition(t.Context(), "Degraded", operatorv1.ConditionTrue))
	})
	env.Must(t, cluster.Condition(t.Context(), "Available", operatorv1.ConditionTrue))
	if text := pods(t, cluster); strings.Contains(text, "John") {
		t.Errorf("half a tag reached the driver:\n%s", text)
	}
}
