package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

const (
	namespace = env.OperatorNamespace
	efsName   = "efs.csi.aws.com"
	ebsName   = "ebs.csi.aws.com"
	// ebsOperator is the Deployment of the operator of EBS.
	ebsOperator = "aws-ebs-csi-driver-operator"
	// soon is how long a pod may take to be ready when its image is there.
	soon = time.Minute
)

// On one node, the bundle deploys the EFS operator and the payload that of EBS. All containers of operators and drivers run as their pods say,
// side by side, the kubelet registers both drivers, volumes are used, and pods end in time.
func TestTheDriversOfAWSShareANode(t *testing.T) {
	open(t, "--topology", "SingleReplica", "--real-nodes", "1")
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	if !t.Run("the operator of the bundle is ready", installEFS) || !t.Run("the payload comes to its release", installPayload) {
		return
	}
	t.Run("the EFS driver is available, and registered by the kubelet", efsAvailable)
	t.Run("the containers run as their pods say", inspected)
	t.Run("a node pod that ends is replaced, and registers again", efsReplaced)
	t.Run("volumes are made, written and deleted, and nothing is left", func(t *testing.T) { load(t, few, 1) })
	t.Run("oc storage test finds the class of EBS usable, and leaves nothing", tryClass)
	t.Run("a pod goes on writing, whatever is killed or replaced", written)
	t.Run("EFS removed leaves no pod, and the kubelet forgets it", removeEFS)
	env.Must(t, suite.cluster.Audit.NoRefusals(mark, env.OperatorUser, env.CSOUser, env.DriverOperatorUser(ebsOperator)))
}

// installEFS applies what OLM makes of the bundle, and waits for the operator.
func installEFS(t *testing.T) {
	env.Must(t, fakeolm.Deploy(t.Context(), suite.cluster, namespace))
	operatorReady(t)
}

// installPayload applies the manifests of a release, and waits until storage says that it has come to it, with EBS in use.
func installPayload(t *testing.T) {
	begin := time.Now()
	env.Must(t, suite.cluster.ApplyRelease(t.Context(), env.Release{Version: env.ClusterRelease}))
	eventually(t, "ClusterOperator storage at the release", func() error {
		return errors.Join(suite.cluster.Reached(t.Context(), env.ClusterRelease), registered(t, ebsName, true))
	})
	t.Logf("at the release after %s", time.Since(begin).Round(time.Millisecond))
}

// operatorReady waits until the Deployment of the operator has all its pods.
func operatorReady(t *testing.T) {
	t.Helper()
	begin := time.Now()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.OperatorName}}
	eventually(t, "Deployment "+env.OperatorName+" ready", func() error {
		if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if status := deployment.Status; status.ReadyReplicas != *deployment.Spec.Replicas || status.ObservedGeneration != deployment.Generation {
			return fmt.Errorf("%d of %d pods are ready", status.ReadyReplicas, *deployment.Spec.Replicas)
		}
		return nil
	})
	t.Logf("Deployment %s ready after %s", env.OperatorName, time.Since(begin).Round(time.Millisecond))
}

// eventually is env.Eventually, and shows the pods if the condition does not come true.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	if err := env.AwaitFor(t.Context(), soon, what, check); err != nil {
		show(t)
		t.Fatal(err)
	}
}

// show logs what the pods of the node wait for, and what those have printed that are not well.
func show(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}, {"get", "clustercsidrivers", "-o", "yaml"},
	} {
		output, err := suite.cluster.Kubectl(ctx, args...)
		t.Log(args, env.LastLines(output), err)
	}
	pods := &corev1.PodList{}
	if err := suite.cluster.Client.List(ctx, pods); err != nil {
		t.Log(err)
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Ready && status.RestartCount == 0 {
				continue
			}
			output, err := suite.cluster.Kubectl(ctx, "logs", "-n", pod.Namespace, pod.Name, "-c", status.Name, "--tail=15")
			t.Log(pod.Name, status.Name, status.State, status.LastTerminationState, output, err)
		}
	}
}

