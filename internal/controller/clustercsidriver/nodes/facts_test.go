package nodes

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// plugin is a node pod as the cluster has it.
func plugin(node, account string, ready bool) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-node-" + node, Labels: map[string]string{"app": "efs-csi-node"}}}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = node, account
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func byNode(users []volume.User) map[string][]string {
	found := map[string][]string{}
	for _, user := range users {
		found[user.Node] = append(found[user.Node], user.Pod)
	}
	return found
}

// migrationOf is the plan of a migration to a DaemonSet.
func migrationOf(pods []corev1.Pod, daemonSet *appsv1.DaemonSet, users ...volume.User) Plan {
	seen := facts{
		Rules: Rules{Desired: len(pods), Migrates: true}, pods: pods, users: byNode(users),
		isOld: driver.Driver{DaemonSet: "efs-csi-node", Prefix: "p"}.IsOld,
	}
	var before state
	seen.outdated, before.proven = ofEarlierTemplates(pods, daemonSet, seen.isOld)
	_, plan := step(before, seen)
	return plan
}

func TestWhichNodePodsAreReplacedNext(t *testing.T) {
	const old, ours = "efs-csi-sa", "aws-efs-csi-driver-node-sa"
	now := metav1.Now()
	d := driver.Driver{
		DaemonSet: "efs-csi-node", Prefix: "aws-efs-csi-driver", Predecessors: []driver.Predecessor{{DaemonSet: "aws-efs-csi-driver-node"}},
	}
	cases := map[string]struct {
		nodes    int
		change   func(number int, pod *corev1.Pod)
		users    []volume.User
		healths  map[string]health
		accepted bool
		want     []string
		stalled  bool
	}{
		"a tenth at a time":      {nodes: 30, want: []string{"n00", "n01", "n02"}},
		"not more than a tenth":  {nodes: 29, want: []string{"n00", "n01"}},
		"one if there are a few": {nodes: 6, want: []string{"n00"}},
		"not where a pod uses a volume": {
			nodes: 20, users: []volume.User{{Pod: "a/x", Node: "n00"}, {Pod: "a/y", Node: "n02"}, {Pod: "a/z"}}, want: []string{"n01", "n03"},
		},
		"where a pod uses a volume, last, if that is accepted": {
			nodes: 2, users: []volume.User{{Pod: "a/x", Node: "n00"}}, accepted: true, want: []string{"n01"},
		},
		"where a pod uses a volume, if that is accepted": {
			nodes: 10, users: []volume.User{{Pod: "a/x", Node: "n00"}}, accepted: true, want: []string{"n00"},
			change: func(number int, pod *corev1.Pod) {
				if number > 0 {
					*pod = plugin(pod.Spec.NodeName, ours, true)
				}
			},
		},
		"none while others are on their way": {
			nodes: 20, stalled: true,
			change: func(number int, pod *corev1.Pod) {
				switch number {
				case 3:
					pod.DeletionTimestamp = &now
				case 7:
					*pod = plugin(pod.Spec.NodeName, ours, false)
				}
			},
		},
		"one while another is on its way": {
			nodes: 20, want: []string{"n00"},
			change: func(number int, pod *corev1.Pod) {
				if number == 7 {
					*pod = plugin(pod.Spec.NodeName, ours, false)
				}
			},
		},
		"broken ones first, however many there are": {
			nodes: 20, want: []string{"n10", "n11"},
			change: func(number int, pod *corev1.Pod) {
				if number >= 10 {
					*pod = plugin(pod.Spec.NodeName, old, false)
				}
			},
		},
		"not on nodes that are down, which hold up nothing": {
			nodes: 21, want: []string{"n01", "n02"}, healths: map[string]health{"n00": down},
			change: func(number int, pod *corev1.Pod) {
				if number == 0 {
					*pod = plugin(pod.Spec.NodeName, old, false)
				}
			},
		},
		"those of another name": {
			nodes: 10, want: []string{"n04"},
			change: func(number int, pod *corev1.Pod) {
				*pod = plugin(pod.Spec.NodeName, ours, true)
				if number == 4 {
					pod.Labels["app"] = "aws-efs-csi-driver-node"
				}
			},
		},
		"none that has no node": {
			nodes: 20, want: []string{"n01"}, change: func(number int, pod *corev1.Pod) {
				if number == 0 {
					pod.Spec.NodeName = ""
				}
			},
		},
		"none of ours": {
			nodes: 10, change: func(_ int, pod *corev1.Pod) { pod.Spec.ServiceAccountName = ours },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for number := range tc.nodes {
				pod := plugin(fmt.Sprintf("n%02d", number), old, true)
				if tc.change != nil {
					tc.change(number, &pod)
				}
				pods = append(pods, pod)
			}
			_, plan := step(state{proven: true}, facts{
				Rules: Rules{Desired: tc.nodes, Migrates: true, Now: tc.accepted},
				pods:  pods, users: byNode(tc.users), healths: tc.healths, isOld: d.IsOld,
			})
			if diff := cmp.Diff(tc.want, plan.Next()); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
			if stalled := plan.IsStalled(); stalled != tc.stalled {
				t.Errorf("stalled is %v", stalled)
			}
		})
	}
}

