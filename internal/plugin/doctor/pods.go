package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// The kinds of objects about which a user can ask.
const (
	kindPod    = "pod"
	kindClaim  = "pvc"
	kindShared = "sharedvolume"
	kindNode   = "node"
	kindVolume = "pv"
	kindClass  = "class"
)

func titleOf(kind string) string {
	return map[string]string{kindPod: "Pod", kindClaim: "PersistentVolumeClaim", kindShared: "SharedVolume", kindNode: "Node",
		kindVolume: "PersistentVolume", kindClass: "StorageClass"}[kind]
}

// isClusterScoped reports whether the objects of the subject's kind are in no namespace.
func (s *subject) isClusterScoped() bool {
	return slices.Contains([]string{kindNode, kindVolume, kindClass}, s.kind)
}

// describe returns the command that describes the subject.
func (s *subject) describe() string {
	if s.isClusterScoped() {
		return toCopy("oc describe %s %s", s.kind, s.name)
	}
	return toCopy("oc -n %s describe %s %s", s.namespace, s.kind, s.name)
}

// object returns "Kind namespace/name", or "Kind name" for an object without a namespace.
func (s *subject) object() string {
	if s.isClusterScoped() {
		return titleOf(s.kind) + " " + s.name
	}
	return titleOf(s.kind) + " " + strings.TrimPrefix(s.namespace+"/"+s.name, "/")
}

func subjectMissing(f *facts) []Finding {
	s := f.subject
	if s == nil || s.answer != plugin.Absent || s.kind == kindClaim {
		return nil
	}
	found := Finding{
		Severity: Error, Object: s.object(), Page: string(pageTrouble), Cause: fmt.Sprintf("%s %s does not exist.", titleOf(s.kind), s.name),
		Do: "Check the name and the namespace.", Command: toCopy("oc -n %s get %ss", s.namespace, s.kind),
		topic: "subject", level: ofUnexplained, symptom: true,
	}
	switch s.kind {
	case kindNode:
		found.Do, found.Command = "Check the name.", "oc get nodes"
	case kindVolume:
		found.Do, found.Command = "Check the name.", "oc get pv"
	case kindClass:
		found.Do, found.Command = "Check the name, or create the class.", "oc get storageclasses"
	}
	return []Finding{found}
}

// sameHandles finds a pod that waits for several PersistentVolumes with the same volumeHandle. The kubelet makes a unique name for a volume from its
// driver and its handle. For each pod, it mounts only one PersistentVolume of the same unique name (Kubernetes v1.36.3,
// pkg/kubelet/volumemanager/cache/desired_state_of_world.go, AddPodToVolume).
func sameHandles(f *facts) []Finding {
	s := f.subject
	if s == nil || s.pod == nil || s.works() {
		return nil
	}
	var all []Finding
	first := map[string]string{}
	for _, one := range s.claims {
		if one.volume == nil || one.volume.Spec.CSI == nil {
			continue
		}
		handle := one.volume.Spec.CSI.Driver + " " + one.volume.Spec.CSI.VolumeHandle
		other, is := first[handle]
		if !is || other == one.volume.Name {
			first[handle] = one.volume.Name
			continue
		}
		all = append(all, Finding{
			Severity: Error, Object: s.object(), Page: string(pageUse), topic: "handles", level: ofVolume, effects: []string{"event/mount"},
			Cause: fmt.Sprintf("The pod uses PersistentVolumes %s and %s, which have the same volumeHandle, and the kubelet mounts only one of them.",
				other, one.volume.Name),
			Said:    clip("volumeHandle: " + one.volume.Spec.CSI.VolumeHandle),
			Do:      "Mount one PersistentVolumeClaim twice, with subPath if you need two directories; or give each volume an access point of its own.",
			Command: toCopy("oc get pv %s %s -o yaml", other, one.volume.Name),
		})
	}
	return all
}

