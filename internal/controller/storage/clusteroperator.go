package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// unmanaged reports Unknown for all conditions. It keeps the versions and the related objects.
func (r *reporter) unmanaged(ctx context.Context, w *seen) (time.Duration, error) {
	state := configv1.ClusterOperatorStatus{Conditions: status.UnknownClusterOperator(string(operatorv1.Unmanaged),
		"while spec.managementState of Storage \"cluster\" is Unmanaged, the operator changes nothing and reports nothing")}
	if w.clusterOperator != nil {
		state.Versions, state.RelatedObjects = w.clusterOperator.Status.Versions, w.clusterOperator.Status.RelatedObjects
	}
	// The earlier conditions will be outdated when the Storage becomes Managed again.
	r.last = nil
	return r.reportOperator(ctx, w, state)
}

// reportOperator writes the status of the ClusterOperator if the status has changed. It returns the delay until the next reconcile.
func (r *reporter) reportOperator(ctx context.Context, w *seen, wanted configv1.ClusterOperatorStatus) (time.Duration, error) {
	operator, err := r.ensureOperator(ctx, w)
	if err != nil {
		return 0, err
	}
	have := operator.Status
	wanted.Conditions = status.MergeClusterOperator(have.Conditions, wanted.Conditions, metav1.NewTime(w.now).Rfc3339Copy())
	wait, err := r.operator.Write(ctx, status.Report{
		Target:  apply.Target(configv1.GroupVersion.WithKind("ClusterOperator"), operator),
		Have:    &configv1.ClusterOperatorStatus{Versions: have.Versions, RelatedObjects: have.RelatedObjects, Conditions: ownOf(have, wanted)},
		Want:    &wanted,
		Without: []string{"extension"},
	})
	if err != nil || wait > 0 {
		return wait, err
	}
	emit(r.events, operator, have, wanted)
	return 0, nil
}

// ownOf returns the conditions of a ClusterOperator without the conditions of other programs.
func ownOf(have, wanted configv1.ClusterOperatorStatus) []configv1.ClusterOperatorStatusCondition {
	return slices.DeleteFunc(slices.Clone(have.Conditions), func(condition configv1.ClusterOperatorStatusCondition) bool {
		return status.FindClusterOperator(wanted.Conditions, condition.Type) == nil
	})
}

// ensureOperator returns the ClusterOperator. It creates the ClusterOperator if it does not exist.
func (r *reporter) ensureOperator(ctx context.Context, w *seen) (*configv1.ClusterOperator, error) {
	if w.clusterOperator != nil {
		return w.clusterOperator, nil
	}
	kind := configv1.GroupVersion.WithKind("ClusterOperator")
	target := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	target.SetGroupVersionKind(kind)
	target.SetName(clusterOperatorName)
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(catalogue.Operator)); err != nil {
		return nil, fmt.Errorf("create ClusterOperator %s: %w", clusterOperatorName, err)
	}
	r.remember(target)
	operator := &configv1.ClusterOperator{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(target.Object, operator); err != nil {
		return nil, fmt.Errorf("convert ClusterOperator %s: %w", clusterOperatorName, err)
	}
	return operator, nil
}

// related lists the objects that must-gather and other tools read.
func related(namespace string, scope Scope, results []result) []configv1.ObjectReference {
	found := []configv1.ObjectReference{
		{Resource: "namespaces", Name: namespace},
		{Resource: "namespaces", Name: catalogue.Namespace},
		{Group: operatorv1.GroupName, Resource: "storages", Name: openshift.Singleton},
		// The RBAC of this program.
		{Group: rbacv1.GroupName, Resource: "clusterroles", Name: catalogue.Operator},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: catalogue.Operator},
	}
	for i := range results {
		entry := results[i].entry
		if results[i].removal.done {
			continue
		}
		found = append(found, configv1.ObjectReference{Group: operatorv1.GroupName, Resource: driversResource, Name: entry.Name})
		for _, object := range scope.objects[entry.Name] {
			kind := object.GetObjectKind().GroupVersionKind()
			if scope.serves(kind.GroupKind()) {
				found = append(found, reference(kind, client.ObjectKeyFromObject(object)))
			}
			if role, bound := boundRole(object); bound && !slices.Contains(found, role) {
				found = append(found, role)
			}
		}
		for _, workload := range entry.Workloads {
			if space := (configv1.ObjectReference{Resource: "namespaces", Name: workload.Namespace}); !slices.Contains(found, space) {
				found = append(found, space)
			}
		}
	}
	return found
}

// boundRole returns the ClusterRole that a binding refers to. A catalogue entry has no object for this ClusterRole, because the release creates it.
func boundRole(object client.Object) (role configv1.ObjectReference, bound bool) {
	switch binding := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		role.Name = binding.RoleRef.Name
	case *rbacv1.RoleBinding:
		role.Name = binding.RoleRef.Name
	default:
		return role, false
	}
	role.Group, role.Resource = rbacv1.GroupName, "clusterroles"
	return role, true
}

func reference(kind schema.GroupVersionKind, key client.ObjectKey) configv1.ObjectReference {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return configv1.ObjectReference{Group: kind.Group, Resource: plural.Resource, Namespace: key.Namespace, Name: key.Name}
}

func versionsOf(operator *configv1.ClusterOperator) []configv1.OperandVersion {
	if operator == nil {
		return nil
	}
	return operator.Status.Versions
}
