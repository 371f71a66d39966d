package migration

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// AcceptRemountAnnotation on the ClusterCSIDriver, with the value "true", lets node pods of a predecessor be replaced although
// pods on their nodes use volumes. The mounts of these pods hang until the pods are started anew.
const AcceptRemountAnnotation = "operator.openshift.io/accept-remount"

// Migration moves one driver. It is used by one goroutine.
type Migration struct {
	// Client reads from the cache and writes to the cluster, Live reads from the cluster.
	Client    client.Client
	Live      client.Reader
	Driver    driver.Driver
	Namespace string
	// Predecessors are the operators that are watched for.
	Predecessors []*Predecessor
	// Inheritable are the settings that a predecessor may have decided.
	Inheritable []driver.Setting
	Events      events.EventRecorder
	Now         func() time.Time

	applier *apply.Applier
	updater *nodes.Updater
	// surveyed is when the node pods were looked at last, and lastMoved what came of it.
	surveyed  time.Time
	lastMoved Moved
	patience  status.Patience
	// clear is the evidence with which nothing was in the way. Ran means that a predecessor ran since this process was started.
	clear string
	ran   bool
	// mine are the namespaces of predecessors in which this operator may migrate, over those in which there is nothing left to do.
	mine, over map[string]bool
	// bindingsCleared means that no ClusterRoleBinding of a predecessor is left that ours take the place of.
	bindingsCleared bool
	// configMapsCleared is the same for the ConfigMaps of Driver.Obsolete.
	configMapsCleared bool
	// revisions are the DaemonSets that were orphaned, with whether their revisions are still to be deleted.
	revisions map[client.ObjectKey]bool
	// announced are the DaemonSets of predecessors that had an event.
	announced map[types.UID]bool
}

// State is what predecessors have left of a driver. It is zero without predecessors.
type State struct {
	// Blocker says what keeps the driver from being applied; empty if nothing does.
	Blocker string
	// SharesStatus means that somebody else writes the same conditions.
	SharesStatus bool
	// Again is when to look once more, although no event may come.
	Again time.Duration
	// Old are the node pods of predecessors.
	Old []corev1.Pod
	// Inherited are settings that the predecessor's controller has, by their variables; they are kept before that is changed.
	Inherited map[string]string

	// accepted means that nodes in use may lose their plugin for a while.
	accepted bool
	apart    apart
}

// Blocked reports whether nothing may be applied.
func (s State) Blocked() bool { return s.Blocker != "" }

// Use gives the migration the applier of the driver's objects. Call it before anything else.
func (m *Migration) Use(applier *apply.Applier) {
	m.applier = applier
	m.updater = &nodes.Updater{Client: m.Client, Live: m.Live, Driver: m.Driver.Name, IsOld: m.Driver.IsOld, Now: m.Now}
	m.announced, m.revisions = map[types.UID]bool{}, map[client.ObjectKey]bool{}
}

// Observe finds out what predecessors have left. Without evidence in the cache, or a namespace of a predecessor, it costs no request. Ours
// is the DaemonSet of this operator, nil if there is none.
func (m *Migration) Observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver, ours *appsv1.DaemonSet) (State, error) {
	state, err := m.Remaining(ctx, cr)
	if err != nil {
		return state, err
	}
	if err := m.findBlocker(ctx, cr, ours, &state); err != nil || state.Blocked() {
		state.Again = m.pauseFor(state)
		return state, err
	}
	state.Inherited, err = m.inherited(ctx, cr)
	return state, err
}

