// Package nodes replaces the node pods of a driver where nobody notices: a few nodes at a time. A node on which pods use volumes waits, unless
// an administrator accepts what they lose.
package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// Fleet is the plugins of all nodes, and who uses them.
type Fleet struct {
	// Desired is the number of nodes that are to have a plugin, or have one although they are to have none.
	Desired int
	// Old is the pod of a predecessor on a node, and Outdated one of ours that an earlier version of the DaemonSet made. Neither is
	// being deleted. Unscheduled are old pods without a node.
	Old, Outdated map[string]*corev1.Pod
	Unscheduled   []corev1.Pod
	// Unproven means that no pod of our newest template serves its node.
	Unproven bool
	// Serving are the nodes with a plugin that is ready, Occupied those with any pod of a plugin.
	Serving, Occupied map[string]bool
	// Pending are the nodes that wait for the new pod, with the reason. Down are the nodes that are not ready themselves.
	Pending []string
	Down    map[string]bool
	// Users are the pods that use volumes, by node.
	Users map[string][]string
}

// Wanted is how many nodes are to have a pod of a DaemonSet, or have one although they are to have none: a node that got a taint keeps its pod,
// which must not stand for the pod that another node lacks.
func Wanted(daemonSet *appsv1.DaemonSet) int {
	return int(daemonSet.Status.DesiredNumberScheduled + daemonSet.Status.NumberMisscheduled)
}

// newFleet sorts pods by their nodes. What is on nodes that are down is left out.
func newFleet(pods []corev1.Pod, users []volume.User, healths map[string]health, desired int, isOld func(*corev1.Pod) bool) Fleet {
	nodes := Fleet{
		Desired: desired, Down: map[string]bool{},
		Old: map[string]*corev1.Pod{}, Serving: map[string]bool{}, Occupied: map[string]bool{}, Users: map[string][]string{},
	}
	late := map[string]string{}
	for i := range pods {
		pod := &pods[i]
		if healths[pod.Spec.NodeName] == down {
			nodes.Down[pod.Spec.NodeName] = true
			continue
		}
		nodes.place(pod, isOld(pod), late)
	}
	for node, reason := range late {
		// Where an old pod is, the new one waits for that.
		if !nodes.Serving[node] && nodes.Old[node] == nil {
			nodes.Pending = append(nodes.Pending, fmt.Sprintf("%s (%s)", node, reason))
		}
	}
	slices.Sort(nodes.Pending)
	// They are sorted.
	for _, user := range users {
		nodes.Users[user.Node] = append(nodes.Users[user.Node], user.Pod)
	}
	return nodes
}

// place puts a pod to its node, and says why that waits, if it does.
func (f *Fleet) place(pod *corev1.Pod, old bool, late map[string]string) {
	node := pod.Spec.NodeName
	switch {
	case node == "" && old:
		if pod.DeletionTimestamp == nil {
			f.Unscheduled = append(f.Unscheduled, *pod)
		}
		return
	case node == "":
		late[intended(pod)] = status.PodProblem(pod)
		return
	case Serves(pod):
		f.Serving[node] = true
	case pod.DeletionTimestamp != nil:
		late[node] = "Terminating"
	case !old:
		late[node] = status.PodProblem(pod)
	}
	f.Occupied[node] = true
	if old && pod.DeletionTimestamp == nil {
		f.Old[node] = pod
	}
}

// intended is the node that a pod of a DaemonSet is for, before it is scheduled.
func intended(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Most is how many nodes may be without a plugin at a time: a tenth, or one where there are fewer than 20.
func (f Fleet) Most() int { return max(1, f.Count()/10) }

// Count is how many there are that are not down; some may have a plugin although they need none.
func (f Fleet) Count() int { return max(f.Desired-len(f.Down), len(f.Occupied)) }

// Missing is how many nodes are without a plugin that is ready.
func (f Fleet) Missing() int { return f.Count() - len(f.Serving) }

// Busy is how many of these have no pod either that could be replaced: they wait for the new one.
func (f Fleet) Busy() int {
	broken := map[string]bool{}
	for _, pods := range []map[string]*corev1.Pod{f.Old, f.Outdated} {
		for node := range pods {
			if !f.Serving[node] {
				broken[node] = true
			}
		}
	}
	return f.Missing() - len(broken)
}

// Order sorts the nodes with an old pod: those in use last, and before them the broken ones first, as nobody loses anything
// there.
func (f Fleet) Order() []string {
	rank := func(node string) string { return fmt.Sprint(len(f.Users[node]) > 0, f.Serving[node], node) }
	return slices.SortedFunc(maps.Keys(f.Old), func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
}

// Next are the nodes whose pod is to be deleted now, those in use only if that is accepted: their mounts stall or hang meanwhile. Pods of ours
// that are outdated come after all others. A template that has worked nowhere is tried on one node.
func (f Fleet) Next(accepted bool) []string {
	waiting := slices.DeleteFunc(append(f.Order(), slices.Sorted(maps.Keys(f.Outdated))...), func(node string) bool {
		return len(f.Users[node]) > 0 && !accepted
	})
	if f.Unproven {
		return f.canary(waiting)
	}
	var chosen []string
	busy, missing := f.Busy(), f.Missing()
	for _, node := range waiting {
		if busy >= f.Most() || (f.Serving[node] && missing >= f.Most()) {
			continue
		}
		chosen = append(chosen, node)
		busy++
		if f.Serving[node] {
			missing++
		}
	}
	return chosen
}

// canary is the node on which our newest template is tried. One whose plugin works comes first: with others, the node may be at fault.
func (f Fleet) canary(waiting []string) []string {
	if f.IsStalled() {
		return nil
	}
	for _, serving := range []bool{f.Missing() < f.Most(), false} {
		if found := slices.IndexFunc(waiting, func(node string) bool { return f.Serving[node] == serving }); found >= 0 {
			return waiting[found : found+1]
		}
	}
	return nil
}

// IsStalled tells whether nothing more may be replaced before new pods serve.
func (f Fleet) IsStalled() bool {
	if f.Unproven {
		return f.Busy() > 0
	}
	return f.Busy() >= f.Most()
}

// Serves reports whether a plugin works for its node.
func Serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && status.PodProblem(pod) == ""
}
