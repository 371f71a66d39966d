package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// cell is one cell of the life-cycle matrix: what is asked of an installed driver, and what has to be left of it.
type cell struct {
	state          operatorv1.ManagementState
	deleted, inUse bool
	// left says whether the driver's objects are left: all, or none.
	left bool
	// waits means that Progressing says which pods hold up the removal. When they have gone, nothing is left.
	waits bool
	// gone means that the ClusterCSIDriver itself has gone in the end.
	gone bool
}

func (c cell) String() string {
	text := string(c.state)
	if c.deleted {
		text += ", deleted"
	}
	if c.inUse {
		text += ", in use"
	}
	return text
}

// matrix is {Managed, Unmanaged, Removed, unknown} x {running, being deleted} x {in use, not in use}.
func matrix() []cell {
	return []cell{
		{state: operatorv1.Managed, left: true},
		{state: operatorv1.Managed, inUse: true, left: true},
		{state: operatorv1.Managed, deleted: true, gone: true},
		{state: operatorv1.Managed, deleted: true, inUse: true, waits: true, gone: true},
		{state: operatorv1.Unmanaged, left: true},
		{state: operatorv1.Unmanaged, inUse: true, left: true},
		{state: operatorv1.Unmanaged, deleted: true, gone: true},
		{state: operatorv1.Unmanaged, deleted: true, inUse: true, waits: true, gone: true},
		{state: operatorv1.Removed},
		{state: operatorv1.Removed, inUse: true, waits: true},
		{state: operatorv1.Removed, deleted: true, gone: true},
		{state: operatorv1.Removed, deleted: true, inUse: true, waits: true, gone: true},
		{state: operatorv1.Force, left: true},
		{state: operatorv1.Force, inUse: true, left: true},
		{state: operatorv1.Force, deleted: true, gone: true},
		{state: operatorv1.Force, deleted: true, inUse: true, waits: true, gone: true},
	}
}

func TestLifeCycleMatrix(t *testing.T) {
	env.OnlySoak(t)
	cluster := clean(t)
	// Once, because what belongs to objects of one cell may go later than they do.
	before, err := cluster.Take(t.Context())
	env.Must(t, err)
	operator := operate(t, cluster)
	// What keeps the driver is asked of one installation, one thing after the other.
	t.Run("stays", func(t *testing.T) {
		all := installedByAnOlderOperator(t, cluster)
		for _, c := range matrix() {
			if c.left {
				t.Run(c.String(), func(t *testing.T) { askFor(t, cluster, operator, c, all) })
			}
		}
	})
	for _, c := range matrix() {
		if c.left {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			askFor(t, cluster, operator, c, installedByAnOlderOperator(t, cluster))
			if c.gone && !c.inUse {
				env.Must(t, cluster.AwaitSame(t.Context(), "the cluster as it was before the installation", before))
			}
		})
	}
}

// installedByAnOlderOperator installs the driver for a ClusterCSIDriver that an older operator has left, until the test ends, and returns how many
// objects that makes.
func installedByAnOlderOperator(t *testing.T, cluster *env.Cluster) int {
	t.Helper()
	olderOperator(t, cluster)
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	return len(owned)
}