// Remaining is the part of the State that does not say whether anything may be applied: a removal needs no more.
func (m *Migration) Remaining(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (State, error) {
	state := State{accepted: cr.Annotations[AcceptRemountAnnotation] == "true"}
	var err error
	if state.apart, err = m.observeApart(ctx); err != nil {
		return state, err
	}
	state.Old, err = m.nodePods(ctx, m.Client, m.Driver.IsOld)
	state.Old = append(state.Old, state.apart.nodes...)
	return state, err
}

func (m *Migration) pauseFor(state State) time.Duration {
	if !state.Blocked() {
		return 0
	}
	return m.patience.Pause(m.Now(), state.Blocker)
}

// nodePods are the driver's pods on the nodes that match, ours or not, in the operator's namespace.
func (m *Migration) nodePods(ctx context.Context, reader client.Reader, match func(*corev1.Pod) bool) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	isNodePod := client.MatchingLabelsSelector{Selector: driver.WithApp(m.Driver.NodeApps()...)}
	// In a large cluster there are many, and they are read in every reconcile.
	if err := reader.List(ctx, pods, client.InNamespace(m.Namespace), isNodePod, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the node pods: %w", err)
	}
	var found []corev1.Pod
	for i := range pods.Items {
		if m.Driver.IsNodePod(&pods.Items[i]) && match(&pods.Items[i]) {
			found = append(found, pods.Items[i])
		}
	}
	return found, nil
}

// Forget drops what belongs to the life of one ClusterCSIDriver.
func (m *Migration) Forget() {
	m.clear, m.mine, m.over, m.patience = "", nil, nil, status.Patience{}
	m.bindingsCleared, m.configMapsCleared, m.revisions = false, false, map[client.ObjectKey]bool{}
}

// Predecessor is the one whose Deployment has a name; nil if there is none.
func (m *Migration) Predecessor(operator string) *Predecessor {
	for _, predecessor := range m.Predecessors {
		if predecessor.Operator == operator {
			return predecessor
		}
	}
	return nil
}

// evidence is what the cache shows of predecessors, as a text that changes whenever one of these objects does; empty if there is nothing.
// As long as it is the same, the cluster is not asked again what is in the way.
func (m *Migration) evidence(ctx context.Context, cr *operatorv1.ClusterCSIDriver, state State) (string, error) {
	text := ""
	add := func(object client.Object) {
		text += fmt.Sprintf("%T %s %s;", object, object.GetUID(), object.GetResourceVersion())
	}
	for _, predecessor := range m.Predecessors {
		if err := m.evidenceOf(ctx, predecessor, add); err != nil {
			return "", err
		}
	}
	found, err := m.othersCSIDriver(ctx)
	if err != nil {
		return "", err
	}
	if found != nil {
		add(found)
	}
	for i := range state.Old {
		add(&state.Old[i])
	}
	if slices.ContainsFunc(cr.Finalizers, m.Driver.IsLegacy) || m.hasGenerations(cr) {
		text += "the status is a predecessor's;"
	}
	if m.ran {
		text += "its pods may outlive its Deployment;"
	}
	return text + state.apart.evidence, nil
}

func (m *Migration) evidenceOf(ctx context.Context, predecessor *Predecessor, add func(client.Object)) error {
	daemonSets, err := predecessor.daemonSets(ctx)
	if err != nil {
		return err
	}
	for i := range daemonSets {
		add(&daemonSets[i])
	}
	left, err := predecessor.leftovers(ctx)
	for _, object := range left {
		add(object)
	}
	return err
}

// othersCSIDriver is the CSIDriver as the cache has it, if somebody else has made it; else nil.
func (m *Migration) othersCSIDriver(ctx context.Context) (*storagev1.CSIDriver, error) {
	found, err := apply.Newest[storagev1.CSIDriver](ctx, m.applier, client.ObjectKey{Name: m.Driver.Name})
	if err != nil || found == nil || m.applier.Owns(found) {
		return nil, err
	}
	return found, nil
}

// hasGenerations reports whether a predecessor has left the generation of a Deployment in the status. This operator writes none.
func (m *Migration) hasGenerations(cr *operatorv1.ClusterCSIDriver) bool {
	return slices.ContainsFunc(cr.Status.Generations, func(entry operatorv1.GenerationStatus) bool {
		return entry.Resource == "deployments" && entry.Namespace == m.Namespace && entry.Name == m.Driver.Deployment
	})
}
