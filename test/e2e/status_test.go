package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// happened checks that there is exactly one event with a reason about this ClusterCSIDriver, with a text in its note.
func happened(t *testing.T, cluster *env.Cluster, uid, reason, want string) error {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := cluster.Client.List(t.Context(), list, client.InNamespace("default")); err != nil {
		return err
	}
	var notes []string
	for _, event := range list.Items {
		if string(event.Regarding.UID) == uid && event.Reason == reason && strings.Contains(event.Note, want) {
			if event.Series != nil {
				return fmt.Errorf("event %s is repeated %d times", reason, event.Series.Count)
			}
			notes = append(notes, event.Note)
		}
	}
	if len(notes) != 1 {
		return fmt.Errorf("%d events %s with %q: %v", len(notes), reason, want, notes)
	}
	return nil
}

func eventsTellWhatHappened(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	install(t, cluster)
	cr := env.EFS("")
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	expect := func(reason, want string) {
		t.Helper()
		env.Eventually(t, "event "+reason, func() error { return happened(t, cluster, string(cr.UID), reason, want) })
	}
	expect("DriverAvailable", "efs.csi.aws.com is available")

	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "set", "image", "daemonset/efs-csi-node", "csi-driver=registry.example/mine:1")
	env.Must(t, err)
	expect("ObjectsRestored", "reverted external changes to: DaemonSet openshift-cluster-csi-drivers/efs-csi-node")

	_, err = cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "delete", "service", "aws-efs-csi-driver-controller-metrics")
	env.Must(t, err)
	expect("ObjectsCreated", "created: Service openshift-cluster-csi-drivers/aws-efs-csi-driver-controller-metrics")

	tc := configurations()["TLS profile Modern"]
	configure(t, cluster, tc, tc.change)
	t.Cleanup(func() { configure(t, cluster, tc, tc.undo) })
	expect("DriverUpdated", "updated to match the configuration: Deployment openshift-cluster-csi-drivers/aws-efs-csi-driver-controller")

	env.Quiet(t, operator)
	setState(t, cluster, operatorv1.Removed)
	expect("DriverRemoving", "removing driver")
	expect("DriverRemoved", "is removed")
	play(t, cluster, operator, func(*testing.T) {}, []scene{{"TestRemovedTakesTheDriverAwayAndKeepsTheCR", removedTakesTheDriverAwayAndKeepsTheCR}})
	setState(t, cluster, operatorv1.Managed)
	env.Eventually(t, "the driver installed again", func() error { return cluster.Settled(t.Context()) })
}

func aPodThatIsNotReadyIsNamedWithItsNode(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	list := &corev1.PodList{}
	env.Must(t, cluster.Client.List(t.Context(), list, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": "efs-csi-node"}))
	pod := &list.Items[0]
	setReady(t, cluster, pod, corev1.ConditionFalse)
	want := fmt.Sprintf("1 of %d nodes not ready: %s (ImagePullBackOff)", len(list.Items), pod.Spec.NodeName)
	env.Eventually(t, "the node named", func() error {
		return errors.Join(
			state(t.Context(), cluster, "Available", want),
			state(t.Context(), cluster, "AWSEFSDriverNodeServiceControllerAvailable", want),
			cluster.Condition(t.Context(), "Available", operatorv1.ConditionTrue),
			cluster.Condition(t.Context(), "Progressing", operatorv1.ConditionFalse))
	})
	available, err := operator.Metric(t.Context(), `csi_operator_node_pods{driver="efs.csi.aws.com",state="available"}`)
	env.Must(t, err)
	if int(available) != len(list.Items)-1 {
		t.Errorf("%v node pods are available in the metrics, want %d", available, len(list.Items)-1)
	}
	setReady(t, cluster, pod, corev1.ConditionTrue)
	env.Eventually(t, "the message gone", func() error {
		cr := env.EFS("")
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		if text := message(cr, "Available"); text != "AsExpected: " {
			return fmt.Errorf("still %q", text)
		}
		return nil
	})
}

// setReady changes what the kubelet, here a fake one, says about a pod.
func setReady(t *testing.T, cluster *env.Cluster, pod *corev1.Pod, ready corev1.ConditionStatus) {
	t.Helper()
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = ready
		}
	}
	waiting := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = ready == corev1.ConditionTrue
		if ready == corev1.ConditionFalse {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Waiting: waiting}
		}
	}
	env.Must(t, cluster.Client.Status().Update(t.Context(), pod))
}

func storageClassStateIsFollowed(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	keepEarlierClass(t, cluster)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}}
	set := func(state string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"storageClassState":%q}}`, state)
		env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), env.Merge(patch)))
		env.Eventually(t, "the generation observed", func() error { return cluster.Settled(t.Context()) })
		env.Quiet(t, operator)
	}
	expansion := `{"allowVolumeExpansion":true}`
	patch := func() {
		t.Helper()
		env.Must(t, cluster.Client.Patch(t.Context(), class, env.Merge(expansion)))
		env.Quiet(t, operator)
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	}
	set("Unmanaged")
	patch()
	if class.AllowVolumeExpansion == nil {
		t.Error("an unmanaged StorageClass was changed back")
	}
	set("Managed")
	env.Eventually(t, "the StorageClass restored", func() error {
		found := &storagev1.StorageClass{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), found); err != nil {
			return err
		}
		if found.AllowVolumeExpansion != nil {
			return errors.New("allowVolumeExpansion is still set")
		}
		return nil
	})
	set("Removed")
	env.Must(t, cluster.Gone(t.Context(), class))
	set("Unmanaged")
	env.Must(t, cluster.Gone(t.Context(), class))
	set("Managed")
	env.Must(t, cluster.Gone(t.Context(), class))
}
