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

// seen is the observed state of the cluster. stateOf derives the State from it.
type seen struct {
	// cr and daemonSet are nil if they do not exist, or if the user lacks permission to read them.
	cr        *operatorv1.ClusterCSIDriver
	daemonSet *appsv1.DaemonSet
	// outdated has the pods to replace, by node. users has the pods that use volumes, by node.
	outdated map[string]*corev1.Pod
	users    map[string][]string
	// hidden means that the user lacks permission to read the node pods or their DaemonSet. usersHidden means that field users may be incomplete.
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
	volumes, err := volume.OfDriver(ctx, c.Lenient(), d.Name)
	if err != nil {
		return found, err
	}
	users, err := volumes.Users(ctx, c.Lenient())
	found.usersHidden = len(c.Missing()) > before
	found.users = map[string][]string{}
	for _, user := range users {
		found.users[user.Node] = append(found.users[user.Node], user.Pod)
	}
	return found, err
}

// State says how far a roll-out is.
type State struct {
	Driver string `json:"driver"`
	// Phase is one of the constants below, or the reason of the operator's condition.
	Phase string `json:"phase"`
	// Number is the number of the current pod template. Command resume writes this number into the annotation.
	Number string `json:"number,omitempty"`
	// Nodes is the number of all nodes. Done is the number of nodes with the new pod.
	Nodes   int    `json:"nodes"`
	Done    int    `json:"done"`
	Message string `json:"message"`
	// Now means that the operator also replaces the node pods on nodes in use.
	Now bool `json:"now"`
	// UsersUnknown means that UsedBy may be incomplete, because the user lacks permission to read all pods.
	UsersUnknown bool `json:"usersUnknown,omitempty"`
	// Waiting are the nodes that still have an old node pod.
	Waiting []Node `json:"waiting"`
	// Missing are the rights that the user lacks. Without these rights, the state may be incomplete.
	Missing []plugin.Right `json:"missingRights,omitempty"`
}

// Node is a node that still has an old node pod.
type Node struct {
	Name   string   `json:"node"`
	Pod    string   `json:"pod"`
	UsedBy []string `json:"usedBy,omitempty"`
}

// Phases that are not reasons of a condition.
const (
	done         = "Done"
	failed       = "Failed"
	byKubernetes = "ReplacedByKubernetes"
	notInstalled = "NotInstalled"
	unknown      = "Unknown"
)

// absence returns the phase and the message for the case that the DaemonSet was not found.
func absence(d driver.Driver, hidden bool) (phase, message string) {
	if hidden {
		return unknown, "you lack permission to list DaemonSets, so the command can't tell whether the driver is installed"
	}
	return notInstalled, fmt.Sprintf("no DaemonSet %s was found: the driver is not installed", d.DaemonSet)
}

// stateOf derives the state of the roll-out from the observed state. It is pure.
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
		made.Message = "Kubernetes replaces the node pods itself, also on nodes in use: " +
			plugin.ToCopy("oc -n %s rollout status daemonset/%s", s.daemonSet.Namespace, s.daemonSet.Name)
	case s.hidden:
		made.Phase, made.Done = unknown, 0
		made.Message = fmt.Sprintf("you lack permission to read the node pods in namespace %s: ask an administrator for this permission",
			s.daemonSet.Namespace)
	case degraded != nil && degraded.Status == operatorv1.ConditionTrue && len(s.outdated) > 0:
		made.Phase, made.Message = failed, degraded.Message
	case len(s.outdated) == 0:
		made.Phase, made.Message = done, "all nodes have the newest node pod"
	case progressing != nil && progressing.Status == operatorv1.ConditionTrue:
		made.Phase, made.Message = progressing.Reason, progressing.Message
	default:
		made.Phase = nodes.ReplacingPods
		made.Message = fmt.Sprintf("the operator has not reported yet; if that lasts, check whether it runs in namespace %s", s.daemonSet.Namespace)
	}
	return made
}

// concerned returns the pods that use volumes on the waiting nodes. The mounts of these pods stall for a moment when the operator replaces the node
// pods.
func (s State) concerned() []string {
	var pods []string
	for _, node := range s.Waiting {
		pods = append(pods, node.UsedBy...)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}
