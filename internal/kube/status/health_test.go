package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOn is a pod that is not ready; change says why.
func podOn(node string, change func(*corev1.PodStatus)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + node}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if change != nil {
		change(&pod.Status)
	}
	return pod
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func TestUnreadyPodsAreNamedWithTheirNodeAndReason(t *testing.T) {
	leaving := podOn("node-5", nil)
	leaving.DeletionTimestamp = &metav1.Time{}
	pods := []corev1.Pod{
		podOn("node-7", func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{{}, waiting("ImagePullBackOff")}
		}),
		podOn("node-1", func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionTrue }),
		podOn("node-2", func(s *corev1.PodStatus) { s.Reason = "Evicted" }),
		podOn("node-3", func(s *corev1.PodStatus) {
			s.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
			}}}
			s.ContainerStatuses = []corev1.ContainerStatus{waiting("PodInitializing")}
		}),
		podOn("", func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		}),
		podOn("node-4", nil),
		leaving,
	}
	want := []string{"node-2 (Evicted)", "node-3 (Error)", "node-4 (NotReady)", "node-7 (ImagePullBackOff)", "pod- (Unschedulable)"}
	if diff := cmp.Diff(want, Unready(pods)); diff != "" {
		t.Errorf("unready (-want +got):\n%s", diff)
	}
}

func TestAMessageNamesFiveNodesAndCountsTheOthers(t *testing.T) {
	var unready []string
	for i := range 7 {
		unready = append(unready, fmt.Sprintf("node-%d (CrashLoopBackOff)", i))
	}
	daemonSet := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 240, NumberAvailable: 233, UpdatedNumberScheduled: 240}}
	conditions, _ := DaemonSet("X", daemonSet, -1, unready)
	want := "7 of 240 nodes not ready: node-0 (CrashLoopBackOff), node-1 (CrashLoopBackOff), node-2 (CrashLoopBackOff), " +
		"node-3 (CrashLoopBackOff), node-4 (CrashLoopBackOff) and 2 more"
	for _, condition := range conditions {
		if condition.Message != want {
			t.Errorf("%s: %s", condition.Type, condition.Message)
		}
	}
	if conditions[0].Status != operatorv1.ConditionTrue {
		t.Errorf("233 nodes are well: %v", conditions[0])
	}
	deployment := &appsv1.Deployment{Status: appsv1.DeploymentStatus{UpdatedReplicas: 1}}
	conditions = Deployment("X", deployment, []string{"node-1 (ImagePullBackOff)"})
	if got := conditions[0].Message; !strings.HasPrefix(got, "1 of 1 controller pods not ready: node-1 (ImagePullBackOff); look at") {
		t.Errorf("controller: %s", got)
	}
}

func TestARolloutIsStuckAfterFifteenMinutesWithoutProgress(t *testing.T) {
	now := time.Unix(0, 0)
	rollouts := &Rollouts{Now: func() time.Time { return now }}
	steps := []struct {
		name                    string
		after                   time.Duration
		underWay                bool
		generation, total, done int64
		stuck                   bool
		again                   time.Duration
	}{
		{"it begins", 0, true, 1, 9, 0, false, StuckAfter},
		{"a pod is done", 10 * time.Minute, true, 1, 9, 1, false, StuckAfter},
		{"the pod fails and starts in turns", 10 * time.Minute, true, 1, 9, 0, false, 5 * time.Minute},
		{"still no more than one", 5 * time.Minute, true, 1, 9, 1, true, 0},
		{"it goes on", time.Minute, true, 1, 9, 2, false, StuckAfter},
		{"a new version", 14 * time.Minute, true, 2, 9, 0, false, StuckAfter},
		{"most are done", time.Minute, true, 2, 9, 6, false, StuckAfter},
		{"nodes leave", 10 * time.Minute, true, 2, 3, 1, false, 5 * time.Minute},
		{"it goes on with the others", 4 * time.Minute, true, 2, 3, 2, false, StuckAfter},
		{"a node joins", 10 * time.Minute, true, 2, 4, 2, false, 5 * time.Minute},
		{"it stands still", 5 * time.Minute, true, 2, 4, 2, true, 0},
		{"done", time.Minute, false, 2, 4, 4, false, 0},
		{"the next one starts anew", time.Hour, true, 3, 4, 0, false, StuckAfter},
	}
	for _, step := range steps {
		now = now.Add(step.after)
		stuck, again := rollouts.Stuck("nodes", step.underWay, Work{Generation: step.generation, Total: step.total, Done: step.done})
		if stuck != step.stuck || again != step.again {
			t.Errorf("%s: stuck %v, look again after %s; want %v after %s", step.name, stuck, again, step.stuck, step.again)
		}
	}
}

func TestAPodFailsIfItIsOldEnoughToBeReady(t *testing.T) {
	now := time.Unix(0, 0).Add(time.Hour)
	pod := func(age time.Duration, ready corev1.ConditionStatus) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return pod
	}
	ending := pod(StuckAfter, corev1.ConditionFalse)
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"no pod":                {nil, false},
		"an old pod":            {[]corev1.Pod{pod(StuckAfter, corev1.ConditionTrue), pod(StuckAfter, corev1.ConditionFalse)}, true},
		"a new pod":             {[]corev1.Pod{pod(StuckAfter-time.Second, corev1.ConditionFalse)}, false},
		"a pod that terminates": {[]corev1.Pod{ending}, false},
	} {
		if got := Failing(tc.pods, now); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