// podZone finds a pod that no node can run, because no suitable node is in the zone of each of the pod's volumes.
func podZone(f *facts) []Finding {
	s := f.subject
	if s == nil || s.pod == nil || s.pod.Spec.NodeName != "" || f.nodes.Answer != plugin.Present {
		return nil
	}
	wanted, names := s.affinities()
	fits, some := false, false
	for i := range f.nodes.items {
		node := &f.nodes.items[i]
		if !nodeIsReady(node) || node.Spec.Unschedulable || !survey.Allows(&s.pod.Spec, node) {
			continue
		}
		some = true
		fits = fits || !slices.ContainsFunc(wanted, func(one *corev1.NodeSelector) bool { return !survey.Selects(one, node) })
	}
	if fits || !some || len(wanted) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Error, Object: s.object(), Page: string(pageOneZone), Said: status.Shorten(names),
		Cause: "No node that the pod may run on is in the zone of its volumes.", Do: "Add a node in that zone, or remove the pod's node selector.",
		Command: toCopy("oc get nodes -L %s", corev1.LabelTopologyZone), topic: "zone", level: ofVolume, effects: []string{"event/schedule", "event/zone"},
	}}
}

// affinities returns the required node affinities of the subject's PersistentVolumes. Each text in result "names" has the name and the values of one
// affinity.
func (s *subject) affinities() (wanted []*corev1.NodeSelector, names []string) {
	for _, one := range s.claims {
		if one.volume != nil && one.volume.Spec.NodeAffinity != nil && one.volume.Spec.NodeAffinity.Required != nil {
			required := one.volume.Spec.NodeAffinity.Required
			wanted, names = append(wanted, required), append(names, one.volume.Name+" ("+affinityText(required)+")")
		}
	}
	return wanted, names
}

func affinityText(wanted *corev1.NodeSelector) string {
	var values []string
	for _, term := range wanted.NodeSelectorTerms {
		for _, one := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			values = append(values, one.Values...)
		}
	}
	return strings.Join(values, ", ")
}

// mountsOn returns the node of a pod that does not work, and the drivers that must mount the pod's volumes on this node. For any other subject, both
// results are empty.
func (f *facts) mountsOn() (string, []string) {
	s := f.subject
	if s == nil || s.pod == nil || s.pod.Spec.NodeName == "" || s.works() {
		return "", nil
	}
	var names []string
	for _, one := range s.claims {
		if isCSI(one.driver) && (one.volume != nil || one.inline) && !slices.Contains(names, one.driver) {
			names = append(names, one.driver)
		}
	}
	return s.pod.Spec.NodeName, names
}

