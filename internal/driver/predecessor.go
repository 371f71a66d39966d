package driver

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Predecessor is an operator that installed the driver before this one did, and what it leaves in the cluster.
type Predecessor struct {
	// Title is how messages call it, Operator the name of its Deployment and Package that of its package in OLM.
	Title, Operator, Package string
	// Right is what no other account than its own may do: anybody can make a Deployment of that name.
	Right authorizationv1.ResourceAttributes
	// DaemonSet is that of its node pods, and also the value of their label app.
	DaemonSet string
	// ServiceAccount and SecurityContextConstraints are those of its node pods; they go with the last of these. Empty: they
	// are called as ours are, or there are none.
	ServiceAccount, SecurityContextConstraints string
	// ClusterRoleBindings give the driver's controller rights that it has from bindings of other names now. They go when these are there.
	ClusterRoleBindings []string
	// Label is on all its objects, and Owner, a CustomResourceDefinition, owns them; empty: there is none.
	Label, Owner string
	// Namespace is where it ran the driver, if that was a namespace of its own and not that of the operator. Objects can't move: those in
	// there are called as ours are, and go when ours have taken their places. Somebody else has made sure that the operator itself has gone,
	// so that Operator, Package and Right are not looked at.
	Namespace string
}

// NodeApps are the values of the label app of all node pods, those of predecessors included. The first one is ours.
func (d Driver) NodeApps() []string {
	apps := []string{d.SelectorOf(Node)[app]}
	for _, predecessor := range d.Predecessors {
		if !slices.Contains(apps, predecessor.DaemonSet) {
			apps = append(apps, predecessor.DaemonSet)
		}
	}
	return apps
}

// WithApp selects objects whose label app has one of the values.
func WithApp(values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(app, selection.In, values)
	if err != nil {
		// Values that can't be a label select nothing.
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

// NodeServiceAccount is the account of our node pods.
func (d Driver) NodeServiceAccount() string { return d.Prefix + "-node-sa" }

// ControllerServiceAccount is the account of our controller pods.
func (d Driver) ControllerServiceAccount() string { return d.Prefix + "-controller-sa" }

// NamespaceRole is the name of the ClusterRole with what the operator may do in a namespace, and of its bindings.
func (d Driver) NamespaceRole() string { return d.Operator + "-role" }

// OldNamespaces are those of their own in which predecessors ran the driver.
func (d Driver) OldNamespaces() []string {
	var names []string
	for _, predecessor := range d.Predecessors {
		if predecessor.Namespace != "" {
			names = append(names, predecessor.Namespace)
		}
	}
	return names
}

// MountsSocket tells whether volumes have the folder of the driver's socket on the host. Anybody can label a pod, but few may mount that.
func (d Driver) MountsSocket(volumes []corev1.Volume) bool {
	return slices.ContainsFunc(volumes, func(volume corev1.Volume) bool {
		return volume.HostPath != nil && strings.HasSuffix(strings.TrimSuffix(volume.HostPath.Path, "/"), "/plugins/"+d.Name)
	})
}

// IsNodePod tells whether a pod is one of the driver's on the nodes, or one of a predecessor's. The controller's may have the same label app.
func (d Driver) IsNodePod(pod *corev1.Pod) bool {
	if ours := d.SelectorOf(Node); pod.Labels[app] == ours[app] {
		return labels.SelectorFromSet(ours).Matches(labels.Set(pod.Labels))
	}
	return slices.Contains(d.NodeApps(), pod.Labels[app])
}

// IsOld tells whether a node pod was started by a predecessor: under another name, under another account, or in another namespace.
func (d Driver) IsOld(pod *corev1.Pod) bool {
	its := pod.Labels[app]
	if !d.IsNodePod(pod) {
		return false
	}
	return its != d.SelectorOf(Node)[app] || pod.Spec.ServiceAccountName != d.NodeServiceAccount() || slices.Contains(d.OldNamespaces(), pod.Namespace)
}

// holdNodePods leaves pods as they are until the operator replaces them: those of a predecessor, and those through which mounts go.
func (d Driver) holdNodePods(cfg Config, daemonSet *appsv1.DaemonSet) error {
	if (cfg.Migrating || (d.MountsInPods && cfg.Rollout != RollingUpdate)) && d.WorkloadOf(daemonSet) == Node {
		daemonSet.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	return nil
}

// keepApart lets a node pod wait for one in an old namespace, as long as there is any: two plugins on a node would take each other's sockets.
func (d Driver) keepApart(cfg Config, pods Pods) error {
	if !cfg.Migrating || pods.Workload != Node {
		return nil
	}
	for _, predecessor := range d.Predecessors {
		if predecessor.Namespace == "" {
			continue
		}
		affinity := &pods.Spec.Affinity
		if *affinity == nil {
			*affinity = &corev1.Affinity{}
		}
		if (*affinity).PodAntiAffinity == nil {
			(*affinity).PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		terms := &(*affinity).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{app: predecessor.DaemonSet}},
			// No tenant can make one of these names.
			Namespaces: []string{predecessor.Namespace}, TopologyKey: corev1.LabelHostname,
		})
	}
	return nil
}
