package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

func nodesDown(f *facts) []Finding {
	var all []Finding
	for i := range f.nodes.items {
		node := &f.nodes.items[i]
		if nodeIsReady(node) || f.subject != nil && f.subject.nodeOf() != node.Name {
			continue
		}
		all = append(all, Finding{
			Severity: Error, Object: "Node " + node.Name, Page: string(pageNodePods), Cause: fmt.Sprintf("Node %s is not ready.", node.Name),
			Do: "Repair the node, or delete it.", Command: toCopy("oc describe node %s", node.Name),
			topic: topicOf("node", node.Name, "ready"), level: ofNode,
			effects: []string{
				topicOf("node", node.Name, "plugin"), topicOf("node", node.Name, "absent"), topicOf("node", node.Name, "csinode"), "event/mount",
			},
		})
	}
	return all
}

// installs reports whether a driver should have workloads.
func installs(d survey.Driver) bool {
	if d.CR == nil || d.Profile == nil || d.Profile.DaemonSet == "" || d.CR.DeletionTimestamp != nil {
		return false
	}
	state := d.State()
	return state != survey.Removed && state != survey.Removing && state != survey.NoReport
}

func daemonSetMissing(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if !installs(d) || d.Nodes != nil || f.Workloads != plugin.Present {
			return nil
		}
		return &Finding{
			Severity: Error, Object: "DaemonSet " + d.Profile.DaemonSet, Page: string(pageNodePods),
			Cause: fmt.Sprintf("DaemonSet %s, which runs driver %s on the nodes, does not exist.", d.Profile.DaemonSet, d.Name),
			Do:    "Read the log of the operator.", Command: logCommand(d),
			topic: topicOf("daemonset", d.Name), level: ofWorkload,
			effects: []string{topicOf("node", "*", "plugin", d.Name), topicOf("node", "*", "absent", d.Name), topicOf("node", "*", "csinode", d.Name)},
		}
	})
}

// pluginsMissing finds nodes with an unready or missing node pod, if the user asks about the whole cluster.
func pluginsMissing(f *facts) []Finding {
	if f.subject != nil || f.Pods != plugin.Present {
		return nil
	}
	var all []Finding
	for _, d := range f.Drivers {
		if d.Nodes == nil {
			continue
		}
		var sick []string
		for i := range d.NodePods {
			pod := &d.NodePods[i]
			node := f.findNode(pod.Spec.NodeName)
			if pod.DeletionTimestamp != nil || node != nil && !nodeIsReady(node) {
				continue
			}
			if reason := status.PodProblem(pod); reason != "" {
				sick = append(sick, fmt.Sprintf("%s (%s)", pod.Spec.NodeName, reason))
			}
		}
		at := d.Nodes.Namespace + "/" + d.Nodes.Name
		if len(sick) > 0 {
			slices.Sort(sick)
			all = append(all, Finding{
				Severity: Error, Object: "DaemonSet " + at, Page: string(pageNodePods), Said: status.Shorten(sick),
				Cause: fmt.Sprintf("The node pods of driver %s are not ready on %d nodes.", d.Name, len(sick)), Do: "Read the logs and the events of these pods.",
				Command: toCopy("oc -n %s get pods -o wide", d.Nodes.Namespace),
				topic:   topicOf("node", "all", "plugin", d.Name), level: ofPlugin, effects: []string{topicOf("controller", d.Name, "never")},
			})
		}
		if lacking := f.lacking(d); len(lacking) > 0 {
			all = append(all, Finding{
				Severity: Warning, Object: "DaemonSet " + at, Page: string(pageNodePods), Said: status.Shorten(lacking),
				Cause:   fmt.Sprintf("%s no node pod of driver %s: pods there cannot mount its volumes.", have(len(lacking), "node"), d.Name),
				Do:      "Give the DaemonSet tolerations for the taints of these nodes. If a listed node has no taint, read the events of the DaemonSet.",
				Command: toCopy("oc -n %s describe daemonset/%s", d.Nodes.Namespace, d.Nodes.Name),
				topic:   topicOf("node", "all", "absent", d.Name), level: ofPlugin,
			})
		}
	}
	return all
}

// lacking returns the names of ready nodes that should have a pod of the driver's DaemonSet, but have none.
func (f *facts) lacking(d survey.Driver) []string {
	var names []string
	for i := range f.nodes.items {
		node := &f.nodes.items[i]
		occupied := slices.ContainsFunc(d.NodePods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
		if !occupied && nodeIsReady(node) && survey.Allows(&d.Nodes.Spec.Template.Spec, node) {
			name := node.Name
			if taint := d.Repels(node); taint != "" {
				name += " (taint " + taint + ")"
			}
			names = append(names, name)
		}
	}
	return names
}

// have returns a number of objects with the verb, such as "1 node has" or "2 nodes have".
func have(count int, what string) string {
	if count == 1 {
		return "1 " + what + " has"
	}
	return plural(count, what) + " have"
}

func controllerDown(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if !installs(d) || d.Profile.Deployment == "" || f.Workloads != plugin.Present || available(d.Controller) {
			return nil
		}
		found := &Finding{
			Severity: Error, Object: "Deployment " + d.Profile.Deployment, Page: string(pageController),
			Cause: fmt.Sprintf("The controller of driver %s does not run, so volumes are neither created nor deleted.", d.Name),
			Do:    "Read the logs and the events of the controller pods.", Said: strings.Join(status.Unready(d.ControllerPods), ", "),
			Command: logCommand(d), topic: topicOf("controller", d.Name), level: ofPlugin,
			effects: []string{topicOf("provision", d.Name), topicOf("event", "provision", d.Name)},
		}
		if d.Controller != nil {
			found.Object = "Deployment " + d.Controller.Namespace + "/" + d.Controller.Name
			found.Command = describe("deployment", &d.Controller.ObjectMeta, d.ControllerPods)
		}
		return found
	})
}

// describe returns the command that describes the first unready pod. Such a pod's events say, for instance, why an image can't be pulled. If all
// pods are ready, the command describes the workload.
func describe(kind string, workload *metav1.ObjectMeta, pods []corev1.Pod) string {
	for i := range pods {
		if status.PodProblem(&pods[i]) != "" {
			return toCopy("oc -n %s describe pod/%s", pods[i].Namespace, pods[i].Name)
		}
	}
	return toCopy("oc -n %s describe %s/%s", workload.Namespace, kind, workload.Name)
}