func podRegistration(f *facts) []Finding {
	node, names := f.mountsOn()
	var all []Finding
	for _, name := range names {
		if found := f.registration(node, name); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// registration returns a finding if a driver is not registered on a node. It returns nil if the driver is registered, or if doctor could not read the
// CSINode.
func (f *facts) registration(node, driver string) *Finding {
	yes, known := f.registered(node, driver)
	if yes || !known {
		return nil
	}
	return &Finding{
		Severity: Error, Object: "CSINode " + node, Page: string(pageNodePods), Command: toCopy("oc get csinode %s -o yaml", node),
		Cause: fmt.Sprintf("Driver %s is not registered on node %s.", driver, node),
		Do:    "Read the log of container node-driver-registrar in the driver's pod on that node.",
		topic: topicOf("node", node, "csinode", driver), level: ofRegistration, effects: []string{"event/mount", "event/attach", "event/registration"},
		Said: f.driversOn(node),
	}
}

// driversOn returns a text with the names of the drivers in the CSINode of a node.
func (f *facts) driversOn(node string) string {
	var names []string
	for i := range f.csiNodes.items {
		if f.csiNodes.items[i].Name != node {
			continue
		}
		for _, one := range f.csiNodes.items[i].Spec.Drivers {
			names = append(names, one.Name)
		}
	}
	slices.Sort(names)
	return listed("drivers of the CSINode", names)
}

func podPlugin(f *facts) []Finding {
	node, names := f.mountsOn()
	var all []Finding
	for _, name := range names {
		if d := f.driver(name); d != nil {
			all = append(all, f.plugin(*d, node)...)
		}
	}
	return all
}

// plugin finds problems of the node pod of a driver on a node.
func (f *facts) plugin(d survey.Driver, node string) []Finding {
	if d.Nodes == nil || f.Pods != plugin.Present {
		return nil
	}
	after := []string{topicOf("node", node, "csinode", d.Name), "event/mount", "event/attach", "event/registration"}
	pod := podOn(d.NodePods, node)
	if pod == nil {
		found := Finding{
			Severity: Error, Object: "DaemonSet " + d.Nodes.Namespace + "/" + d.Nodes.Name, Page: string(pageNodePods),
			Cause: fmt.Sprintf("Node %s has no node pod of driver %s.", node, d.Name), Do: "Read the events of the DaemonSet.",
			Command: toCopy("oc -n %s describe daemonset/%s", d.Nodes.Namespace, d.Nodes.Name),
			topic:   topicOf("node", node, "absent", d.Name), level: ofPlugin, effects: after, Said: fmt.Sprintf("pods of the DaemonSet on %s: none", node),
		}
		if why := f.excludes(d, node); why != "" {
			found.Cause = fmt.Sprintf("Node %s has no node pod of driver %s, because the DaemonSet does not select the node.", node, d.Name)
			found.Do, found.Said, found.Object = doSelect, why, "Node "+node
			if strings.HasPrefix(why, "taint ") {
				found.Cause = fmt.Sprintf("Node %s has no node pod of driver %s, because of a taint of the node.", node, d.Name)
				found.Do = doTolerate
			}
			found.Command = toCopy("oc describe node %s", node)
		}
		return []Finding{found}
	}
	reason := status.PodProblem(pod)
	if reason == "" {
		return nil
	}
	return []Finding{{
		Severity: Error, Object: "Pod " + pod.Namespace + "/" + pod.Name, Page: string(pageNodePods), Said: reason,
		Cause: fmt.Sprintf("The node pod of driver %s on node %s is not ready.", d.Name, node), Do: "Read the events and the log of this pod.",
		Command: toCopy("oc -n %s describe pod %s", pod.Namespace, pod.Name),
		topic:   topicOf("node", node, "plugin", d.Name), level: ofPlugin, effects: after,
	}}
}

// doTolerate says what to do about a taint that a driver's node pods do not tolerate. This happens only with drivers of other projects, because the
// node pods of this project tolerate every taint.
const doTolerate = "Give the DaemonSet of the driver a toleration for this taint, in the settings of its installer; or run the pod on another node."

// doSelect says what to do about a node selector or a node affinity.
const doSelect = "Change the node selector of the DaemonSet in the settings of its installer, or run the pod on another node."

// excludes says why the DaemonSet of a driver creates no pod on a node. If the DaemonSet selects the node, or if doctor could not read the node, the
// result is empty.
func (f *facts) excludes(d survey.Driver, name string) string {
	if node := f.findNode(name); node != nil {
		return d.Excludes(node)
	}
	return ""
}

// nodeDrivers finds problems of all drivers on a node.
func nodeDrivers(f *facts) []Finding {
	if f.subject == nil || f.subject.kind != kindNode || f.subject.node == nil {
		return nil
	}
	var all []Finding
	for _, d := range f.Drivers {
		if d.Nodes == nil || !survey.Allows(&d.Nodes.Spec.Template.Spec, f.subject.node) {
			continue
		}
		all = append(all, f.plugin(d, f.subject.name)...)
		if found := f.registration(f.subject.name, d.Name); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// nodeTaints reports that the subject, a node, is cordoned. It also reports the roll-outs that wait for this node.
func nodeTaints(f *facts) []Finding {
	s := f.subject
	if s == nil || s.kind != kindNode || s.node == nil {
		return nil
	}
	var all []Finding
	if s.node.Spec.Unschedulable {
		all = append(all, Finding{
			Severity: Info, Object: s.object(), Page: string(pageRollout), Cause: fmt.Sprintf("Node %s is cordoned, and takes no new pods.", s.name),
			Do: "Uncordon the node when you have finished your work.", Command: toCopy("oc adm uncordon %s", s.name), topic: "cordoned", level: ofNode,
		})
	}
	for _, d := range f.Drivers {
		pod := podOn(d.NodePods, s.name)
		held := d.HeldUp()
		if pod == nil || d.Rollout() == nil || !slices.Contains(strings.FieldsFunc(held, isSeparator), s.name) {
			continue
		}
		all = append(all, Finding{
			Severity: Info, Object: s.object(), Page: string(pageRollout), Said: clip(held), Command: "oc storage status --wait",
			Cause: fmt.Sprintf("The roll-out of driver %s waits for node %s.", d.Name, s.name), Do: "Wait, or drain the node.",
			topic: topicOf("rollout", d.Name), level: ofPlugin,
		})
	}
	return all
}

func isSeparator(letter rune) bool { return strings.ContainsRune(" ,;:()", letter) }
