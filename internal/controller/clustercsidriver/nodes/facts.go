package nodes

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// facts are what was seen of the node pods of a driver at one moment, and the rules.
type facts struct {
	Rules
	now    time.Time
	driver string
	// complete means that Kubernetes says that all nodes that are wanted have a pod.
	complete bool

	pods []corev1.Pod
	// isOld reports whether a predecessor made a pod; only in a migration.
	isOld func(*corev1.Pod) bool
	// outdated are those of the pods, by node, that an earlier template made. Templates are those that the DaemonSet had, by their hashes.
	outdated  map[string]*corev1.Pod
	templates map[string]string
	// healths are those of nodes whose pod does not serve.
	healths map[string]health
	// users are the pods that use volumes, by node.
	users    map[string][]string
	cordoned map[string]bool
	// registered are the nodes whose kubelet knows the driver, among those where the newest template is tried.
	registered map[string]bool
	// looked are the pods that use volumes on nodes whose pod was replaced, where it is time to look at them.
	looked map[string][]corev1.Pod
}

// health is what becomes of a node pod that is deleted.
type health int

const (
	// up means that the pod ends, and another one comes.
	up health = iota
	// down means that the node is not ready: the pod does not end, and another one does not start.
	down
	// departed means that the cluster has no such node: Kubernetes deletes the pod, and makes no other. The DaemonSet does not count such a node,
	// and its pods are deleted after 40 to 80 seconds (Kubernetes v1.36, pkg/controller/podgc/gc_controller.go).
	departed
)

// Wanted is how many nodes are to have a pod of a DaemonSet, or have one although they are to have none: a node that got a taint keeps its pod,
// which must not stand for the pod that another node lacks.
func Wanted(daemonSet *appsv1.DaemonSet) int {
	return int(daemonSet.Status.DesiredNumberScheduled + daemonSet.Status.NumberMisscheduled)
}

// Serves reports whether a plugin works for its node.
func Serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && status.PodProblem(pod) == ""
}

// plan sorts the pods by their nodes.
func (f facts) plan() Plan {
	plan := Plan{Rules: f.Rules, Nodes: map[string]*Node{}}
	for node, users := range f.users {
		plan.at(node).Users = users
	}
	for node := range f.cordoned {
		plan.at(node).Cordoned = true
	}
	works := map[string]bool{}
	for i := range f.pods {
		if Serves(&f.pods[i]) {
			works[f.pods[i].Labels[templateLabel]] = true
		}
	}
	for i := range f.pods {
		switch pod := &f.pods[i]; {
		case pod.Spec.NodeName == "":
			f.placeUnscheduled(&plan, pod)
		case f.healths[pod.Spec.NodeName] != departed:
			f.place(&plan, pod, works)
		}
	}
	for _, node := range plan.Nodes {
		if node.Serves {
			node.Problem, node.Slow, node.Faulty, node.Recent = "", false, false, false
		}
	}
	return plan
}

// placeUnscheduled puts a pod that has no node yet.
func (f facts) placeUnscheduled(plan *Plan, pod *corev1.Pod) {
	switch {
	case !plan.Migrates || !f.isOld(pod):
		plan.at(intended(pod)).Problem = status.PodProblem(pod)
	case pod.DeletionTimestamp == nil:
		plan.Unscheduled = append(plan.Unscheduled, *pod)
	}
}

// place puts a pod to its node. The templates that work serve a node.
func (f facts) place(plan *Plan, pod *corev1.Pod, works map[string]bool) {
	name, leaves := pod.Spec.NodeName, pod.DeletionTimestamp != nil
	node := plan.at(name)
	if f.outdated[name] == pod && !leaves {
		node.Outdated, node.Losing = pod, f.loses(pod)
	}
	if f.healths[name] == down {
		node.Down = true
		return
	}
	node.Occupied, node.Serves = true, node.Serves || Serves(pod)
	if node.Problem = status.PodProblem(pod); leaves {
		node.Problem = "Terminating"
	}
	switch {
	case plan.Migrates:
		if !leaves && f.isOld(pod) {
			node.Old = pod
		}
	case node.Outdated == pod:
		node.Faulty = !works[pod.Labels[templateLabel]]
		node.Recent = node.InUse() && f.now.Sub(readinessSince(pod)) < brokenAfter
	default:
		node.Slow = !leaves && f.now.Sub(pod.CreationTimestamp.Time) >= slowAfter
	}
}

// loses tells whether the template of a pod reads the Secret that is withdrawn: it has its hash.
func (f facts) loses(pod *corev1.Pod) bool {
	template := f.templates[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]
	return f.Withdrawn != "" && strings.Contains(template, fmt.Sprintf("%q", driver.DependencyHashAnnotation+f.Withdrawn))
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

// readinessSince is since when a pod is ready, or since when it is not.
func readinessSince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