// Nobody else replaces our pods while those of a predecessor wait. Those in use wait for the end of the migration.
func TestOutdatedPodsOfOursAreReplacedLast(t *testing.T) {
	yes := true
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		UID: "a", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "3"},
	}}
	made := func(node, generation string) corev1.Pod {
		pod := plugin(node, "p-node-sa", true)
		pod.Labels["pod-template-generation"] = generation
		pod.OwnerReferences = []metav1.OwnerReference{{UID: "a", Controller: &yes}}
		return pod
	}
	pods := []corev1.Pod{made("a", "2"), made("b", "3"), plugin("c", "old", true), plugin("d", "old", true)}
	plan := migrationOf(pods, daemonSet, volume.User{Pod: "x/y", Node: "a"}, volume.User{Pod: "x/z", Node: "c"})
	if diff := cmp.Diff([]string{"d"}, plan.Next()); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
	plan.Nodes["d"].Old = nil
	if next := plan.Next(); len(next) > 0 {
		t.Errorf("when only those in use are left: %v", next)
	}
	plan.Nodes["a"].Users = nil
	if diff := cmp.Diff([]string{"a"}, plan.Next()); diff != "" {
		t.Errorf("when nobody uses it any more (-want +got):\n%s", diff)
	}
}

// A template that works nowhere must cost one node its plugin, however many there are.
func TestAMigrationTriesTheNewPodOnOneNode(t *testing.T) {
	yes := true
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}}}
	made := func(node, generation string, ready bool) corev1.Pod {
		pod := plugin(node, "p-node-sa", ready)
		pod.Labels["pod-template-generation"] = generation
		pod.OwnerReferences = []metav1.OwnerReference{{UID: "a", Controller: &yes}}
		return pod
	}
	for name, tc := range map[string]struct {
		pods    []corev1.Pod
		want    []string
		stalled bool
	}{
		"none yet": {nil, []string{"n00"}, false},
		"no more without one than before": {
			[]corev1.Pod{plugin("a", "old", false), made("b", "2", false), plugin("c", "old", false)}, []string{"a"}, false,
		},
		"it starts":                    {[]corev1.Pod{made("new", "3", false)}, nil, true},
		"it works":                     {[]corev1.Pod{made("new", "3", true)}, []string{"n00", "n01", "n02"}, false},
		"only an earlier version does": {[]corev1.Pod{made("new", "2", true)}, []string{"n00"}, false},
		"it has failed, and is mended": {[]corev1.Pod{made("new", "2", false)}, []string{"n00"}, false},
		"one that does not work is not the first to be tried": {[]corev1.Pod{plugin("a", "old", false)}, []string{"n00"}, false},
	} {
		pods := tc.pods
		for number := range 30 - len(tc.pods) {
			pods = append(pods, plugin(fmt.Sprintf("n%02d", number), "old", true))
		}
		plan := migrationOf(pods, daemonSet)
		if diff := cmp.Diff(tc.want, plan.Next()); diff != "" {
			t.Errorf("%s: next (-want +got):\n%s", name, diff)
		}
		if plan.IsStalled() != tc.stalled {
			t.Errorf("%s: stalled is %v", name, !tc.stalled)
		}
	}
}
