package clustercsidriver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The kubelet unmounts the volumes of a pod that was deleted by force later than the pod is gone.
func TestADriverStaysWhileNodesHaveMounts(t *testing.T) {
	const blocked = "Removal is blocked: 1 nodes have mounts of the driver that no pod uses: a. The kubelet can't unmount " +
		"without the driver. Wait until the kubelet has unmounted, or restart these nodes, or set annotation " +
		"operator.openshift.io/force-driver-removal=true on ClusterCSIDriver disk.example.com to remove the driver anyway"
	const unknown = "Removal waits for 2m0s, then continues. It is unknown whether nodes have mounts of the driver: no route"
	noRoute := errors.New("no route")
	for name, tc := range map[string]struct {
		nodes, unknown []string
		err            error
		force          string
		// held is what holds the removal at first, and later after the wait.
		held, later string
	}{
		"mounts": {nodes: []string{"a"}, held: blocked, later: blocked},
		"mounts, and more": {
			nodes: []string{"a"}, unknown: []string{"b"}, err: noRoute,
			held: blocked + ". Not all nodes have answered: no route", later: blocked + ". Not all nodes have answered: no route",
		},
		"mounts, and dark": {
			nodes: []string{"a"}, unknown: []string{"b"},
			held: blocked + ". Not all nodes have answered: 1 nodes do not report: b", later: blocked + ". Not all nodes have answered: 1 nodes do not report: b",
		},
		"dark nodes":       {unknown: []string{"b", "c"}, held: "Removal waits for 2m0s, then continues. It is unknown whether nodes have mounts of the driver: 2 nodes do not report: b, c"},
		"no mounts":        {},
		"no answer":        {err: noRoute, held: unknown},
		"mounts, force":    {nodes: []string{"a"}, force: "true"},
		"no answer, force": {err: noRoute, force: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), csiDriver(), infrastructure())
			now := trip.Now()
			trip.Now = func() time.Time { return now }
			trip.Mounted = reporting(tc.nodes, tc.unknown, tc.err)
			cr, _ := healthy()
			cr.Spec.ManagementState = operatorv1.Unmanaged
			metav1.SetMetaDataAnnotation(&cr.ObjectMeta, ForceRemovalAnnotation, tc.force)
			for _, want := range []string{tc.held, tc.later} {
				result := trip.remove(t.Context(), cr, trip.found(t))
				if result.err != nil || result.removal.inUse != want {
					t.Errorf("it is held by %q, want %q; %v", result.removal.inUse, want, result.err)
				}
				now = now.Add(unknownWait)
			}
		})
	}
}

// reporting is what nodes report of their mounts. After an error, it is unknown for the nodes before, too.
func reporting(nodes, unknown []string, err error) func(context.Context, []string) ([]string, []string, error) {
	return func(_ context.Context, before []string) ([]string, []string, error) {
		if err == nil {
			return nodes, unknown, nil
		}
		silent := slices.DeleteFunc(slices.Concat(unknown, before), func(node string) bool { return slices.Contains(nodes, node) })
		slices.Sort(silent)
		return nodes, slices.Compact(silent), err
	}
}

