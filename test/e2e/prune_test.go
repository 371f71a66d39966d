package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

func objectsThatAreNoLongerWantedArePruned(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	setMode := func(mode string) error {
		_, err := cluster.Kubectl(context.Background(), "patch", "cloudcredential", "cluster", "--type=merge",
			"-p", fmt.Sprintf(`{"spec":{"credentialsMode":%q}}`, mode))
		return err
	}
	before, err := cluster.Kubectl(t.Context(), "get", "cloudcredential", "cluster", "-o", "jsonpath={.spec.credentialsMode}")
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, setMode(before)) })
	// Mint comes last: the credentials stand-in takes back only what it provides in the current mode.
	for _, step := range []struct {
		mode string
		want int
	}{{"Manual", allObjects - 2}, {"Passthrough", allObjects - 1}, {"Mint", allObjects}} {
		env.Must(t, setMode(step.mode))
		env.Eventually(t, "objects of mode "+step.mode, func() error {
			owned, err := cluster.Owned(t.Context())
			if err == nil && len(owned) != step.want {
				err = fmt.Errorf("%d objects, want %d", len(owned), step.want)
			}
			return err
		})
	}
}

// objectsThatLostOurLabelsWhileTheOperatorWasAwayAreRemoved ends the operator, and starts another one for the removal.
func objectsThatLostOurLabelsWhileTheOperatorWasAwayAreRemoved(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	t.Helper()
	operator.Kill()
	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "label", "configmap", "aws-efs-csi-driver-trusted-ca-bundle",
		"app.kubernetes.io/managed-by-")
	env.Must(t, err)
	role := find(t, cluster, damage{kind: "clusterrole", name: "efs-privileged-role"})
	wipe := `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`
	env.Must(t, cluster.Client.Patch(t.Context(), role.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(wipe))))
	env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
	operate(t, cluster)
	env.Eventually(t, "ClusterCSIDriver gone", func() error { return cluster.Gone(t.Context(), env.EFS("")) })
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-trusted-ca-bundle"}}
	env.Must(t, cluster.Gone(t.Context(), bundle))
	env.Must(t, cluster.Gone(t.Context(), role))
}

// A render that fails must not leave half of a driver behind. An image that is no plain scalar is refused by the strict
// rendering, not by the API server.
func TestABadRenderAppliesNothingAndDegradesAtOnce(t *testing.T) {
	cluster := clean(t)
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false"}, []string{"LIVENESS_PROBE_IMAGE=a\\b"})
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	uninstallAtEnd(t, cluster)
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS("Managed")))
	env.Eventually(t, "the mistake reported", func() error {
		return cluster.Says(t.Context(), efsDriver, "Degraded", "True", "${LIVENESS_PROBE_IMAGE}")
	})
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != 0 {
		t.Errorf("%d objects were applied", len(owned))
	}
}

func TestTheOperatorWorksInAnotherNamespace(t *testing.T) {
	cluster := clean(t)
	const namespace = otherNamespace
	env.Must(t, cluster.InstallManifestsIn(t.Context(), namespace))
	t.Cleanup(func() {
		for _, kind := range []string{"serviceaccount", "role", "rolebinding"} {
			_, err := cluster.Kubectl(context.Background(), "-n", namespace, "delete", kind, env.OperatorName)
			env.Must(t, err)
		}
		_, err := cluster.Kubectl(context.Background(), "-n", namespace, "delete", "networkpolicy", env.OperatorName+"-metrics")
		env.Must(t, err)
		env.Must(t, cluster.InstallManifests(context.Background()))
	})
	operator, err := cluster.StartOperatorIn(t.Context(), namespace, []string{"--leader-elect=false"}, nil)
	env.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(operator.Output())
		}
		env.Must(t, operator.Stop())
	})
	install(t, cluster)
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	for _, object := range owned {
		if object.GetNamespace() == env.OperatorNamespace {
			t.Errorf("%s %s is in the default namespace", object.GetKind(), object.GetName())
		}
	}
	env.Must(t, cluster.Uninstall(t.Context()))
}
