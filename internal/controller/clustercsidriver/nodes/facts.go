package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// facts are the input of plan: the node pods of a driver, and the Rules for replacing them.
type facts struct {
	Rules
	now    time.Time
	driver string
	// complete is true if all desired nodes have a pod, according to the DaemonSet's status.
	complete bool

	pods []corev1.Pod
	// isOld reports whether a predecessor made a pod. It is set only in a migration.
	isOld func(*corev1.Pod) bool
	// outdated has the pods of earlier templates, by node. templates has the text of each template of the DaemonSet, by the hash of the template.
	outdated  map[string]*corev1.Pod
	templates map[string]string
	// healths has the health of nodes whose pod does not serve.
	healths map[string]health
	// users are the pods that use volumes, by node. refused are the users that have mounted a volume that the new driver refuses.
	users, refused map[string][]string
	cordoned       map[string]bool
	// hanging is the number of mounts that are known to hang, by node. More mounts may hang. A node for which this number is unknown is absent.
	hanging map[string]int
	// silent are the nodes without a recent report. They are known only with a recent answer about the other nodes.
	silent []string
	// registered has at most one node. The kubelet of this node has registered the driver, and the node has a pod of the newest template.
	registered map[string]bool
	// newImages maps the hash of each template to the images of the newest template that this template lacks. pulls maps each node to the pod that pulls
	// these images there.
	newImages map[string][]string
	pulls     map[string]*corev1.Pod
	// looked maps a replaced node whose check is due to the pods that use volumes on this node.
	looked map[string][]corev1.Pod
}

// health says what Kubernetes does when the operator deletes the pod of a node.
type health int

const (
	// up means that the pod terminates, and a new pod starts.
	up health = iota
	// down means that the node is not ready. The pod does not terminate, and no new pod starts.
	down
	// departed means that the Node object is deleted. Kubernetes deletes the node's pod after 40 to 80 seconds (Kubernetes v1.36,
	// pkg/controller/podgc/gc_controller.go), and creates no new pod. The DaemonSet does not count the node.
	departed
)

// Wanted returns the number of nodes that should have a pod of a DaemonSet, plus the number of nodes with an unwanted pod. A tainted node keeps its
// unwanted pod, which a Plan counts like every other pod. If Wanted left out this node, the unwanted pod would hide that another node lacks its pod.
func Wanted(daemonSet *appsv1.DaemonSet) int {
	return int(daemonSet.Status.DesiredNumberScheduled + daemonSet.Status.NumberMisscheduled)
}

// Serves reports whether a node pod is ready and has no deletionTimestamp.
func Serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" && status.PodProblem(pod) == ""
}

// plan builds the Plan from the facts.
func (f facts) plan() Plan {
	plan := Plan{Rules: f.Rules, Nodes: map[string]*Node{}}
	for node, users := range f.users {
		plan.at(node).Users = users
	}
	for node, users := range f.refused {
		plan.at(node).Refused = users
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
	for name, node := range plan.Nodes {
		node.Hanging, node.Silent = f.hanging[name], slices.Contains(f.silent, name)
		if node.Serves {
			node.Problem, node.Slow, node.Faulty, node.Recent = "", false, false, false
		}
	}
	return plan
}

// placeUnscheduled adds a pod without a node to the plan.
func (f facts) placeUnscheduled(plan *Plan, pod *corev1.Pod) {
	switch {
	case !plan.Migrates || !f.isOld(pod):
		plan.at(intended(pod)).Problem = status.PodProblem(pod)
	case pod.DeletionTimestamp == nil:
		plan.Unscheduled = append(plan.Unscheduled, *pod)
	}
}

// place adds a pod to its node. Argument "works" has the number of each template of which at least one pod serves.
func (f facts) place(plan *Plan, pod *corev1.Pod, works map[string]bool) {
	name, leaves := pod.Spec.NodeName, pod.DeletionTimestamp != nil
	node := plan.at(name)
	if f.outdated[name] == pod && !leaves {
		node.Outdated, node.Losing, node.NewImages = pod, f.loses(pod), f.lacks(pod)
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

// lacks returns the images of the newest template that the template of a pod lacks.
func (f facts) lacks(pod *corev1.Pod) []string {
	if images, known := f.newImages[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]; known {
		return images
	}
	return f.newImages[""]
}

// loses reports whether the template of a pod has a hash annotation for the withdrawn Secret. The operator must replace such a pod.
func (f facts) loses(pod *corev1.Pod) bool {
	template := f.templates[pod.Labels[appsv1.ControllerRevisionHashLabelKey]]
	return f.Withdrawn != "" && strings.Contains(template, fmt.Sprintf("%q", driver.DependencyHashAnnotation+f.Withdrawn))
}

// intended returns the target node of an unscheduled DaemonSet pod.
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

// readinessSince returns when a pod last became ready or unready.
func readinessSince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
