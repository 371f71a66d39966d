// Package faults disturbs the operator and looks at what becomes of it: it is killed, the API server goes away, another
// operator runs beside it, requests fail. Each test has a control plane to itself until it ends.
package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// nodes is how many each cluster has.
const nodes = "4"

// pool has the clusters of the tests, which leave nothing behind. They are not swept: Kubernetes' binder, whose cache is behind, takes a new PVC in
// the namespace default for the one of that name that was just deleted. One after the other, they need one cluster.
var pool = &env.Pool{Size: 1, InOrder: true, Flags: []string{"--nodes", nodes}, Prepare: prepare}

func TestMain(m *testing.M) { os.Exit(pool.Run(m)) }

// prepare gives a cluster what the operator needs, and objects of others that are no business of the operator's.
func prepare(ctx context.Context, cluster *env.Cluster) error {
	if err := cluster.InstallManifests(ctx); err != nil {
		return err
	}
	for _, object := range env.Bystanders() {
		if err := cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("bystander: %w", err)
		}
	}
	return env.Await(ctx, "the bystanders settled", func() error {
		return errors.Join(bound(ctx, cluster), cluster.HasPullSecrets(ctx))
	})
}

// own gives a test a cluster to itself. At the end the objects of others must be as they were, and nothing else may be left.
func own(t *testing.T) *env.Cluster {
	t.Helper()
	cluster, bystanders := pool.Lend(t), env.Bystanders()
	versions, err := versionsOf(t.Context(), cluster, bystanders)
	env.Must(t, err)
	env.Scene{Cluster: cluster, T: t}.Unchanged()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		ctx := context.Background()
		after, err := versionsOf(ctx, cluster, bystanders)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(versions, after); diff != "" {
			t.Errorf("what belongs to others was touched (-before +after):\n%s", diff)
		}
	})
	return cluster
}

// bound waits for the controllers that write to a volume and its PVC.
func bound(ctx context.Context, cluster *env.Cluster) error {
	volume, pvc, _ := env.Workload()
	err := errors.Join(
		cluster.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume),
		cluster.Client.Get(ctx, client.ObjectKeyFromObject(pvc), pvc))
	if err != nil {
		return err
	}
	if volume.Status.Phase != corev1.VolumeBound || pvc.Status.Phase != corev1.ClaimBound ||
		len(volume.Finalizers) == 0 || len(pvc.Finalizers) == 0 {
		return fmt.Errorf("volume %s with finalizers %v, PVC %s with %v",
			volume.Status.Phase, volume.Finalizers, pvc.Status.Phase, pvc.Finalizers)
	}
	return nil
}

// versionsOf are the UIDs and resource versions of objects by kind and name.
func versionsOf(ctx context.Context, cluster *env.Cluster, objects []client.Object) (map[string]string, error) {
	found := map[string]string{}
	for _, object := range objects {
		live, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", object)
		}
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
			return nil, fmt.Errorf("a bystander was lost: %w", err)
		}
		found[fmt.Sprintf("%T %s", live, live.GetName())] = fmt.Sprintf("%s at %s", live.GetUID(), live.GetResourceVersion())
	}
	return found, nil
}

// operate starts the operator, directly or through a proxy. It ends with the test, and must not have ended before
// unless the test has killed it.
func operate(t *testing.T, cluster *env.Cluster, through *env.Proxy, args ...string) *env.Operator {
	t.Helper()
	if through != nil {
		args = append(args, "--kubeconfig", through.Kubeconfig(t, cluster, env.OperatorNamespace))
	}
	// What it says of an AWS that does not answer would be counted as well; test/cloud disturbs that.
	operator, err := cluster.StartOperator(t.Context(), args, []string{"LOOK_AT_AWS=false"})
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return operator
}

// installed gives a test a control plane of its own with an installed driver, whose operator works through a proxy.
func installed(t *testing.T) (*env.Cluster, *env.Proxy, *env.Operator) {
	t.Helper()
	cluster := own(t)
	through := env.NewProxy(t, cluster)
	operator := operate(t, cluster, through, alone)
	env.Eventually(t, "the operator works", operator.Started)
	life()[0].begin(t, cluster)
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	return cluster, through, operator
}

// alone lets an operator work at once, although another held the lease before.
const alone = "--leader-elect=false"

// setLogLevel changes what the user asks for.
func setLogLevel(t *testing.T, cluster *env.Cluster, level operatorv1.LogLevel) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"logLevel":%q}}`, level)
	env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), env.Merge(patch)))
}

// damage changes two operands, which the operator has to undo. The limit takes it two writes, because the fields that
// it applies do not include it.
func damage(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	for _, target := range [][]string{
		{"daemonset/efs-csi-node", `[{"op":"add","path":"/spec/template/spec/containers/0/resources/limits","value":{"memory":"64Mi"}}]`},
		{"rolebinding/aws-efs-csi-driver-prometheus", `[{"op":"replace","path":"/subjects/0/name","value":"mallory"}]`},
	} {
		_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "patch", target[0], "--type=json", "-p", target[1])
		env.Must(t, err)
	}
}