func efsAvailable(t *testing.T) {
	begin := time.Now()
	env.Must(t, suite.cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	eventually(t, "the driver settles", func() error { return suite.cluster.Settled(t.Context()) })
	t.Logf("available after %s", time.Since(begin).Round(time.Millisecond))
	eventually(t, "CSINode with the driver", func() error { return registered(t, efsName, true) })
	t.Logf("registered after %s", time.Since(begin).Round(time.Millisecond))
}

// registered returns an error unless the kubelets of all real nodes have, or have not, registered a driver.
func registered(t *testing.T, driver string, want bool) error {
	t.Helper()
	for _, name := range suite.nodes {
		node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		is := slices.ContainsFunc(node.Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driver })
		if is != want {
			return fmt.Errorf("the CSINode of %s has drivers %v", name, node.Spec.Drivers)
		}
	}
	return nil
}

// inspected compares all pods of the operators' namespaces with what runs.
func inspected(t *testing.T) {
	pods, err := operands(t.Context())
	env.Must(t, err)
	// Three operators, two controllers, and two node pods.
	if len(pods) < 7 {
		t.Errorf("%d pods, want 7 at least", len(pods))
	}
	for i := range pods {
		if err := errors.Join(running(&pods[i]), inspect(&pods[i])); err != nil {
			t.Error(err)
		}
	}
}

// operands are the pods of operators and drivers.
func operands(ctx context.Context) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for _, namespace := range []string{namespace, env.CSONamespace} {
		pods := &corev1.PodList{}
		if err := suite.cluster.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		all = append(all, pods.Items...)
	}
	return all, nil
}

// running returns an error unless all containers run, are ready, and were never started again.
func running(pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		return fmt.Errorf("pod %s: %s, %s %s", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
	var problems []error
	for _, status := range pod.Status.ContainerStatuses {
		if !status.Ready || status.RestartCount > 0 {
			state := status.State
			text := "not ready"
			if state.Waiting != nil {
				text = state.Waiting.Reason + " " + state.Waiting.Message
			}
			if last := status.LastTerminationState.Terminated; last != nil {
				text += fmt.Sprintf("; ended with %d: %s", last.ExitCode, last.Message)
			}
			problems = append(problems, fmt.Errorf("container %s: %d restarts, %s", status.Name, status.RestartCount, text))
		}
	}
	if problems != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, errors.Join(problems...))
	}
	return nil
}

// efsReplaced deletes the node pod. It ends within its grace period, and the next one is registered.
func efsReplaced(t *testing.T) {
	pods := &corev1.PodList{}
	env.Must(t, suite.cluster.Client.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": "efs-csi-node"}))
	if len(pods.Items) != 1 {
		t.Fatalf("%d node pods, want 1", len(pods.Items))
	}
	pod := &pods.Items[0]
	begin := time.Now()
	env.Must(t, suite.cluster.Client.Delete(t.Context(), pod))
	eventually(t, "the pod gone", func() error { return suite.cluster.Gone(t.Context(), pod.DeepCopy()) })
	t.Logf("ended after %s", time.Since(begin).Round(time.Millisecond))
	eventually(t, "the driver settles", func() error {
		return errors.Join(suite.cluster.Settled(t.Context()), registered(t, efsName, true))
	})
	t.Logf("registered again after %s", time.Since(begin).Round(time.Millisecond))
}

// removeEFS deletes the ClusterCSIDriver. The node pods end, and the kubelet forgets the driver.
func removeEFS(t *testing.T) {
	begin := time.Now()
	env.Must(t, suite.cluster.Uninstall(t.Context()))
	t.Logf("removed after %s", time.Since(begin).Round(time.Millisecond))
	eventually(t, "CSINode without the driver", func() error { return registered(t, efsName, false) })
	pods := &corev1.PodList{}
	env.Must(t, suite.cluster.Client.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": "efs-csi-node"}))
	if len(pods.Items) > 0 {
		t.Errorf("%d node pods are left", len(pods.Items))
	}
}
