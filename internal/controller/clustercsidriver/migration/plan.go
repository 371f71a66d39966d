package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Plan says what the operator would do for the ClusterCSIDriver. The ClusterCSIDriver need not exist yet.
type Plan struct {
	// Namespace is the operator's namespace.
	Namespace string `json:"namespace"`
	// Blocker says what the administrator must remove first. It is empty if nothing blocks the migration.
	Blocker string `json:"obstacle,omitempty"`
	// Objects are the planned objects, sorted by action, kind and name.
	Objects []PlannedObject `json:"objects"`
	// Nodes are the nodes with a pod of a predecessor, in the order of replacement.
	Nodes []PlannedNode `json:"nodes"`
	// AtOnce is how many node pods the operator replaces at a time.
	AtOnce int `json:"atOnce"`
	// Kept describes the settings that the operator takes from the predecessor.
	Kept []string `json:"kept,omitempty"`
	// Predecessor names the versions of the predecessor's driver. It is empty if they are unknown.
	Predecessor []string `json:"predecessor,omitempty"`
	// Changes are values that the predecessor accepted and that the new driver refuses, or treats in another way.
	Changes []PlannedChange `json:"changes,omitempty"`
	// Problems lists settings that the operator can't apply.
	Problems []string `json:"problems,omitempty"`
}

// The actions of a PlannedObject. An adopted object keeps its UID, and this operator becomes its owner.
const (
	PlanCreate = "create"
	PlanAdopt  = "adopt"
	PlanChange = "change"
	PlanKeep   = "keep"
	PlanDelete = "delete"
)