// workers are the nodes a, b and c, without the nodes that left.
func workers(left ...string) []client.Object {
	var nodes []client.Object
	for _, name := range []string{"a", "b", "c"} {
		if !slices.Contains(left, name) {
			nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return nodes
}

// A Prometheus or a node that fails after its answer does not make a removal forget the answer. But each answer replaces the one before.
func TestARemovalForgetsNoMounts(t *testing.T) {
	trip := newTrip(t, disk(), csiDriver(), infrastructure())
	others := slices.Clone(trip.cluster.Objects)
	now := trip.Now()
	trip.Now = func() time.Time { return now }
	cr, _ := healthy()
	cr.Spec.ManagementState = operatorv1.Unmanaged
	for i, step := range []struct {
		nodes, unknown, left []string
		err                  error
		want                 string
	}{
		{unknown: []string{"a", "b", "c"}, err: errors.New("no route"), want: "Removal waits for 2m0s"},
		{nodes: []string{"a"}, want: "no pod uses: a."},
		{unknown: []string{"a", "b", "c"}, err: errors.New("no route"), want: "no pod uses: a."},
		{unknown: []string{"a", "b", "c"}, err: errors.New("no route"), want: "no pod uses: a."},
		{nodes: []string{"b"}, unknown: []string{"a", "c"}, err: errors.New("no route"), want: "no pod uses: a, b."},
		// The pods of all nodes are being replaced.
		{err: errors.New("no route"), want: "no pod uses: a, b."},
		// Node a left the cluster while Prometheus does not answer.
		{unknown: []string{"b", "c"}, left: []string{"a"}, err: errors.New("no route"), want: "no pod uses: b."},
		{unknown: []string{"b", "c"}, want: "no pod uses: b."},
		{unknown: []string{"b", "c"}, want: "no pod uses: b."},
		// Node b is free, or left the cluster. Node c may have mounts.
		{unknown: []string{"c"}, want: "Removal waits for 2m0s"},
		{unknown: []string{"c"}, want: ""},
	} {
		trip.Mounted = reporting(step.nodes, step.unknown, step.err)
		trip.cluster.Objects = append(slices.Clone(others), workers(step.left...)...)
		got := trip.remove(t.Context(), cr, trip.found(t)).removal.inUse
		if (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("step %d: it is held by %q, want %q", i, got, step.want)
		}
		now = now.Add(unknownWait)
	}
}

// A restarted operator knows from the condition which nodes had mounts.
func TestARestartedOperatorForgetsNoMounts(t *testing.T) {
	const blocked = "Removal is blocked: 2 nodes have mounts of the driver that no pod uses: a, b. The kubelet"
	for name, tc := range map[string]struct {
		// said is the message of the condition with this reason, or with inUseReason.
		said, reason         string
		nodes, unknown, left []string
		unread               bool
		err                  error
		want, later          string
	}{
		"no answer":                {said: blocked, unknown: []string{"a", "b", "c"}, err: errors.New("no route"), want: "no pod uses: a, b.", later: "no pod uses: a, b."},
		"no answer, and one left":  {said: blocked, unknown: []string{"b", "c"}, left: []string{"a"}, err: errors.New("no route"), want: "no pod uses: b.", later: "no pod uses: b."},
		"all left, and no answer":  {said: blocked, unknown: []string{"c"}, left: []string{"a", "b"}, err: errors.New("no route"), want: "Removal waits for 2m0s"},
		"another node has mounts":  {said: blocked, nodes: []string{"c"}, want: "no pod uses: c.", later: "no pod uses: c."},
		"a node does not report":   {said: blocked, unknown: []string{"b"}, want: "no pod uses: b.", later: "no pod uses: b."},
		"only others do not":       {said: blocked, unknown: []string{"c"}, want: "Removal waits for 2m0s"},
		"all are free":             {said: blocked, want: "Removal waits for 2m0s"},
		"it was unknown before":    {said: "Removal waits. It is unknown whether nodes have mounts of the driver: a", unknown: []string{"a"}, want: "Removal waits for 2m0s"},
		"nodes can't be read":      {said: blocked, unknown: []string{"a", "b"}, left: []string{"a"}, unread: true, want: "no pod uses: a, b.", later: "no pod uses: a, b."},
		"the reason is another":    {said: blocked, reason: "Removing", unknown: []string{"a", "b"}, want: "Removal waits for 2m0s"},
		"nothing was known before": {err: errors.New("no route"), want: "Removal waits for 2m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), append(workers(tc.left...), csiDriver(), infrastructure())...)
			now := trip.Now()
			trip.Now = func() time.Time { return now }
			trip.Mounted = reporting(tc.nodes, tc.unknown, tc.err)
			cr, _ := healthy()
			cr.Spec.ManagementState = operatorv1.Unmanaged
			if tc.said != "" {
				cr.Status.Conditions = append(cr.Status.Conditions, status.Condition("DiskDriverNodeServiceControllerProgressing", true, cmp.Or(tc.reason, inUseReason), tc.said))
			}
			if tc.unread {
				trip.cluster.Refuse(errors.New("no route"), "get Node")
			}
			for _, want := range []string{tc.want, tc.later} {
				result := trip.remove(t.Context(), cr, trip.found(t))
				if got := result.removal.inUse; (got == "") != (want == "") || !strings.Contains(got, want) || strings.Contains(got, "is blocked") != (result.removal.blocking > 0) {
					t.Errorf("it is held by %q (%d), want %q", got, result.removal.blocking, want)
				}
				now = now.Add(unknownWait)
			}
		})
	}
}

// A request that fails does not erase the message from which the next process learns.
func TestAFailureAfterARestartKeepsTheMessage(t *testing.T) {
	trip := newTrip(t, disk(), csiDriver(), infrastructure())
	trip.Mounted = reporting(nil, []string{"a"}, nil)
	cr, _ := healthy()
	cr.Spec.ManagementState = operatorv1.Unmanaged
	const blocked = "Removal is blocked: 1 nodes have mounts of the driver that no pod uses: a. The kubelet"
	cr.Status.Conditions = append(cr.Status.Conditions, status.Condition("DiskDriverNodeServiceControllerProgressing", true, inUseReason, blocked))
	trip.cluster.Refuse(errors.New("no route"), "list PersistentVolume")
	if result := trip.remove(t.Context(), cr, trip.found(t)); result.err == nil || result.removal.inUse != blocked {
		t.Errorf("it is held by %q, want %q; %v", result.removal.inUse, blocked, result.err)
	}
}

// A removal that an administrator cancels, or that has ended, leaves no knowledge for the next one.
func TestARemovalIsForgottenAfterItsEnd(t *testing.T) {
	for _, state := range []operatorv1.ManagementState{operatorv1.Managed, operatorv1.Unmanaged, "deleted"} {
		trip := newTrip(t, disk(), csiDriver(), infrastructure())
		trip.Mounted = reporting([]string{"a"}, nil, nil)
		cr, _ := healthy()
		cr.Spec.ManagementState = operatorv1.Removed
		if trip.act(t.Context(), cr); len(trip.mounts.nodes) != 1 || trip.inUse.message == "" {
			t.Fatalf("the removal knows %q and %q", trip.mounts.nodes, trip.inUse.message)
		}
		if cr.Spec.ManagementState = state; state == "deleted" {
			trip.reset()
		} else {
			trip.act(t.Context(), cr)
		}
		if len(trip.mounts.nodes) != 0 || trip.inUse.message != "" {
			t.Errorf("%s: the removal leaves %q and %q", state, trip.mounts.nodes, trip.inUse.message)
		}
	}
}

// Jobs can come for ever, and a node can be silent for ever.
func TestObjectsThatComeAndGoDoNotProlongTheWaitForNodes(t *testing.T) {
	trip := newTrip(t, disk(), csiDriver(), infrastructure())
	now := trip.Now()
	trip.Now = func() time.Time { return now }
	trip.Mounted = reporting(nil, []string{"dark"}, nil)
	released := releasedVolume()
	cr, _ := healthy()
	free := slices.Clone(trip.cluster.Objects)
	holds := func(want string, objects ...client.Object) {
		t.Helper()
		trip.cluster.Objects = append(slices.Clone(free), objects...)
		held, err := trip.holdsRemoval(t.Context(), cr)
		if err != nil || !strings.HasPrefix(held.message, want) || (want == "") != (held.message == "") {
			t.Errorf("it is held by %q, want %q; %v", held.message, want, err)
		}
		now = now.Add(unknownWait / 2)
	}
	holds("Removal waits for 2m0s")
	holds("Removal is blocked", released)
	holds("")
	// After hours, other mounts can be there.
	now = now.Add(time.Hour)
	holds("Removal waits for 2m0s")
	holds("Removal waits for 2m0s")
	holds("")
}

// Each wait for an answer is a whole one.
func TestARemovalWaitsAgainAfterAnAnswer(t *testing.T) {
	trip := newTrip(t, disk(), csiDriver(), infrastructure())
	now := trip.Now()
	trip.Now = func() time.Time { return now }
	trip.Mounted = reporting(nil, nil, errors.New("no route"))
	cr, _ := healthy()
	if held := trip.heldByMounts(t.Context(), cr); held.message == "" {
		t.Error("an unknown state does not hold the removal")
	}
	trip.Mounted = reporting(nil, nil, nil)
	if held := trip.heldByMounts(t.Context(), cr); held.message != "" {
		t.Errorf("without mounts, it is held by %q", held.message)
	}
	now = now.Add(unknownWait)
	trip.Mounted = reporting(nil, nil, errors.New("no route"))
	if held := trip.heldByMounts(t.Context(), cr); held.message == "" {
		t.Error("the wait of an earlier request counts")
	}
}

// Objects can block a removal again after nodes have reported mounts. The message then names these nodes, too, for an operator that restarts
// meanwhile.
func TestARemovalThatObjectsBlockForgetsNoMounts(t *testing.T) {
	pod, user := &corev1.Pod{}, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-used"}}
	user.Spec.CSI, user.Status.Phase = &corev1.CSIPersistentVolumeSource{Driver: diskName}, corev1.VolumeBound
	user.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data"}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "shop", "web", "c"
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	for name, objects := range map[string][]client.Object{"1 pods use volumes": {pod, user}, "only the driver can": {releasedVolume()}} {
		t.Run(name, func(t *testing.T) {
			cr, _ := healthy()
			cr.Spec.ManagementState = operatorv1.Unmanaged
			// holds lets a new process of the operator check once.
			holds := func(objects ...client.Object) string {
				trip := newTrip(t, disk(), append(workers(), append(objects, csiDriver(), infrastructure())...)...)
				trip.Mounted = reporting(nil, []string{"a", "b", "c"}, errors.New("no route"))
				said := trip.remove(t.Context(), cr, trip.found(t)).removal.inUse
				cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("DiskDriverNodeServiceControllerProgressing", true, inUseReason, said)}
				return said
			}
			if said := holds(objects...); !strings.Contains(said, name) || strings.Contains(said, "nodes have mounts") {
				t.Errorf("without mounts, it is held by %q", said)
			}
			cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("DiskDriverNodeServiceControllerProgressing", true, inUseReason,
				heldByNodes(cr, []string{"a", "b", "left"}, "").message)}
			for range 2 {
				if said := holds(objects...); !strings.Contains(said, name) || !strings.HasSuffix(said, ". Also, 2 nodes have mounts of the driver that no pod uses: a, b") {
					t.Errorf("it is held by %q", said)
				}
			}
			if said := holds(); !strings.HasPrefix(said, "Removal is blocked: 2 nodes have mounts of the driver that no pod uses: a, b. The kubelet") {
				t.Errorf("without objects, it is held by %q", said)
			}
		})
	}
}

