package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// mostWaits limits the number of nodes for which doctor says why they can't run a pod. All nodes often have the same problem.
const mostWaits = 3

// startupSuffix is the end of the keys of all startup taints. For most drivers, the key ends in agent-not-ready, and for GCP PD in not-ready.
const startupSuffix = "not-ready"

// podScheduling finds nodes that could run a pod if they had the driver of its volumes. doctor knows this from a message of the scheduler (Kubernetes
// v1.36.3, pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, Filter), or from the driver's startup taint on the node.
func podScheduling(f *facts) []Finding {
	s := f.subject
	if s == nil || s.pod == nil || s.pod.Spec.NodeName != "" || s.works() {
		return nil
	}
	var all []Finding
	for _, name := range s.drivers {
		isMissing, waits := s.schedulerSays(name+" CSI driver is not installed on the node"), 0
		for i := range f.nodes.items {
			node := &f.nodes.items[i]
			key := s.startupTaint(node, name)
			if waits == mostWaits || key == "" && !isMissing || !f.mayRunOn(node) {
				continue
			}
			if found := f.waitsFor(node.Name, name, key); len(found) > 0 {
				waits++
				all = append(all, found...)
			}
		}
	}
	return all
}

// waitsFor returns findings that say why a node can't run the pod yet. Argument "key" is the key of the driver's startup taint, or empty if the node
// does not have this taint.
func (f *facts) waitsFor(node, name, key string) []Finding {
	yes, known := f.registered(node, name)
	switch {
	case !known || yes && key == "":
		return nil
	case yes:
		return []Finding{{
			Severity: Error, Object: "Node " + node, Page: string(pageScheduling), Said: "taint " + key,
			Cause: fmt.Sprintf("The pod can't run on node %s: the node still has the startup taint of driver %s, although the driver is registered there.",
				node, name),
			Do:      "Wait a few seconds, then read the log of the driver's operator; if nothing removes this taint in your cluster, remove it.",
			Command: toCopy("oc get clustercsidriver %s -o yaml", name), topic: topicOf("node", node, "taint", name), level: ofRegistration,
			effects: []string{"event/schedule"},
		}}
	}
	found := Finding{
		Severity: Error, Object: "CSINode " + node, Page: string(pageScheduling), Said: f.driversOn(node),
		Cause:   fmt.Sprintf("The pod can't run on node %s before driver %s is registered there.", node, name),
		Do:      "Read the log of container node-driver-registrar in the driver's pod on that node.",
		Command: toCopy("oc get csinode %s -o yaml", node), topic: topicOf("node", node, "csinode", name), level: ofRegistration,
		effects: []string{"event/schedule"},
	}
	all := []Finding{found}
	if d := f.driver(name); d != nil {
		for _, one := range f.plugin(*d, node) {
			one.effects = append(one.effects, "event/schedule")
			all = append(all, one)
		}
	}
	return all
}

// schedulerSays reports whether the scheduler's last message about the pod contains a text.
func (s *subject) schedulerSays(words string) bool {
	return slices.ContainsFunc(s.pod.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == corev1.PodScheduled && one.Status == corev1.ConditionFalse && strings.Contains(one.Message, words)
	})
}

// mayRunOn reports whether the pod can run on a node. It ignores startup taints of CSI drivers, because their operators remove these taints.
func (f *facts) mayRunOn(node *corev1.Node) bool {
	pod := &f.subject.pod.Spec
	repels := func(taint corev1.Taint) bool {
		// Each startup taint has "csi" in the domain of its key: efs.csi.aws.com/agent-not-ready, csi.vsphere.vmware.com/agent-not-ready.
		isStartup := strings.Contains("."+taint.Key, ".csi.") && strings.HasSuffix(taint.Key, startupSuffix)
		return !isStartup && !survey.Tolerate(pod.Tolerations, &taint) && taint.Effect != corev1.TaintEffectPreferNoSchedule
	}
	volumes, _ := f.subject.affinities()
	away := slices.ContainsFunc(volumes, func(wanted *corev1.NodeSelector) bool { return !survey.Selects(wanted, node) })
	return nodeIsReady(node) && !node.Spec.Unschedulable && survey.Allows(pod, node) && !away && !slices.ContainsFunc(node.Spec.Taints, repels)
}

// startupTaint returns the key of a driver's startup taint on a node, such as efs.csi.aws.com/agent-not-ready. Such a taint repels pods until the
// driver is registered on the node. If the node has no such taint, or the pod tolerates it, the result is empty.
func (s *subject) startupTaint(node *corev1.Node, driver string) string {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		isStartup := strings.HasPrefix(taint.Key, driver+"/") && strings.HasSuffix(taint.Key, startupSuffix)
		if isStartup && taint.Effect != corev1.TaintEffectPreferNoSchedule && !survey.Tolerate(s.pod.Spec.Tolerations, taint) {
			return taint.Key
		}
	}
	return ""
}
