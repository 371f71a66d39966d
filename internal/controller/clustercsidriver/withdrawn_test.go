package clustercsidriver

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// rollout has a DaemonSet with a new template, whose node pod on node a is in use and has the old one, with a Secret.
func rollout() []client.Object {
	set := ours(daemonSet())
	set.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "disk-node"}}
	set.Status.DesiredNumberScheduled, set.Status.UpdatedNumberScheduled = 2, 1
	owner := []metav1.OwnerReference{{Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
	objects := append(using(), set)
	if user, isPod := objects[1].(*corev1.Pod); isPod {
		user.Spec.NodeName, user.Status.Phase = "a", corev1.PodRunning
	}
	for node, template := range map[string]string{"a": "1", "b": "2"} {
		labels := map[string]string{"app": "disk-node", "pod-template-generation": template, appsv1.ControllerRevisionHashLabelKey: "hash-" + template}
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: here, Name: "disk-node-" + template, Labels: labels, OwnerReferences: owner,
		}, Revision: int64(template[0])}
		if template == "1" {
			revision.Data.Raw = []byte(`{"spec":{"template":{"metadata":{"annotations":{"operator.openshift.io/hash-of-disk-node-keys":"b"}}}}}`)
		}
		pod := driverPod("disk-node", node, "")
		pod.Labels, pod.OwnerReferences, pod.UID = labels, owner, types.UID("pod-"+node)
		live := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		live.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		registered := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		registered.Spec.Drivers = []storagev1.CSINodeDriver{{Name: diskName}}
		objects = append(objects, revision, pod, live, registered)
	}
	return objects
}

// A Secret that gets copies of the cluster's own keys is in all node pods within minutes, wherever they wait for.
func TestNodePodsLoseTheKeysOfTheClusterAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		secret credential.Secret
		want   bool
	}{
		"keys of their own":         {credential.Secret{Hash: "b", Keys: []string{"credentials"}, Minted: true}, false},
		"keys of the cluster":       {credential.Secret{Hash: "c", Keys: []string{"credentials"}, PassedThrough: true}, true},
		"a Secret that is gone now": {credential.Secret{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.MountsInPods = true
			trip := newTrip(t, d, rollout()...)
			cr, result := healthy()
			result.changes, result.seen.config.Rollout = nil, driver.WhenDrained
			result.seen.live.credentials.Secrets["disk-node-keys"] = tc.secret
			applied := trip.set(t.Context(), result.seen, nil)
			result = trip.advance(t.Context(), cr, result.seen, applied)
			if result.err != nil {
				t.Fatal(result.err)
			}
			if got := slices.Contains(trip.cluster.Writes, "delete Pod storage-system/disk-node-a"); got != tc.want {
				t.Errorf("the pod in use is replaced: %t; %s: %s, wrote %v", got, result.rolled.Reason, result.rolled.Message, trip.cluster.Writes)
			}
		})
	}
}