// The last report of a node can be older than a mount of the pod that was last there.
func TestARemovalWaitsForReportsThatAreYoungerThanTheLastObject(t *testing.T) {
	trip := newTrip(t, disk(), append(workers(), csiDriver(), infrastructure())...)
	now := trip.Now()
	trip.Now = func() time.Time { return now }
	cr, _ := healthy()
	cr.Spec.ManagementState = operatorv1.Unmanaged
	free := slices.Clone(trip.cluster.Objects)
	holds := func(want string, mounted []string, objects ...client.Object) {
		t.Helper()
		trip.cluster.Objects = append(slices.Clone(free), objects...)
		trip.Mounted = reporting(mounted, nil, nil)
		held, err := trip.holdsRemoval(t.Context(), cr)
		if err != nil || !strings.Contains(held.message, want) || (want == "") != (held.message == "") {
			t.Errorf("it is held by %q, want %q; %v", held.message, want, err)
		}
		now = now.Add(unknownWait / 2)
	}
	const old = "It is unknown whether nodes have mounts of the driver: their reports may be older than the pods and objects that blocked the removal"
	holds("", nil)
	holds("only the driver can", nil, releasedVolume())
	now = now.Add(time.Hour)
	holds(old, nil)
	holds(old, nil)
	holds("", nil)
	// Objects that come and go do not prolong the wait.
	holds("only the driver can", nil, releasedVolume())
	holds(old, nil)
	holds("only the driver can", nil, releasedVolume())
	holds("", nil)
	holds("", nil)
	// A report of mounts counts at once, and says nothing about age.
	holds("only the driver can", nil, releasedVolume())
	holds("no pod uses: a. The kubelet", []string{"a"})
	holds(old, nil)
	holds("", nil)
	// A restarted operator does not know when the last object went.
	cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("DiskDriverNodeServiceControllerProgressing", true, inUseReason, "Removal is blocked: 1 pods")}
	trip.mounts = mounts{}
	holds(old, nil)
	holds(old, nil)
	holds("", nil)
}
