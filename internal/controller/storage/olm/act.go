package olm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// migrateSettings creates the ClusterCSIDriver with the settings that the administrator made for the predecessor. An existing ClusterCSIDriver has
// newer settings, and stays unchanged.
func (o *Operators) migrateSettings(ctx context.Context, driver string, old *unstructured.Unstructured) error {
	err := o.Live.Get(ctx, client.ObjectKey{Name: driver}, &operatorv1.ClusterCSIDriver{})
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("look for ClusterCSIDriver %s: %w", driver, err)
	}
	return o.Create(ctx, driver, settingsOf(old))
}

// settingsOf converts an old configuration into the spec of a ClusterCSIDriver. The configuration and the spec have the same three fields. State
// Removed becomes Managed, because the driver is part of the cluster now.
func settingsOf(old *unstructured.Unstructured) map[string]any {
	level := func(field string) string {
		known := []operatorv1.LogLevel{operatorv1.Normal, operatorv1.Debug, operatorv1.Trace, operatorv1.TraceAll}
		if value := stringOf(old, "spec", field); slices.Contains(known, operatorv1.LogLevel(value)) {
			return value
		}
		return string(operatorv1.Normal)
	}
	state := operatorv1.Managed
	if stringOf(old, "spec", "managementState") == string(operatorv1.Unmanaged) {
		state = operatorv1.Unmanaged
	}
	return map[string]any{"managementState": string(state), "logLevel": level("logLevel"), "operatorLogLevel": level("operatorLogLevel")}
}

// deleteAll deletes these objects. It does not delete an object that another client has recreated after this program read it. The next call of step
// finds out whether the objects are gone.
func (o *Operators) deleteAll(ctx context.Context, objects []client.Object) error {
	for _, object := range objects {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		name := apply.SubjectOf(object).String()
		if err := apply.DeleteRead(ctx, o.Writer, object); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		ctrl.LoggerFrom(ctx).Info("deleted an object of the operator that OLM installed", "object", name)
	}
	return nil
}

// dropConfiguration deletes the predecessor's configuration, and first drops its finalizers. With these finalizers, a predecessor that starts again
// would remove the running driver. The resourceVersion in the patch rules out that another client has just added finalizers.
func (o *Operators) dropConfiguration(ctx context.Context, old *unstructured.Unstructured) error {
	name := apply.SubjectOf(old).String()
	if len(old.GetFinalizers()) > 0 {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": nil, "uid": old.GetUID(), "resourceVersion": old.GetResourceVersion(),
		}})
		if err != nil {
			return fmt.Errorf("encode the finalizers of %s: %w", name, err)
		}
		deleted := old.GetDeletionTimestamp() != nil
		err = o.Writer.Patch(ctx, old, client.RawPatch(types.MergePatchType, patch))
		if apierrors.IsNotFound(err) || (err == nil && deleted) {
			// The configuration was already being deleted. It was gone when this program dropped the last finalizer.
			return nil
		}
		if err != nil {
			return fmt.Errorf("drop the finalizers of %s, so that the operator that OLM installed does not remove the driver: %w", name, err)
		}
	}
	if err := apply.DeleteRead(ctx, o.Writer, old); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted the configuration of the operator that OLM installed", "object", name)
	return nil
}

// bindRole grants an operator of this repository access to the namespace of the old driver, for the migration. That operator deletes the binding when
// the namespace has no part of the driver any more. If the namespace already has no part of the driver, bindRole creates no binding.
func (o *Operators) bindRole(ctx context.Context, entry catalogue.Entry) error {
	namespace := entry.Predecessor.Namespace
	if !entry.Moves() {
		return nil
	}
	runs, err := o.runsIn(ctx, entry, namespace)
	if err != nil || !runs {
		return err
	}
	name := entry.Operator + "-role"
	err = o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &rbacv1.RoleBinding{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		return err //nolint:wrapcheck // The message has kind, namespace and name.
	}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": catalogue.Namespace, "name": entry.Operator}},
	}}
	binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
	binding.SetNamespace(namespace)
	binding.SetName(name)
	binding.SetLabels(map[string]string{openshift.ManagedByLabel: catalogue.Operator})
	if err := o.Writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(binding), client.FieldOwner(catalogue.Operator)); err != nil {
		return fmt.Errorf("allow %s to change the driver in namespace %s: RoleBinding %s: %w", entry.Operator, namespace, name, err)
	}
	ctrl.LoggerFrom(ctx).Info("allowed the new operator to change the driver", "driver", entry.Name, "namespace", namespace)
	return nil
}

// runsIn reports whether a namespace has workloads of a driver, or pods of these workloads.
func (o *Operators) runsIn(ctx context.Context, entry catalogue.Entry, namespace string) (bool, error) {
	for _, workload := range entry.Workloads {
		object := &metav1.PartialObjectMetadata{}
		object.APIVersion, object.Kind = "apps/v1", workload.Kind
		err := o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload.Name}, object)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("find the driver of the operator that OLM installed: %w", err)
		}
		pods := &corev1.PodList{}
		if err := o.Live.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": workload.Name}, client.Limit(1)); err != nil {
			return false, fmt.Errorf("find the driver of the operator that OLM installed: list pods in namespace %s: %w", namespace, err)
		}
		if len(pods.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}
