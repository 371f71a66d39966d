package driver

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
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
	// Label is on all its objects, and Owner, a CustomResourceDefinition, owns them; empty: there is none.
	Label, Owner string
}

// NodeApps are the values of the label app of all node pods, those of predecessors included. The first one is ours.
func (d Driver) NodeApps() []string {
	apps := []string{d.DaemonSet}
	for _, predecessor := range d.Predecessors {
		if !slices.Contains(apps, predecessor.DaemonSet) {
			apps = append(apps, predecessor.DaemonSet)
		}
	}
	return apps
}

// NodeServiceAccount is the account of our node pods.
func (d Driver) NodeServiceAccount() string { return d.Prefix + "-node-sa" }

// IsOld tells whether a node pod was started by a predecessor: under another name, or under another account.
func (d Driver) IsOld(pod *corev1.Pod) bool {
	app := pod.Labels["app"]
	return slices.Contains(d.NodeApps(), app) && (app != d.DaemonSet || pod.Spec.ServiceAccountName != d.NodeServiceAccount())
}

// holdNodePods leaves pods of a predecessor as they are until the operator replaces them, one by one.
func holdNodePods(cfg Config, daemonSet *appsv1.DaemonSet) error {
	if cfg.TakingOver {
		daemonSet.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}
	return nil
}
