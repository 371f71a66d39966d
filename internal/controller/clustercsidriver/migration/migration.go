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
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// AcceptRemountAnnotation on the ClusterCSIDriver, with value "true", lets the migration replace node pods even on nodes in use. The mounts of pods
// there hang until an administrator restarts these pods.
const AcceptRemountAnnotation = "operator.openshift.io/accept-remount"

// AcceptRefusedAnnotation on the ClusterCSIDriver, with value "true", lets pods lose volumes that the new driver refuses to mount. So the migration
// replaces node pods even on nodes where pods use such volumes.
const AcceptRefusedAnnotation = "operator.openshift.io/accept-refused-volumes"

// Migration migrates one driver. It is not safe for concurrent use.
type Migration struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster.
	Client    client.Client
	Live      client.Reader
	Driver    driver.Driver
	Namespace string
	// Predecessors are the operators to watch for.
	Predecessors []*Predecessor
	// Accepts says which values of volumes and StorageClasses the new driver accepts.
	Accepts accept.Table
	// olds has such a table for each version of the predecessor's driver that still has node pods. It is empty if one of these versions is unknown.
	olds []accept.Table
	// Inheritable are the settings that the operator takes from a predecessor.
	Inheritable []driver.Setting
	Events      events.EventRecorder
	Now         func() time.Time

	applier *apply.Applier
	updater *nodes.Updater
	// surveyed is the time at which the operator last read the node pods. lastMoved is the progress of the migration at that time.
	surveyed  time.Time
	lastMoved Moved
	patience  status.Patience
	// clear is the result of function evidence at the last check that found no blocker. While the evidence is the same, the operator does not check
	// again. ran is true if a predecessor has run since this process started.
	clear string
	ran   bool
	// mine has the predecessors' namespaces that this operator may migrate. over has the namespaces whose migration is finished.
	mine, over map[string]bool
	// bindingsCleared is true if no superseded ClusterRoleBinding is left.
	bindingsCleared bool
	// configMapsCleared is true if no obsolete ConfigMap is left.
	configMapsCleared bool
	// revisions says, for each DaemonSet of a predecessor, whether the operator must still delete the DaemonSet's ControllerRevisions.
	revisions map[client.ObjectKey]bool
	// announced has the DaemonSets that the operator has already sent an event for.
	announced map[types.UID]bool
}

// State says what remains of a predecessor's driver, and what the administrator allows in a migration.
type State struct {
	// Blocker says why the operator must not apply anything. It is empty if nothing blocks the operator.
	Blocker string
	// SharesStatus is true if another operator writes the same conditions.
	SharesStatus bool
	// Again is the delay until the next reconcile if no event comes earlier; 0 means never.
	Again time.Duration
	// Old are the node pods of predecessors.
	Old []corev1.Pod
	// Inherited maps environment variables to the settings of the predecessor's controller. The operator stores the settings before it changes the
	// controller.
	Inherited map[string]string

	// accepted is true if the operator may replace node pods even on nodes in use.
	accepted bool
	// acceptsRefused is true if pods may lose volumes that the new driver refuses to mount.
	acceptsRefused bool
	apart          apart
}

// Blocked reports whether the operator must not apply anything.
func (s State) Blocked() bool { return s.Blocker != "" }

// Use sets the applier. The caller must call Use before all other methods.
func (m *Migration) Use(applier *apply.Applier) {
	m.applier = applier
	m.updater = &nodes.Updater{Client: m.Client, Live: m.Live, Driver: m.Driver.Name, IsOld: m.Driver.IsOld, Refuses: m.refuses, Now: m.Now}
	m.announced, m.revisions = map[types.UID]bool{}, map[client.ObjectKey]bool{}
}

// Observe finds leftovers of predecessors. It reads the predecessors' own namespaces live. It sends other requests to the API server only if the
// cache, or such a namespace, shows signs of a predecessor. Argument "ours" is our DaemonSet. It is nil if the DaemonSet does not exist.
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

// Remaining returns the same State as Observe, but does not look for blockers, because a removal does not need them.
func (m *Migration) Remaining(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (State, error) {
	state := State{
		accepted: cr.Annotations[AcceptRemountAnnotation] == "true", acceptsRefused: cr.Annotations[AcceptRefusedAnnotation] == "true",
	}
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

// nodePods lists the node pods in the operator's namespace for which function match returns true, whoever owns them.
func (m *Migration) nodePods(ctx context.Context, reader client.Reader, match func(*corev1.Pod) bool) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	isNodePod := client.MatchingLabelsSelector{Selector: driver.WithApp(m.Driver.NodeApps()...)}
	// The list shares the cached pods instead of copying them, because every reconcile reads all node pods.
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

// Reset drops the state of one ClusterCSIDriver.
func (m *Migration) Reset() {
	m.clear, m.mine, m.over, m.patience = "", nil, nil, status.Patience{}
	m.bindingsCleared, m.configMapsCleared, m.revisions = false, false, map[client.ObjectKey]bool{}
}

// Predecessor finds a predecessor by the name of its Deployment. It returns nil if no predecessor has this name.
func (m *Migration) Predecessor(operator string) *Predecessor {
	for _, predecessor := range m.Predecessors {
		if predecessor.Operator == operator {
			return predecessor
		}
	}
	return nil
}

// evidence returns a fingerprint of all signs of a predecessor. It returns an empty string if no sign exists. While the fingerprint is unchanged,
// findBlocker does not look for pods.
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

// othersCSIDriver returns the cached CSIDriver if it has another owner. If not, the result is nil.
func (m *Migration) othersCSIDriver(ctx context.Context) (*storagev1.CSIDriver, error) {
	found, err := apply.Newest[storagev1.CSIDriver](ctx, m.applier, client.ObjectKey{Name: m.Driver.Name})
	if err != nil || found == nil || m.applier.Owns(found) {
		return nil, err
	}
	return found, nil
}

// hasGenerations reports whether the status has the generation of a Deployment. Only a predecessor writes such a generation.
func (m *Migration) hasGenerations(cr *operatorv1.ClusterCSIDriver) bool {
	return slices.ContainsFunc(cr.Status.Generations, func(entry operatorv1.GenerationStatus) bool {
		return entry.Resource == "deployments" && entry.Namespace == m.Namespace && entry.Name == m.Driver.Deployment
	})
}
