package e2e

import (
	"context"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// The operator is killed without notice after its n-th write, found in the audit log, and started again.

func TestKilledWhileInstalling(t *testing.T) {
	for _, writes := range []int{1, 2, 9, 17, 23, 25} {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			cluster := clean(t)
			operator := operate(t, cluster)
			mark, err := cluster.Audit.Now()
			env.Must(t, err)
			env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
			killAfter(t, cluster, operator, mark, writes)
			operate(t, cluster)
			uninstallAtEnd(t, cluster)
			env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
			owned, err := cluster.Owned(t.Context())
			env.Must(t, err)
			if len(owned) != 23 {
				t.Errorf("%d objects, want 23", len(owned))
			}
		})
	}
}

func TestKilledWhileRepairing(t *testing.T) {
	for _, writes := range []int{1, 2} {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			cluster := clean(t)
			operator := operate(t, cluster)
			create(t, cluster)
			object := find(t, cluster, damage{kind: "daemonset", name: "efs-csi-node"})
			want := content(object)
			mark, err := cluster.Audit.Now()
			env.Must(t, err)
			// An addition takes two writes to undo: the takeover of the field and the apply.
			patch := `[{"op":"add","path":"/spec/template/spec/nodeSelector/disk","value":"ssd"}]`
			env.Must(t, cluster.Client.Patch(t.Context(), object.DeepCopy(), client.RawPatch("application/json-patch+json", []byte(patch))))
			killAfter(t, cluster, operator, mark, writes)
			operate(t, cluster)
			uninstallAtEnd(t, cluster)
			env.Eventually(t, "the damage undone", func() error { return restored(t, cluster, object, want, false) })
			env.Eventually(t, "settled", func() error { return cluster.Settled(t.Context()) })
		})
	}
}

func TestKilledWhileRemoving(t *testing.T) {
	for _, writes := range []int{1, 2, 4, 12, 23} {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			cluster := clean(t)
			operator := operate(t, cluster)
			create(t, cluster)
			mark, err := cluster.Audit.Now()
			env.Must(t, err)
			env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
			killAfter(t, cluster, operator, mark, writes)
			operate(t, cluster)
			uninstallAtEnd(t, cluster)
			env.Must(t, uninstall(context.Background(), cluster))
			owned, err := cluster.Owned(t.Context())
			env.Must(t, err)
			if len(owned) > 0 {
				t.Errorf("%d objects were left", len(owned))
			}
		})
	}
}

func TestARestartedOperatorWritesNothing(t *testing.T) {
	cluster := clean(t)
	first := operate(t, cluster)
	create(t, cluster)
	quiet(t, first)
	env.Must(t, first.Stop())
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	second := operate(t, cluster)
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "a reconcile", func() error {
		count, err := metric(t, second, "controller_runtime_reconcile_total")
		if err == nil && count == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	quiet(t, second)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if writes := env.Filter(requests, env.Request.IsWrite); len(writes) > 0 {
		t.Errorf("a restart costs %d writes:\n%s", len(writes), env.Describe(writes))
	}
}

// killAfter kills the operator once it has made a number of writes since the mark.
func killAfter(t *testing.T, cluster *env.Cluster, operator *env.Operator, mark env.Mark, writes int) {
	t.Helper()
	env.Eventually(t, fmt.Sprintf("%d writes", writes), func() error {
		requests, err := cluster.Audit.Since(mark, env.OperatorUser)
		if err != nil {
			return err
		}
		if made := len(env.Filter(requests, env.Request.IsWrite)); made < writes {
			return fmt.Errorf("%d so far", made)
		}
		return nil
	})
	operator.Kill()
}