// askFor asks for a cell of an installed driver, and looks at what comes of it.
func askFor(t *testing.T, cluster *env.Cluster, operator *env.Operator, c cell, all int) {
	t.Helper()
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	var pod *corev1.Pod
	if c.inUse {
		pod = useVolume(t, cluster)
	}
	setState(t, cluster, c.state)
	if c.deleted {
		env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
	}
	if c.waits {
		env.Eventually(t, "the removal says which pod it waits for", func() error {
			return state(t.Context(), cluster, "Progressing", "default/app")
		})
		leftOf(t, cluster, all)
		env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
	reach(t, cluster, operator, c, all)
	noLookups(t, cluster, c, mark)
}

// reach waits for the end that a cell wants, and counts what is left.
func reach(t *testing.T, cluster *env.Cluster, operator *env.Operator, c cell, all int) {
	t.Helper()
	if c.gone {
		env.Eventually(t, "ClusterCSIDriver gone", func() error { return cluster.Gone(t.Context(), env.EFS("")) })
		leftOf(t, cluster, 0)
		return
	}
	env.Eventually(t, "the state observed", func() error {
		cr := env.EFS("")
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		if cr.Status.ObservedGeneration != cr.Generation {
			return errors.New("not yet")
		}
		if !c.left && len(cr.Finalizers) > 0 {
			return fmt.Errorf("finalizers %v", cr.Finalizers)
		}
		return nil
	})
	env.Quiet(t, operator)
	if c.left {
		leftOf(t, cluster, all)
	} else {
		leftOf(t, cluster, 0)
		// It may be owed for a second.
		env.Eventually(t, "Removed reported", func() error { return state(t.Context(), cluster, "Available", "Removed") })
	}
}

func leftOf(t *testing.T, cluster *env.Cluster, want int) {
	t.Helper()
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) != want {
		t.Errorf("%d objects are left, want %d", len(owned), want)
	}
}

// noLookups checks that pods and volumes are looked up only for a removal.
func noLookups(t *testing.T, cluster *env.Cluster, c cell, mark env.Mark) {
	t.Helper()
	if !c.left {
		return
	}
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	lookups := env.Filter(requests, func(r env.Request) bool {
		return r.Verb == "list" && (r.Object.Resource == "pods" || r.Object.Resource == "persistentvolumes")
	})
	if len(lookups) > 0 {
		t.Errorf("pods were looked up although nothing is removed:\n%s", env.Describe(lookups))
	}
}

// olderOperator creates a ClusterCSIDriver as an older operator leaves it: with finalizers and conditions of its own.
func olderOperator(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	cr := env.EFS(operatorv1.Unmanaged)
	cr.Finalizers = []string{
		"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverControllerServiceController",
		"aws-efs-csi-driver-operator.operator.openshift.io/CSIStaticResourceController",
	}
	env.Must(t, cluster.Client.Create(t.Context(), cr))
	now := metav1.Now()
	cr.Status.Conditions = append(cr.Status.Conditions,
		operatorv1.OperatorCondition{Type: "CSIStaticResourceControllerDegraded", Status: "True", LastTransitionTime: now},
		operatorv1.OperatorCondition{Type: "AWSEFSDriverServiceMonitorControllerDegraded", Status: "False", LastTransitionTime: now},
		operatorv1.OperatorCondition{Type: "SomebodyElsesCondition", Status: "True", LastTransitionTime: now},
	)
	env.Eventually(t, "the conditions of an older operator", func() error {
		err := cluster.Client.Status().Update(t.Context(), cr)
		if err != nil {
			conditions := cr.Status.Conditions
			_ = cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr)
			cr.Status.Conditions = conditions
		}
		return err
	})
	setState(t, cluster, operatorv1.Managed)
	env.Eventually(t, "the conditions of predecessors dropped", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		var types []string
		for _, condition := range cr.Status.Conditions {
			types = append(types, condition.Type)
		}
		if slices.Contains(types, "CSIStaticResourceControllerDegraded") || slices.Contains(types, "AWSEFSDriverServiceMonitorControllerDegraded") {
			return fmt.Errorf("conditions %v", types)
		}
		if !slices.Contains(types, "SomebodyElsesCondition") {
			t.Fatalf("a condition of somebody else was dropped: %v", types)
		}
		return nil
	})
}

// useVolume runs a pod with a volume of the driver, until the test ends at the latest.
func useVolume(t *testing.T, cluster *env.Cluster) *corev1.Pod {
	t.Helper()
	volume, pvc, pod := env.Workload()
	for _, object := range []client.Object{volume, pvc, pod} {
		env.Must(t, cluster.Client.Create(t.Context(), object))
		t.Cleanup(func() {
			env.Scene{Cluster: cluster, T: t}.Drop(object)
			if err := env.Await(context.Background(), object.GetName()+" gone", func() error {
				return cluster.Gone(context.Background(), object)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	env.Eventually(t, "the pod runs", func() error {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New("pod is " + string(pod.Status.Phase))
		}
		return err
	})
	return pod
}