// PlannedObject is an object and what the operator would do with the object.
type PlannedObject struct {
	Action    string `json:"action"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Note says why the operator acts, or when.
	Note string `json:"note,omitempty"`
}

// PlannedNode is a node with a pod of a predecessor.
type PlannedNode struct {
	Node string `json:"node"`
	Pod  string `json:"pod"`
	// Waits is true if the node must wait because pods use volumes there. UsedBy lists these pods as "namespace/pod".
	Waits  bool     `json:"waits"`
	UsedBy []string `json:"usedBy,omitempty"`
	// Refused lists the pods in UsedBy that use volumes that the new driver refuses to mount.
	Refused []string `json:"refused,omitempty"`
}

// Preview returns the State for a Plan. Unlike Observe, it reads the inherited settings even if something blocks the migration.
func (m *Migration) Preview(ctx context.Context, cr *operatorv1.ClusterCSIDriver, ours *appsv1.DaemonSet) (State, error) {
	state, err := m.Observe(ctx, cr, ours)
	if err == nil && state.Blocked() {
		state.Inherited, err = m.inherited(ctx, cr)
	}
	return state, err
}

// Plan returns what the operator would do to apply the objects. It needs only the fields Client, Live, Driver, Namespace, Predecessors, Inheritable
// and Now.
func (m *Migration) Plan(ctx context.Context, state State, objects []client.Object) (Plan, error) {
	plan := Plan{
		Namespace: m.Namespace, Blocker: state.Blocker, Kept: InheritedNotes(state.Inherited),
		Objects: []PlannedObject{}, Nodes: []PlannedNode{},
	}
	charted, err := m.isCharted(ctx)
	if err != nil {
		return plan, err
	}
	if err := m.previewChanges(ctx, objects, charted, &plan); err != nil {
		return plan, err
	}
	if err := m.previewLeftovers(ctx, state, &plan); err != nil {
		return plan, err
	}
	plan.Sort()
	if err := m.previewChanged(ctx, objects, &plan); err != nil {
		return plan, err
	}
	if charted {
		// The administrator must delete the chart's DaemonSet, so the operator does not replace its pods one by one.
		return plan, nil
	}
	return plan, m.previewNodes(ctx, state, &plan)
}

func (m *Migration) previewChanges(ctx context.Context, objects []client.Object, charted bool, plan *Plan) error {
	changes := m.applier.Preview(ctx, objects)
	if err := changes.With(apply.Failed).Err(); err != nil {
		return err
	}
	for _, change := range changes {
		action, note := PlanKeep, ""
		switch {
		case charted && change.Subject.Kind == "DaemonSet":
			action, note = PlanCreate, "when the DaemonSet of the Helm release is deleted: its selector can't be changed"
		case change.Action == apply.Created:
			action = PlanCreate
		case change.Adopted:
			action = PlanAdopt
		case change.Action == apply.Configured:
			action = PlanChange
		case change.LegacyOwned:
			action, note = PlanChange, "only the label or owner of the predecessor is removed"
		case change.Action == apply.LeftAlone:
			note = "has another owner"
		case change.Action == apply.Terminating:
			note = "is being deleted; it will be recreated"
		}
		plan.add(action, change.Subject, note)
	}
	outdated, err := m.applier.Outdated(ctx, objects)
	if err != nil {
		return fmt.Errorf("list outdated objects: %w", err)
	}
	for _, object := range outdated {
		plan.add(PlanDelete, apply.SubjectOf(object), "no longer needed")
	}
	return nil
}

// previewLeftovers adds the objects that the operator would delete because only a predecessor needs them. Most of them stay until the predecessor's
// last pod has ended.
func (m *Migration) previewLeftovers(ctx context.Context, state State, plan *Plan) error {
	note := ""
	if len(state.Old) > 0 {
		note = "when the predecessor has no pods left"
	}
	for _, predecessor := range m.Predecessors {
		left, err := predecessor.leftovers(ctx)
		if err != nil {
			return err
		}
		bindings, err := m.superseded(ctx, predecessor.ClusterRoleBindings)
		if err != nil {
			return err
		}
		err = errors.Join(
			m.previewDeletions(plan, note, left...),
			m.previewDeletions(plan, "replaced by a ClusterRoleBinding of another name", bindings...),
		)
		if err != nil {
			return err
		}
	}
	renamed, err := m.renamed(ctx, state)
	if err != nil {
		return err
	}
	for i := range renamed {
		if err := m.previewDeletions(plan, "its pods stay until they are replaced", &renamed[i]); err != nil {
			return err
		}
		history, err := m.revisionsOf(ctx, client.ObjectKeyFromObject(&renamed[i]), func(revision *appsv1.ControllerRevision) bool {
			return metav1.IsControlledBy(revision, &renamed[i])
		})
		if err != nil {
			return err
		}
		for j := range history {
			if err := m.previewDeletions(plan, "", &history[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Migration) previewDeletions(plan *Plan, note string, objects ...client.Object) error {
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, m.Client.Scheme())
		if err != nil {
			return fmt.Errorf("kind of %T %s: %w", object, object.GetName(), err)
		}
		plan.add(PlanDelete, apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}, note)
	}
	return nil
}

// previewNodes adds the nodes to the plan, in the order of replacement. It lists for each node the pods that use volumes there.
func (m *Migration) previewNodes(ctx context.Context, state State, plan *Plan) error {
	all := &corev1.NodeList{}
	if err := m.Live.List(ctx, all, client.MatchingLabels{corev1.LabelOSStable: "linux"}); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	found, err := m.survey(ctx, state, nil, len(all.Items))
	if err != nil {
		return err
	}
	plan.AtOnce = found.Most()
	for _, name := range left(found) {
		node := found.Nodes[name]
		plan.Nodes = append(plan.Nodes, PlannedNode{
			Node: name, Pod: node.Old.Name, Waits: node.InUse() && (!state.accepted || found.Holds(node)), UsedBy: node.Users,
			Refused: node.Refused,
		})
	}
	return nil
}

func (p *Plan) add(action string, subject apply.Subject, note string) {
	p.Objects = append(p.Objects, PlannedObject{
		Action: action, Kind: subject.Kind, Namespace: subject.Namespace, Name: subject.Name, Note: note,
	})
}

// Sort orders the objects by action, kind and name.
func (p *Plan) Sort() {
	order := []string{PlanDelete, PlanAdopt, PlanChange, PlanCreate, PlanKeep}
	slices.SortStableFunc(p.Objects, func(a, b PlannedObject) int {
		if by := slices.Index(order, a.Action) - slices.Index(order, b.Action); by != 0 {
			return by
		}
		return strings.Compare(a.Kind+"/"+a.Namespace+"/"+a.Name, b.Kind+"/"+b.Namespace+"/"+b.Name)
	})
}

// OperatorNamespace returns the namespace in which this operator is installed. If the operator is not installed yet, OperatorNamespace returns the
// namespace of the driver's node pods. The operator must run there, because it can adopt only node pods in its own namespace. Without node pods, or
// with node pods in several namespaces, the result is an empty string.
func (m *Migration) OperatorNamespace(ctx context.Context) (string, error) {
	deployments := &appsv1.DeploymentList{}
	if err := m.Live.List(ctx, deployments, client.MatchingFields{"metadata.name": m.Driver.Operator}); err != nil {
		return "", fmt.Errorf("look for Deployment %s: %w", m.Driver.Operator, err)
	}
	var installed *appsv1.Deployment
	for i := range deployments.Items {
		// OpenShift's operator has the same name. It is no copy of this operator, because it lacks YieldsAnnotation.
		if one := &deployments.Items[i]; yields(one) && (installed == nil || comesBefore(one, installed)) {
			installed = one
		}
	}
	if installed != nil {
		return installed.Namespace, nil
	}
	plugins, err := m.plugins(ctx)
	found := map[string]bool{}
	for i := range plugins {
		// This operator can't adopt pods of a Helm release, so such pods don't count here.
		if plugins[i].Labels[releaseLabel] == "" {
			found[plugins[i].Namespace] = true
		}
	}
	if names := slices.Collect(maps.Keys(found)); len(names) == 1 {
		return names[0], err
	}
	return "", err
}

// isCharted reports whether a Helm release owns the DaemonSet with the name of our DaemonSet. This operator can't adopt a DaemonSet of a Helm
// release, because its selector is immutable.
func (m *Migration) isCharted(ctx context.Context) (bool, error) {
	existing := &appsv1.DaemonSet{}
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.DaemonSet}, existing)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read DaemonSet %s: %w", m.Driver.DaemonSet, err)
	}
	return existing.Spec.Selector != nil && existing.Spec.Selector.MatchLabels[releaseLabel] != "", nil
}
