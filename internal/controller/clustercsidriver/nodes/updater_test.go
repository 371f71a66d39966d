package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// The cache may go on to show what was deleted.
func TestWhatWasDeletedIsNotCountedOn(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.deletes(t, 0, "a")
	for range 3 {
		o.deletes(t, 2*time.Second, "")
	}
	o.replaced(true, "a")
	o.deletes(t, 2*time.Second, "b")
}

// An operator before this one may have deleted pods that the cache of this one still shows.
func TestTheNextOperatorComparesItsCacheWithTheCluster(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.cache = canned.New(scheme.Scheme, slices.Clone(o.cluster.Objects)...)
	o.Client = &split{Cluster: o.cluster, cache: o.cache}
	o.gone("a")
	o.deletes(t, 0, "")
}

// split reads from one cluster and writes to another.
type split struct {
	*canned.Cluster
	cache *canned.Cluster
}

func (s *split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.cache.List(ctx, list, options...)
}

// The kubelet brings what a Secret gets to all pods that mount it. Pods that never had it wait as the policy says.
func TestPodsThatMustLoseASecretWaitForNoDrain(t *testing.T) {
	for withdrawn, want := range map[string]string{"": "", "keys": "a", "other": ""} {
		o := operate("a", "b", "c")
		for _, object := range o.cluster.Objects {
			if old, isRevision := object.(*appsv1.ControllerRevision); isRevision && old.Revision == 1 {
				old.Data.Raw = []byte(`{"spec":{"template":{"metadata":{"annotations":{"operator.openshift.io/hash-of-keys":"1"}}}}}`)
			}
		}
		o.replaced(true, "c")
		o.use("a")
		o.use("b")
		o.in.Policy = driver.WhenDrained
		o.deletes(t, 0, "")
		o.in.Withdrawn = withdrawn
		made := o.deletes(t, surveyInterval, want)
		if said := strings.Contains(made.Message, "the operator now replaces the node pods of 2 nodes in use, too, because these pods must no longer use Secret keys"); said != (want != "") {
			t.Errorf("%q: %s", withdrawn, made.Message)
		}
		if want != "" {
			o.replaced(true, "a")
			o.deletes(t, time.Second, "b")
		}
	}
}

// A node in use that kept a pod of an older template, without the Secret, is not disturbed for those that have it.
func TestAPodThatNeverHadTheSecretWaits(t *testing.T) {
	o := operate("a", "b", "c")
	for _, object := range o.cluster.Objects {
		if old, isRevision := object.(*appsv1.ControllerRevision); isRevision && old.Revision == 1 {
			with := old.DeepCopy()
			with.Name, with.UID = "plugin-with", "with"
			with.Labels[appsv1.ControllerRevisionHashLabelKey] = "with"
			with.Data.Raw = []byte(`{"spec":{"template":{"metadata":{"annotations":{"operator.openshift.io/hash-of-keys":"1"}}}}}`)
			o.cluster.Objects = append(o.cluster.Objects, with)
		}
	}
	o.replaced(true, "c")
	o.use("a")
	o.use("b")
	for _, object := range o.cluster.Objects {
		if pod, isPod := object.(*corev1.Pod); isPod && pod.Spec.NodeName == "b" && pod.Labels["app"] == "plugin" {
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "with"
		}
	}
	o.in.Policy, o.in.Withdrawn = driver.WhenDrained, "keys"
	made := o.deletes(t, 0, "b")
	for _, part := range []string{"the operator now replaces the node pods of 1 nodes in use, too, because these pods must no longer use Secret keys", "1 nodes are in use, they wait until they are drained: a"} {
		if !strings.Contains(made.Message, part) {
			t.Errorf("%q lacks %q", made.Message, part)
		}
	}
	o.replaced(true, "b")
	o.deletes(t, surveyInterval, "")
}

