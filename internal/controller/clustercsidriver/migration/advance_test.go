package migration

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// ourNodes is our DaemonSet while pods of a predecessor are replaced.
func ourNodes() *appsv1.DaemonSet {
	daemonSet := daemonSetOf(here, "efs-csi-node")
	daemonSet.Generation, daemonSet.Status.ObservedGeneration, daemonSet.Status.DesiredNumberScheduled = 2, 2, 3
	daemonSet.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	return daemonSet
}

// oldPods are node pods of the community's operator, one of which is not ready.
func oldPods() []corev1.Pod {
	broken := nodePod(here, "b", "efs-csi-node", "node-2")
	broken.Status.Conditions = nil
	return []corev1.Pod{*nodePod(here, "a", "efs-csi-node", "node-1"), *broken}
}

func TestOldNodePodsStayWhileSomethingIsMissing(t *testing.T) {
	m := newMove(t, awsefs.Driver())
	moved, err := m.Advance(t.Context(), State{Old: oldPods()}, nil, nil)
	want := Moved{Message: "2 node pods of the predecessor stay: waiting for Kubernetes to observe the changed DaemonSet", Serving: 1, Again: nodesInterval}
	if diff := cmp.Diff(want, moved); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if len(m.cache.Writes) > 0 {
		t.Errorf("sent %v", m.cache.Writes)
	}
}

// Its pods would be started anew, under its old name.
func TestOldNodePodsStayAsLongAsTheirDaemonSet(t *testing.T) {
	m := newMove(t, awsefs.Driver(), ourNodes(), daemonSetOf(here, "aws-efs-csi-driver-node"))
	m.cache.Refuse(errors.New("no route"), "delete DaemonSet aws-efs-csi-driver-node")
	moved, err := m.Advance(t.Context(), State{Old: oldPods()}, nil, nil)
	if err != nil || moved.Message != "2 node pods of the predecessor stay until their DaemonSet can be deleted" || len(moved.Changes) != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
}

