package survey

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Excludes says why the DaemonSet of a driver makes no node pod for a node: because of a taint, or because of a node selector. If the DaemonSet makes
// a node pod there, or if the driver has no DaemonSet, the result is empty (Kubernetes v1.36.3, pkg/controller/daemon/daemon_controller.go,
// NodeShouldRunDaemonPod).
func (d Driver) Excludes(node *corev1.Node) string {
	if d.Nodes == nil {
		return ""
	}
	pods := &d.Nodes.Spec.Template.Spec
	for _, key := range slices.Sorted(maps.Keys(pods.NodeSelector)) {
		if node.Labels[key] != pods.NodeSelector[key] {
			return fmt.Sprintf("node selector %s=%s", key, pods.NodeSelector[key])
		}
	}
	if !Allows(pods, node) {
		return "node affinity"
	}
	if taint := d.Repels(node); taint != "" {
		return "taint " + taint
	}
	return ""
}

// Repels returns a taint of a node that the driver's node pods do not tolerate. If the node has no such taint, the result is empty.
func (d Driver) Repels(node *corev1.Node) string {
	if d.Nodes == nil {
		return ""
	}
	tolerations := append(ofDaemonSets(), d.Nodes.Spec.Template.Spec.Tolerations...)
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if !Tolerate(tolerations, taint) && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return taint.ToString()
		}
	}
	return ""
}

// ofDaemonSets returns the tolerations that Kubernetes adds to the pods of each DaemonSet (Kubernetes v1.36.3,
// pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations).
func ofDaemonSets() []corev1.Toleration {
	var all []corev1.Toleration
	for effect, keys := range map[corev1.TaintEffect][]string{
		corev1.TaintEffectNoExecute: {corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable},
		corev1.TaintEffectNoSchedule: {
			corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
			corev1.TaintNodeNetworkUnavailable,
		},
	} {
		for _, key := range keys {
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
		}
	}
	return all
}

// Tolerate reports whether one of the tolerations tolerates a taint.
func Tolerate(all []corev1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(all, func(one corev1.Toleration) bool { return tolerates(one, taint) })
}

// tolerates reports whether a toleration is for a taint.
func tolerates(one corev1.Toleration, taint *corev1.Taint) bool {
	if one.Effect != "" && one.Effect != taint.Effect || one.Key != "" && one.Key != taint.Key {
		return false
	}
	return one.Operator == corev1.TolerationOpExists || one.Key != "" && one.Value == taint.Value
}

// Allows reports whether the node selector and the required node affinity of a pod match a node.
func Allows(pod *corev1.PodSpec, node *corev1.Node) bool {
	for key, value := range pod.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return Selects(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node)
}

// Selects reports whether a node affinity matches a node. A term without requirements matches no node (Kubernetes v1.36,
// component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go, isEmptyNodeSelectorTerm). In matchFields, Kubernetes supports only the name of
// the node.
func Selects(wanted *corev1.NodeSelector, node *corev1.Node) bool {
	return slices.ContainsFunc(wanted.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchExpressions)+len(term.MatchFields) > 0 && meets(term.MatchExpressions, node.Labels) &&
			meets(term.MatchFields, map[string]string{"metadata.name": node.Name})
	})
}

// meets reports whether the labels or fields in argument "has" meet all requirements. It ignores requirements that it can't read.
func meets(wanted []corev1.NodeSelectorRequirement, has map[string]string) bool {
	return !slices.ContainsFunc(wanted, func(one corev1.NodeSelectorRequirement) bool {
		operator := map[corev1.NodeSelectorOperator]selection.Operator{
			corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
			corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
			corev1.NodeSelectorOpLt: selection.LessThan,
		}[one.Operator]
		requirement, err := labels.NewRequirement(one.Key, operator, one.Values)
		return err == nil && !requirement.Matches(labels.Set(has))
	})
}