func TestNodesInUseHaveTheirTurn(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	web := o.use("a")
	o.use("b")
	o.deletes(t, 0, "a")
	o.replaced(true, "a")
	// Its pods have the time to become unready.
	if made := o.deletes(t, 10*time.Second, ""); made.Again > settleInterval {
		t.Errorf("again after %s", made.Again)
	}
	web.Status.Conditions[0].Status = corev1.ConditionFalse
	made := o.deletes(t, 30*time.Second, "")
	if made.Reason != Paused || !strings.Contains(made.Message, "shop/web-a on a") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
	web.Status.Conditions[0].Status = corev1.ConditionTrue
	o.deletes(t, surveyInterval, "b")
	o.replaced(true, "b")
	// The users of the last node count as well.
	if made := o.deletes(t, 2*time.Second, ""); made.Ended || made.Message == "" {
		t.Errorf("%+v", made)
	}
	o.deletes(t, 30*time.Second, "")
	if made := o.deletes(t, 2*time.Second, ""); !made.Ended {
		t.Errorf("%+v", made)
	}
	if made := o.deletes(t, 2*time.Second, ""); made.Ended {
		t.Error("it ends twice")
	}
}

// Kubernetes makes the revision of a template a moment after the DaemonSet has it. Until then, all pods look right.
func TestATemplateThatKubernetesHasNotSeenIsNotJudged(t *testing.T) {
	o := operate("a", "b")
	o.in.DaemonSet.Generation++
	newest := o.cluster.Objects[1]
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool { return object == newest })
	o.deletes(t, 0, "")
	o.cluster.Objects = append(o.cluster.Objects, newest)
	o.in.DaemonSet.Status.ObservedGeneration++
	o.deletes(t, 2*time.Second, "a")
}

// A pod that fits no node is in nobody's way, and is replaced when the template is corrected.
func TestAPodThatFitsNoNode(t *testing.T) {
	unscheduled := func(o *operated, node, template, hash string) {
		o.gone(node)
		pod := o.pod("", template, hash, false)
		pod.Name, pod.UID = "plugin-"+node+"-0", "pending"
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}}},
		}}}
		pod.Status.ContainerStatuses = nil
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		o.cluster.Objects = append(o.cluster.Objects, pod)
	}
	o := operate("a", "b")
	o.deletes(t, 0, "a")
	unscheduled(o, "a", "2", "new")
	made := o.deletes(t, canaryPatience, "")
	if !strings.Contains(made.Failed, "node a") || !strings.Contains(made.Failed, "Unschedulable") {
		t.Errorf("failed: %q", made.Failed)
	}
	o = operate("a", "b")
	unscheduled(o, "b", "1", "old")
	o.replaced(true, "a")
	o.deletes(t, 0, "b")
}

func TestACanaryThatIsTheOnlyNode(t *testing.T) {
	o := operate("a")
	o.deletes(t, 0, "a")
	o.replaced(false, "a")
	if made := o.deletes(t, canaryPatience, ""); made.Reason != TryingCanary || !strings.Contains(made.Failed, "node a") {
		t.Errorf("%+v", made)
	}
	o.replaced(true, "a")
	o.deletes(t, 2*time.Second, "")
	if made := o.deletes(t, 2*time.Second, ""); !made.Ended {
		t.Errorf("%+v", made)
	}
}

// The operator before this one paused. It is not known what was ready, but since when it is not.
func TestAPauseOutlivesTheOperator(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c", "a")
	web := o.use("a")
	o.use("b")
	web.Status.Conditions[0].Status = corev1.ConditionFalse
	web.Status.Conditions[0].LastTransitionTime = metav1.NewTime(o.now.Add(time.Second))
	made := o.deletes(t, time.Minute, "")
	if made.Reason != Paused || !strings.Contains(made.Message, "shop/web-a") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
	web.Status.Conditions[0].Status = corev1.ConditionTrue
	o.deletes(t, surveyInterval, "b")
}

// That a pod is not ready is its tenant's word: it may mean that the new node pod does harm, or nothing.
func TestAPauseEndsAfterAnHour(t *testing.T) {
	restart := func(o *operated) { o.Reset() }
	for name, interrupt := range map[string]func(*operated){
		"one operator": func(*operated) {}, "one operator after another": restart,
		"whatever the pod says of itself": func(o *operated) {
			for _, object := range o.cluster.Objects {
				if pod, isPod := object.(*corev1.Pod); isPod && pod.Name == "web-a" {
					pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(o.now)
				}
			}
			restart(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b", "c")
			o.replaced(true, "c")
			web := o.use("a")
			o.use("b")
			o.deletes(t, 0, "a")
			o.replaced(true, "a")
			o.deletes(t, time.Second, "")
			web.Status.Conditions[0].Status, web.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(o.now)
			for range 6 {
				if made := o.deletes(t, pauseLimit/6-surveyInterval, ""); made.Reason != Paused {
					t.Errorf("%s: %s", made.Reason, made.Message)
				}
				interrupt(o)
			}
			o.deletes(t, 6*surveyInterval, "b")
			o.replaced(true, "b")
			var made Progress
			for passes := 0; passes < 5 && !made.Ended; passes++ {
				made = o.deletes(t, time.Minute, "")
			}
			if !made.Ended {
				t.Errorf("it goes on: %s: %s", made.Reason, made.Message)
			}
		})
	}
}

