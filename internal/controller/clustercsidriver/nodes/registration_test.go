package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/kube/informer"
)

// silent is a queue of a controller that does not run.
type silent struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (silent) AddAfter(reconcile.Request, time.Duration) {}

// A kubelet that has not registered the driver is noticed by pods that hang, unless the operator says so. It gets two minutes: it tries again later
// and later.
func TestANodeThatHasNotRegisteredTheDriverIsNamed(t *testing.T) {
	now := time.Unix(10_000, 0)
	ready := func(node string, since time.Duration, change func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since))},
		}}}
		if change != nil {
			change(&pod)
		}
		return pod
	}
	csiNode := func(name string, drivers ...string) *storagev1.CSINode {
		found := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, one := range drivers {
			found.Spec.Drivers = append(found.Spec.Drivers, storagev1.CSINodeDriver{Name: one})
		}
		return found
	}
	for name, tc := range map[string]struct {
		pod   corev1.Pod
		named bool
		after time.Duration
	}{
		"registered":                     {pod: ready("there", time.Hour, nil)},
		"another driver is registered":   {pod: ready("other", time.Hour, nil), named: true},
		"no CSINode":                     {pod: ready("none", time.Hour, nil), named: true},
		"after two minutes":              {pod: ready("none", 2*time.Minute, nil), named: true},
		"the kubelet has not tried long": {pod: ready("none", 90*time.Second, nil), after: 30 * time.Second},
		"its pod does not serve":         {pod: ready("none", time.Hour, func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse })},
		"its pod goes":                   {pod: ready("none", time.Hour, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now)) })},
		"its pod waits for a node":       {pod: ready("", time.Hour, nil)},
	} {
		registered := informer.CSINodes(nil, "disk.csi.example.com", reconcile.Request{})
		u := &Updater{Driver: "disk.csi.example.com", Now: func() time.Time { return now }, Registered: registered}
		registered.Queue = &silent{}
		if err := registered.Replace([]any{csiNode("there", "x", "disk.csi.example.com"), csiNode("other", "x")}, "1"); err != nil {
			t.Fatal(err)
		}
		// As with each ClusterCSIDriver that goes.
		u.Reset()
		problem, after := u.Unregistered([]corev1.Pod{tc.pod})
		if named := strings.Contains(problem, "disk.csi.example.com") && strings.Contains(problem, "can't start on "+tc.pod.Spec.NodeName+":"); named != tc.named || after != tc.after {
			t.Errorf("%s: %q, looks again after %s; want named %t, %s", name, problem, after, tc.named, tc.after)
		}
	}
	if problem, after := (&Updater{}).Unregistered([]corev1.Pod{ready("none", time.Hour, nil)}); problem != "" || after != 0 {
		t.Errorf("nobody follows CSINodes: %q, %s", problem, after)
	}
}