func TestOldNodePodsAreReplacedOneAtATime(t *testing.T) {
	pods := oldPods()
	daemonSet := ourNodes()
	daemonSet.Status.DesiredNumberScheduled = 2
	m := newMove(t, awsefs.Driver(), daemonSet, &pods[0], &pods[1], node("node-1"), node("node-2"))
	moved, err := m.Advance(t.Context(), State{Old: pods}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody loses anything with the broken one.
	if diff := cmp.Diff([]string{"delete Pod openshift-cluster-csi-drivers/b"}, m.cache.Writes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const message = "2 of 2 nodes still have a pod of the predecessor"
	if moved.Message != message || moved.Serving != 1 || moved.Again != status.LeastPause {
		t.Errorf("%+v", moved)
	}
	m.now = m.now.Add(leastInterval / 2)
	m.live.Reads = nil
	again, err := m.Advance(t.Context(), State{Old: pods}, nil, nil)
	if err != nil || again.Message != moved.Message || again.Changes != nil || again.Again != leastInterval/2 || m.live.pods() > 0 {
		t.Errorf("too soon it looks again: %+v, %v, read %v", again, err, m.live.Reads)
	}
}

func node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// inUse are a volume of EFS and a pod that uses it on a node.
func inUse(on string) []client.Object {
	volume := &corev1.PersistentVolume{ObjectMeta: named("", "pv")}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "efs.csi.aws.com"}
	volume.Spec.ClaimRef, volume.Status.Phase = &corev1.ObjectReference{Namespace: "shop", Name: "data"}, corev1.VolumeBound
	pod := &corev1.Pod{ObjectMeta: named("shop", "web")}
	pod.Spec.NodeName, pod.Spec.Volumes = on, []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return []client.Object{volume, pod}
}

func TestNodesInUseWaitUnlessThatIsAccepted(t *testing.T) {
	for name, accepted := range map[string]bool{"it is not": false, "it is": true} {
		t.Run(name, func(t *testing.T) {
			one := nodePod(here, "a", "efs-csi-node", "node-1")
			daemonSet := ourNodes()
			daemonSet.Status.DesiredNumberScheduled = 1
			m := newMove(t, awsefs.Driver(), append(inUse("node-1"), daemonSet, one, node("node-1"))...)
			moved, err := m.Advance(t.Context(), State{Old: []corev1.Pod{*one}, accepted: accepted}, nil, nil)
			if err != nil || (len(m.cache.Writes) == 1) != accepted {
				t.Errorf("%v, sent %v", err, m.cache.Writes)
			}
			message := "1 of 1 nodes still have a pod of the predecessor"
			if !accepted {
				message += "; on 1 of these nodes, pods use volumes: node-1 " +
					"(shop/web). If the operator replaced the node pods there, the mounts of these pods would hang. Drain these nodes, delete the pods, or set annotation operator.openshift.io/accept-remount=true on ClusterCSIDriver efs.csi.aws.com and restart the pods afterwards"
			}
			if moved.Message != message || moved.Stalled {
				t.Errorf("%+v", moved)
			}
		})
	}
}

// That our own pods do not start is worth an alert, and that users take their time is not.
func TestAMigrationIsStalledByItsOwnPods(t *testing.T) {
	own := nodePod(here, "own", "efs-csi-node", "node-2")
	own.Spec.ServiceAccountName, own.Status = "aws-efs-csi-driver-node-sa", corev1.PodStatus{Reason: "ImagePullBackOff"}
	one := nodePod(here, "a", "efs-csi-node", "node-1")
	daemonSet := ourNodes()
	daemonSet.Status.DesiredNumberScheduled = 2
	m := newMove(t, awsefs.Driver(), daemonSet, one, own, node("node-1"), node("node-2"))
	moved, err := m.Advance(t.Context(), State{Old: []corev1.Pod{*one}}, nil, nil)
	const message = "1 of 2 nodes still have a pod of the predecessor; waiting for the new pods on node-2 (ImagePullBackOff) before other nodes get one"
	if err != nil || !moved.Stalled || moved.Message != message || len(m.cache.Writes) > 0 {
		t.Errorf("%+v, %v, sent %v", moved, err, m.cache.Writes)
	}
}

func TestWhatOnlyOldPodsNeedGoesWithTheLastOfThem(t *testing.T) {
	owned := labelled(account())
	owned.OwnerReferences = []metav1.OwnerReference{
		{Kind: "CustomResourceDefinition", Name: communityOwner}, {Kind: "CustomResourceDefinition", Name: "others.example.com"},
	}
	class := &storagev1.StorageClass{ObjectMeta: named("", "efs-sc")}
	class.Labels = map[string]string{communityLabel: "true", "mine": "x"}
	const unmark = `patch StorageClass efs-sc {"metadata":{"labels":{"openshift.io/aws-efs-operator-owned":null},"resourceVersion":"1","uid":"efs-sc"}}`
	const disown = `patch ServiceAccount openshift-cluster-csi-drivers/efs-csi-sa {"metadata":{"ownerReferences":[{"apiVersion":"",` +
		`"kind":"CustomResourceDefinition","name":"others.example.com","uid":""}],"resourceVersion":"1","uid":"efs-csi-sa"}}`
	for name, tc := range map[string]struct {
		objects []client.Object
		old     []corev1.Pod
		want    []string
	}{
		"while one runs":     {[]client.Object{owned, labelled(constraints())}, oldPods(), []string{disown}},
		"after the last":     {[]client.Object{owned, labelled(constraints())}, nil, []string{"delete ServiceAccount openshift-cluster-csi-drivers/efs-csi-sa", "delete SecurityContextConstraints efs-csi-scc"}},
		"what goes already":  {[]client.Object{going(labelled(account()))}, nil, nil},
		"a class that stays": {[]client.Object{class}, nil, []string{unmark}},
		"an old DaemonSet":   {[]client.Object{daemonSetOf(here, "aws-efs-csi-driver-node")}, nil, []string{"delete DaemonSet openshift-cluster-csi-drivers/aws-efs-csi-driver-node Orphan"}},
		"nothing":            {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			if _, err := m.cleanUp(t.Context(), State{Old: tc.old}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.cache.Sent()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Nobody would make pods anew whose DaemonSet is orphaned. Kubernetes would make its revisions anew until it has gone.
func TestADaemonSetOfAnotherNameGoesBeforeItsRevisions(t *testing.T) {
	const name = "aws-efs-csi-driver-node"
	revision := func(name, app string) *appsv1.ControllerRevision {
		found := &appsv1.ControllerRevision{ObjectMeta: named(here, name)}
		found.Labels = map[string]string{"app": app}
		return found
	}
	left := []client.Object{
		daemonSetOf(here, "efs-csi-node"), daemonSetOf("other", name), revision("one", name), controlled(revision("other", name), "somebody"),
		revision("ours", "efs-csi-node"),
	}
	deletes := []string{"delete ControllerRevision openshift-cluster-csi-drivers/one"}
	orphan := func(m *move, what string, want []string, old ...corev1.Pod) {
		t.Helper()
		m.cache.Writes = nil
		state := State{Old: old}
		if _, err := m.clearRevisions(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		if _, err := m.orphan(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.cache.Writes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	m := newMove(t, awsefs.Driver(), append(left, daemonSetOf(here, name))...)
	orphan(m, "it is there", []string{"delete DaemonSet openshift-cluster-csi-drivers/aws-efs-csi-driver-node Orphan"})
	m.replaceObjects(append(left, going(daemonSetOf(here, name)))...)
	orphan(m, "it is going", nil)
	m.replaceObjects(left...)
	m.cache.Refuse(errors.New("no route"), "delete ControllerRevision")
	orphan(m, "the API server is away", deletes)
	m.cache.Fail = nil
	orphan(m, "it has gone", deletes)
	orphan(m, "once more", nil)

	m = newMove(t, awsefs.Driver(), append(left, going(daemonSetOf(here, name)))...)
	orphan(m, "an operator before this one has deleted it", nil)
	m.replaceObjects(left...)
	orphan(m, "it has gone then", deletes)
	// Nothing but its revisions is left.
	m = newMove(t, awsefs.Driver(), left...)
	orphan(m, "nobody asks", nil)
	removed, err := m.RemoveLeftovers(t.Context(), State{})
	if err != nil || len(removed) != 1 {
		t.Errorf("a removal: %v, %v", removed, err)
	}
	m = newMove(t, awsefs.Driver(), left...)
	orphan(m, "only its pod is left", deletes, *nodePod(here, "node-a", name, "a"), *nodePod(here, "node-b", "efs-csi-node", "b"))
	orphan(m, "only its pod is still left", nil, *nodePod(here, "node-a", name, "a"))
}

func TestDaemonSetsInNamespacesOfTheirOwnAreRenamed(t *testing.T) {
	m := newMove(t, awsebs.Driver())
	renamed, err := m.renamed(t.Context(), State{apart: apart{daemonSets: []appsv1.DaemonSet{*ebsDaemonSet(), *going(ebsDaemonSet())}}})
	if err != nil || len(renamed) != 1 || renamed[0].Namespace != old {
		t.Errorf("in a namespace of its own: %v, %v", renamed, err)
	}
}

func TestADaemonSetThatCouldBeMigratedIsAnnouncedOnce(t *testing.T) {
	m := newMove(t, awsefs.Driver(), daemonSetOf(here, "efs-csi-node"), going(daemonSetOf("other", "efs-csi-node")))
	for range 2 {
		if err := m.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"Normal CreateClusterCSIDriver: this DaemonSet of the community's operator keeps running; to migrate it to " +
		"aws-efs-csi-driver-operator without an outage, create ClusterCSIDriver efs.csi.aws.com"}
	if diff := cmp.Diff(want, m.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	m.now = m.now.Add(time.Hour)
	another := daemonSetOf(here, "efs-csi-node")
	another.UID = "anew"
	if m.replaceObjects(another); m.Announce(t.Context()) != nil || len(m.events.Said) != 2 {
		t.Errorf("one that was made anew: %v", m.events.Said)
	}
}