// A plugin that is not ready for a moment may still hold the mounts of its node.
func TestAShortOutageIsNoReasonToDisturbANodeInUse(t *testing.T) {
	o := operate("a", "b", "c")
	o.in.Policy = driver.WhenDrained
	o.replaced(true, "c")
	o.use("a")
	o.use("b")
	for _, object := range o.cluster.Objects {
		if pod, isPod := object.(*corev1.Pod); isPod && pod.Spec.NodeName == "a" && pod.Labels["app"] != "" {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(o.now)
		}
	}
	o.deletes(t, time.Minute, "")
	o.deletes(t, brokenAfter, "a")
}

// Between the survey and the deletion a pod may come.
func TestAPodThatComesAtTheLastMomentIsSeen(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.Live = &lateUser{Cluster: o.cluster, come: func() { o.use("a") }}
	o.deletes(t, 0, "")
	o.deletes(t, 2*time.Second, "b")
}

// lateUser lets a pod come after the first look at cordoned nodes, which is the last one before pods are deleted.
type lateUser struct {
	*canned.Cluster
	come func()
}

func (l *lateUser) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Cluster.List(ctx, list, options...)
	if _, isNodes := list.(*corev1.NodeList); isNodes && l.come != nil {
		l.come()
		l.come = nil
	}
	return err
}

func TestADrainedNodeIsUsed(t *testing.T) {
	o := operate("a", "b", "c")
	o.in.Policy = driver.WhenDrained
	o.replaced(true, "c")
	o.use("a")
	web := o.use("b")
	made := o.deletes(t, 0, "")
	if made.Reason != NodesInUse || made.InUse != 2 || made.Again > drainInterval {
		t.Errorf("%+v", made)
	}
	for _, object := range o.cluster.Objects {
		if node, isNode := object.(*corev1.Node); isNode && node.Name == "b" {
			node.Spec.Unschedulable = true
		}
	}
	// Its containers have ended, and its volumes are still mounted.
	web.Status.Phase, web.DeletionTimestamp = corev1.PodSucceeded, new(metav1.NewTime(o.now))
	if made := o.deletes(t, drainInterval, ""); made.InUse != 2 {
		t.Errorf("a pod in deletion uses its volumes until it is gone: %+v", made)
	}
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool { return object == web })
	o.deletes(t, drainInterval, "b")
}

func TestANodeThatIsDownHoldsUpNothing(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	for _, object := range o.cluster.Objects {
		switch typed := object.(type) {
		case *corev1.Node:
			if typed.Name == "a" {
				typed.Status.Conditions[0].Status = corev1.ConditionUnknown
			}
		case *corev1.Pod:
			if typed.Spec.NodeName == "a" {
				typed.Status.Conditions[0].Status = corev1.ConditionFalse
			}
		}
	}
	made := o.deletes(t, 0, "b")
	if !strings.Contains(made.Message, "skipped nodes that are not ready: a") {
		t.Error(made.Message)
	}
}

func TestPodsStayWhileNewOnesWouldLackSomething(t *testing.T) {
	o := operate("a", "b")
	o.in.Lacks = "waiting for Secret x"
	if made := o.deletes(t, 0, ""); made.Message != "2 nodes keep their node pod: waiting for Secret x" {
		t.Error(made.Message)
	}
}

// What can't be read or deleted is tried again, and nothing is forgotten.
func TestARequestThatFailsIsTriedAgain(t *testing.T) {
	for _, request := range []string{
		"list ControllerRevision here", "list PersistentVolume", "list Node", "list Pod", "get CSINode c",
	} {
		o := operate("a", "b", "c")
		o.replaced(true, "c")
		o.cluster.Refuse(errors.New("no route"), request)
		if _, err := o.Advance(t.Context(), o.in); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf("%s: %v", request, err)
		}
		o.cluster.Fail = nil
		o.deletes(t, 2*time.Second, "a")
	}
}
