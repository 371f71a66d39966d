package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// seen is what a decision depends on.
type seen struct {
	// cr and daemonSet are nil if they are not there.
	cr        *operatorv1.ClusterCSIDriver
	daemonSet *appsv1.DaemonSet
	// outdated are the pods that are still to be replaced, and users the pods that use volumes, by node.
	outdated map[string]*corev1.Pod
	users    map[string][]string
	// hidden means that the user may not see the node pods or their DaemonSet, usersHidden that users may be missing.
	hidden, usersHidden bool
}

func observe(ctx context.Context, c *plugin.Cluster, d driver.Driver) (seen, error) {
	var found seen
	cr := &operatorv1.ClusterCSIDriver{}
	there, err := c.Find(ctx, client.ObjectKey{Name: d.Name}, cr)
	if err != nil {
		return found, err
	}
	if there {
		found.cr = cr
	}
	before := len(c.Missing())
	if found.daemonSet, err = c.FindDaemonSet(ctx, d.DaemonSet); err != nil || found.daemonSet == nil {
		found.hidden = len(c.Missing()) > before
		return found, err
	}
	found.outdated, err = nodes.Outdated(ctx, c.Lenient(), found.daemonSet)
	switch {
	case len(c.Missing()) > before:
		found.hidden = true
		return found, nil
	case err != nil || len(found.outdated) == 0:
		return found, err
	}
	users, err := volume.Users(ctx, c.Lenient(), d.Name)
	found.usersHidden = len(c.Missing()) > before
	found.users = map[string][]string{}
	for _, user := range users {
		found.users[user.Node] = append(found.users[user.Node], user.Pod)
	}
	return found, err
}

// State is how far a roll-out is.
type State struct {
	Driver string `json:"driver"`
	// Phase is a word for it: Done, Failed, ReplacedByKubernetes, NotInstalled, Unknown, or the reason of the condition.
	Phase string `json:"phase"`
	// Number is that of the template, which resume sets.
	Number string `json:"number,omitempty"`
	// Nodes are all, and Done those with the new pod.
	Nodes   int    `json:"nodes"`
	Done    int    `json:"done"`
	Message string `json:"message"`
	// Now means that nodes in use do not wait any more.
	Now bool `json:"now"`
	// UsersUnknown means that pods may use volumes on more nodes than Waiting says, because you may not see all of them.
	UsersUnknown bool `json:"usersUnknown,omitempty"`
	// Waiting are the nodes with an old pod.
	Waiting []Node `json:"waiting"`
	// Missing are the rights without which this may not be all.
	Missing []plugin.Right `json:"missingRights,omitempty"`
}

// Node is a node with an old pod.
type Node struct {
	Name   string   `json:"node"`
	Pod    string   `json:"pod"`
	UsedBy []string `json:"usedBy,omitempty"`
}

// The phases that are no reasons of a condition.
const (
	done         = "Done"
	failed       = "Failed"
	byKubernetes = "ReplacedByKubernetes"
	notInstalled = "NotInstalled"
	unknown      = "Unknown"
)

// absence says what a DaemonSet that was not found means.
func absence(d driver.Driver, hidden bool) (phase, message string) {
	if hidden {
		return unknown, "you lack permission to list DaemonSets, so the command can't tell whether the driver is installed"
	}
	return notInstalled, fmt.Sprintf("no DaemonSet %s was found: the driver is not installed", d.DaemonSet)
}

// stateOf is pure.
func stateOf(d driver.Driver, s seen) State {
	made := State{Driver: d.Name, Phase: notInstalled, Waiting: []Node{}, UsersUnknown: s.usersHidden}
	if s.daemonSet == nil {
		made.Phase, made.Message = absence(d, s.hidden)
		return made
	}
	made.Number, made.Nodes = nodes.NumberOf(s.daemonSet), int(s.daemonSet.Status.DesiredNumberScheduled)
	made.Done = max(0, made.Nodes-len(s.outdated))
	for _, node := range slices.Sorted(maps.Keys(s.outdated)) {
		made.Waiting = append(made.Waiting, Node{Name: node, Pod: s.outdated[node].Name, UsedBy: s.users[node]})
	}
	var conditions []operatorv1.OperatorCondition
	if s.cr != nil {
		conditions = s.cr.Status.Conditions
		made.Now = made.Number != "" && s.cr.Annotations[nodes.ReplaceNowAnnotation] == made.Number
	}
	prefix := d.ConditionPrefix + "DriverNodeServiceController"
	degraded, progressing := status.Find(conditions, prefix+status.Degraded), status.Find(conditions, prefix+status.Progressing)
	switch {
	case s.daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType:
		made.Phase = byKubernetes
		made.Message = "Kubernetes replaces the node pods itself, whoever uses volumes: " +
			plugin.ToCopy("oc -n %s rollout status daemonset/%s", s.daemonSet.Namespace, s.daemonSet.Name)
	case s.hidden:
		made.Phase, made.Done = unknown, 0
		made.Message = fmt.Sprintf("you may not see the node pods in namespace %s: ask an administrator for the missing rights", s.daemonSet.Namespace)
	case degraded != nil && degraded.Status == operatorv1.ConditionTrue && len(s.outdated) > 0:
		made.Phase, made.Message = failed, degraded.Message
	case len(s.outdated) == 0:
		made.Phase, made.Message = done, "all nodes have the newest node pod"
	case progressing != nil && progressing.Status == operatorv1.ConditionTrue:
		made.Phase, made.Message = progressing.Reason, progressing.Message
	default:
		made.Phase = nodes.ReplacingPods
		made.Message = fmt.Sprintf("the operator has not reported yet; if that lasts, see whether it runs in namespace %s", s.daemonSet.Namespace)
	}
	return made
}

// concerned are the pods whose mounts stall for a moment if nodes in use do not wait any more.
func (s State) concerned() []string {
	var pods []string
	for _, node := range s.Waiting {
		pods = append(pods, node.UsedBy...)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}
