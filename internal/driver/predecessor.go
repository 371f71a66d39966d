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

// Predecessor is an operator that may have installed the driver before ours. It also names the objects that the predecessor leaves behind.
type Predecessor struct {
	// Title is the predecessor's name in messages. Operator is the name of its Deployment. Package is the name of its package in OLM.
	Title, Operator, Package string
	// Right is a permission that only the predecessor's ServiceAccount has. The name of the Deployment proves nothing, because every user can create a
	// Deployment of that name.
	Right authorizationv1.ResourceAttributes
	// DaemonSet is the name of the predecessor's DaemonSet, and the value of label app of the predecessor's node pods.
	DaemonSet string
	// ServiceAccount and SecurityContextConstraints name the objects of these kinds that the predecessor's node pods use. When the last of these pods is
	// gone, the operator deletes both objects. An empty name means that the object has our name, or does not exist.
	ServiceAccount, SecurityContextConstraints string
	// ClusterRoleBindings are bindings of the driver's controller that our bindings replace. The operator deletes the predecessor's bindings when our
	// bindings exist.
	ClusterRoleBindings []string
	// Label is on all objects of the predecessor. Owner is a CustomResourceDefinition that owns these objects. Both can be empty.
	Label, Owner string
	// Namespace is the namespace of the predecessor's driver, if it differs from the namespace of our operator. The objects of that driver have the same
	// names as our objects. The operator deletes the predecessor's objects after our objects have replaced them. The cluster-storage-operator has
	// already removed the predecessor itself, so our operator does not check Operator, Package and Right.
	Namespace string
}

// Installer is another program that installs the driver, with the versions of the driver that it has installed. Such a program can use an image whose
// reference does not name the version of the driver.
type Installer struct {
	Title string
	// Image is a part of the image reference of the driver's container. DaemonSet is the value of label app on the node pods. Both can be empty.
	Image, DaemonSet string
	// Oldest and Newest are the versions of the driver.
	Oldest, Newest string
	Source         string
}

// Installed reports whether this Installer installed a node pod. Call Installed only for a pod whose image reference names no version.
func (i Installer) Installed(pod *corev1.Pod) bool {
	if i.Image == "" {
		return i.DaemonSet != "" && pod.Labels[app] == i.DaemonSet
	}
	return slices.ContainsFunc(pod.Spec.Containers, func(one corev1.Container) bool { return strings.Contains(one.Image, i.Image) })
}

// NodeApps returns the values of label app of all node pods, including those of predecessors. The first value is ours.
func (d Driver) NodeApps() []string {
	apps := []string{d.SelectorOf(Node)[app]}
	for _, predecessor := range d.Predecessors {
		if !slices.Contains(apps, predecessor.DaemonSet) {
			apps = append(apps, predecessor.DaemonSet)
		}
	}
	return apps
}

// WithApp returns a selector for objects whose label app has one of these values.
func WithApp(values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(app, selection.In, values)
	if err != nil {
		// Invalid label values select nothing.
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

// NodeServiceAccount returns the account of our node pods.
func (d Driver) NodeServiceAccount() string { return d.Prefix + "-node-sa" }

// ControllerServiceAccount returns the account of our controller pods.
func (d Driver) ControllerServiceAccount() string { return d.Prefix + "-controller-sa" }

// NamespaceRole returns the name of a ClusterRole, and of the RoleBindings to this ClusterRole. The ClusterRole has the operator's permissions in a
// namespace.
func (d Driver) NamespaceRole() string { return d.Operator + "-role" }

// OldNamespaces returns the predecessors' own namespaces.
func (d Driver) OldNamespaces() []string {
	var names []string
	for _, predecessor := range d.Predecessors {
		if predecessor.Namespace != "" {
			names = append(names, predecessor.Namespace)
		}
	}
	return names
}

// MountsSocket reports whether volumes include the host folder of the driver's socket. Any user can label a pod, but few users have the permission to
// mount that folder.
func (d Driver) MountsSocket(volumes []corev1.Volume) bool {
	return slices.ContainsFunc(volumes, func(volume corev1.Volume) bool {
		return volume.HostPath != nil && strings.HasSuffix(strings.TrimSuffix(volume.HostPath.Path, "/"), "/plugins/"+d.Name)
	})
}

// IsNodePod reports whether a pod is a node pod of the driver or of a predecessor. A controller pod can have the same label app.
func (d Driver) IsNodePod(pod *corev1.Pod) bool {
	if ours := d.SelectorOf(Node); pod.Labels[app] == ours[app] {
		return labels.SelectorFromSet(ours).Matches(labels.Set(pod.Labels))
	}
	return slices.Contains(d.NodeApps(), pod.Labels[app])
}

// IsOld reports whether a pod is a predecessor's node pod. A node pod is a predecessor's if its label app or its ServiceAccount is not ours, or if it
// is in a predecessor's namespace.
func (d Driver) IsOld(pod *corev1.Pod) bool {
	its := pod.Labels[app]
	if !d.IsNodePod(pod) {
		return false
	}
	return its != d.SelectorOf(Node)[app] || pod.Spec.ServiceAccountName != d.NodeServiceAccount() || slices.Contains(d.OldNamespaces(), pod.Namespace)
}

// holdNodePods sets the update strategy OnDelete, so that only the operator replaces node pods. It sets the strategy during a migration. For drivers
// with MountsInPods, it also sets the strategy without a migration, unless the policy is RollingUpdate.
func (d Driver) holdNodePods(cfg Config, daemonSet *appsv1.DaemonSet) error {
	if (cfg.Migrating || (d.MountsInPods && cfg.Rollout != RollingUpdate)) && d.WorkloadOf(daemonSet) == Node {
		daemonSet.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	return nil
}

// avoidPredecessor sets a pod anti-affinity during a migration. With this anti-affinity, a node with a node pod in a predecessor's namespace gets
// none of our node pods. Two plugins on one node would replace each other's sockets.
func (d Driver) avoidPredecessor(cfg Config, pods Pods) error {
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
			// Tenants can't create a namespace with the name of a predecessor's namespace. So no pod of a tenant can block a node for our node pods.
			Namespaces: []string{predecessor.Namespace}, TopologyKey: corev1.LabelHostname,
		})
	}
	return nil
}
