package doctor

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Whoever asks about a Bound claim, its volume, its share, the node or the whole cluster, learns why a pod can't mount the volume.
func TestAPodThatCannotMountBelongsToTheAnswerAboutItsVolume(t *testing.T) {
	for _, args := range [][]string{{"pvc", "data"}, {"pv", "pv-data"}, {"sv", "sv1"}, {"node", "a"}, {}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := open(t)
			s.share("Ready", is("Ready", "True", "Bound", ""), is("Mountable", "True", "Regional", ""))
			change(s, "sv1", func(one *v1alpha1.SharedVolume) { one.Status.ClaimRef.Name, one.Status.VolumeName = "data", "pv-data" })
			change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Status.Phase = corev1.VolumeBound })
			if text, code := s.ask(plugin.Table, args...); code != 0 {
				t.Fatalf("a healthy pod, exit %d:\n%s", code, text)
			}
			s.stuck("a", timedOut)
			text, code := s.ask(plugin.Table, args...)
			for _, want := range []string{
				"ERROR    Node a can't reach the mount target of file system fs-1234cdef.\n  object   Pod my-project/web\n",
				"Connection timed out; waiting pods: my-project/web\n",
			} {
				if code != 3 || !strings.Contains(text, want) {
					t.Errorf("exit %d, want %q:\n%s", code, want, text)
				}
			}
		})
	}
}

func TestOnlyAPodThatHasWaitedForItsVolumesIsChecked(t *testing.T) {
	pulls := []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	soon := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1950, 0)}}
	for name, tc := range map[string]struct {
		do   func(*corev1.Pod)
		code int
	}{
		"it waits":               {func(*corev1.Pod) {}, 3},
		"it has init containers": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].State.Waiting.Reason = "PodInitializing" }, 3},
		"it has just a node":     {func(pod *corev1.Pod) { pod.Status.Conditions = soon }, 0},
		"it pulls its image":     {func(pod *corev1.Pod) { pod.Status.Conditions = pulls }, 0},
		"its image is not there": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].State.Waiting.Reason = "ImagePullBackOff" }, 0},
		"it has no volume":       {func(pod *corev1.Pod) { pod.Spec.Volumes = nil }, 0},
		"it is deleted":          {func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{}, []string{"a/b"} }, 0},
		"it waits for a node":    {func(pod *corev1.Pod) { pod.Spec.NodeName = "" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{{"pvc", "data"}, {}} {
				s := open(t)
				s.stuck("a")
				change(s, "web", tc.do)
				if text, code := s.ask(plugin.Table, args...); code != tc.code {
					t.Errorf("%v: exit %d, want %d:\n%s", args, code, tc.code, text)
				}
			}
		})
	}
}

// Without a node, a pod may wait for processors. So only an error about its volumes counts.
func TestAPodWithoutANodeIsNamedIfItsVolumesAreTheCause(t *testing.T) {
	s := open(t)
	s.stuck("")
	s.add(eventOn("Pod", "web", "FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu."))
	if text, code := s.ask(plugin.Table); code != 0 {
		t.Errorf("exit %d:\n%s", code, text)
	}
	change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Spec.NodeAffinity = inZone("us-east-1d") })
	if text, code := s.ask(plugin.Table); code != 3 || !strings.Contains(text, "No node that the pod may run on is in the zone of its volumes.") {
		t.Errorf("exit %d:\n%s", code, text)
	}
}

func TestPodsOfOneCauseAreOneFindingAndTheirNumberIsBounded(t *testing.T) {
	s := open(t)
	drop[*corev1.Pod](s, "web")
	for i := range mostWaiting + 2 {
		name := fmt.Sprintf("web-%02d", i)
		made := user(name, "a", "data", false)
		made.UID = ""
		s.add(made, eventOn("Pod", name, "FailedMount", timedOut))
	}
	text, code := s.ask(plugin.Table)
	for _, want := range []string{
		"waiting pods: my-project/web-00, my-project/web-01, my-project/web-02, my-project/web-03, my-project/web-04 and 5 more\n",
		"Pods that wait for volumes, and are not checked: my-project/web-10, my-project/web-11. Run doctor for each:\n  oc storage doctor pod web-10 -n my-project\n",
		"found 1 error and 0 warnings, and none looked at 2 waiting pods.",
	} {
		if code != 3 || !strings.Contains(text, want) {
			t.Errorf("exit %d, want %q:\n%s", code, want, text)
		}
	}
	if events := strings.Count(strings.Join(s.Reads, "\n"), "list Event"); events != mostWaiting {
		t.Errorf("%d reads of events for %d pods", events, mostWaiting)
	}
}

func TestAPodOnANodeThatTheDaemonSetDoesNotSelectIsExplained(t *testing.T) {
	s := open(t)
	drop[*corev1.Pod](s, daemonSet+"-a")
	change(s, daemonSet, func(one *appsv1.DaemonSet) { one.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"} })
	s.stuck("a")
	for _, args := range [][]string{{"pod", "web"}, {"pvc", "data"}, {}} {
		text, code := s.ask(plugin.Table, args...)
		for _, want := range []string{
			"ERROR    Node a has no node pod of driver efs.csi.aws.com, because the DaemonSet does not select the node.", "said     node selector disk=fast",
		} {
			if code != 3 || !strings.Contains(text, want) {
				t.Errorf("%v: exit %d, want %q:\n%s", args, code, want, text)
			}
		}
	}
}

// A known cause of one pod says nothing about another pod.
func TestAKnownCauseOfOnePodDoesNotHideAnotherPod(t *testing.T) {
	s := open(t)
	s.stuck("a", timedOut)
	s.add(user("other", "b", "data", false), eventOn("Pod", "other", "FailedMount", "MountVolume.SetUp failed: strange"))
	change(s, "other", func(pod *corev1.Pod) { pod.UID = "" })
	text, _ := s.ask(plugin.Table)
	for _, want := range []string{"ERROR    Node a can't reach", "UNKNOWN  Kubernetes cannot mount a volume of the pod.", "strange; waiting pods: my-project/other"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// CSI migration replaces the in-tree provisioner of a class.
func TestAnUnboundClaimOfAnInTreeClassBelongsToTheDriver(t *testing.T) {
	gp2, other := "gp2", "other"
	r := &reader{facts: &facts{}}
	r.classes.items = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: gp2}, Provisioner: "kubernetes.io/aws-ebs"}}
	for class, want := range map[*string]string{&gp2: "ebs.csi.aws.com", &other: "", nil: ""} {
		if got := r.provisioner(class); got != want {
			t.Errorf("the driver is %q, want %q", got, want)
		}
	}
}
