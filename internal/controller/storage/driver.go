package storage

import (
	"context"
	"encoding/json"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// ensure creates the ClusterCSIDriver of a catalogue entry. If the ClusterCSIDriver exists, ensure sets NotWantedAnnotation to argument "reason", or
// removes the annotation if the reason is empty. It also sets managementState if that field is empty. All other fields belong to the administrator.
func (r *Reconciler) ensure(
	ctx context.Context, entry catalogue.Entry, driver *operatorv1.ClusterCSIDriver, reason string,
) (*operatorv1.ClusterCSIDriver, error) {
	switch {
	case driver == nil:
		return r.create(ctx, entry, reason)
	case driver.DeletionTimestamp != nil:
		// The end of the ClusterCSIDriver's deletion triggers a reconcile.
		return driver, nil
	}
	patch := map[string]any{}
	if driver.Spec.ManagementState == "" {
		patch["spec"] = map[string]any{"managementState": operatorv1.Managed}
	}
	metadata := map[string]any{"uid": driver.UID, "resourceVersion": driver.ResourceVersion}
	if have, annotated := driver.Annotations[openshift.NotWantedAnnotation]; have != reason || (annotated && reason == "") {
		// In a merge patch, null removes the annotation.
		annotation := map[string]any{openshift.NotWantedAnnotation: nil}
		if reason != "" {
			annotation[openshift.NotWantedAnnotation] = reason
		}
		metadata["annotations"] = annotation
	}
	if len(patch) == 0 && metadata["annotations"] == nil {
		return driver, nil
	}
	patch["metadata"] = metadata
	encoded, err := json.Marshal(patch)
	if err != nil {
		return driver, fmt.Errorf("encode ClusterCSIDriver %s: %w", entry.Name, err)
	}
	target := r.driverObject(entry.Name)
	err = r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, encoded), client.FieldOwner(catalogue.Operator))
	if err != nil {
		return driver, fmt.Errorf("change ClusterCSIDriver %s: %w", entry.Name, err)
	}
	return apply.RememberAs[operatorv1.ClusterCSIDriver](r.applier.Mutations, target)
}

func (r *Reconciler) create(ctx context.Context, entry catalogue.Entry, reason string) (*operatorv1.ClusterCSIDriver, error) {
	target := r.driverObject(entry.Name)
	target.Object["spec"] = map[string]any{
		"managementState": string(operatorv1.Managed), "logLevel": string(operatorv1.Normal), "operatorLogLevel": string(operatorv1.Normal),
	}
	if reason != "" {
		target.SetAnnotations(map[string]string{openshift.NotWantedAnnotation: reason})
	}
	regarding := target.DeepCopy()
	if err := r.put(ctx, target, "", ", which configures the driver "+entry.Title); err != nil {
		r.Events.Eventf(regarding, nil, corev1.EventTypeWarning, eventCreateFailed, action, "%s", err)
		return nil, err
	}
	return apply.RememberAs[operatorv1.ClusterCSIDriver](r.applier.Mutations, target)
}

// createWith creates a ClusterCSIDriver with the settings of the operator that OLM installed.
func (r *Reconciler) createWith(ctx context.Context, name string, spec map[string]any) error {
	target := r.driverObject(name)
	target.Object["spec"] = spec
	if err := r.put(ctx, target, " with the settings of the operator that OLM installed", ""); err != nil {
		return err
	}
	r.applier.Mutations.Remember(target)
	return nil
}

// put creates a ClusterCSIDriver, and sends an event. The parameters "with" and "purpose" are the end of the event's text. put uses server-side
// apply, because RBAC can limit a request to a name only if the URL contains the name. If an administrator created the object first, server-side
// apply keeps the administrator's fields.
func (r *Reconciler) put(ctx context.Context, target *unstructured.Unstructured, with, purpose string) error {
	name := target.GetName()
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(catalogue.Operator))
	if err != nil {
		return fmt.Errorf("create ClusterCSIDriver %s%s: %w", name, with, err)
	}
	r.Events.Eventf(target.DeepCopy(), nil, corev1.EventTypeNormal, eventCreated, action, "%s", "created ClusterCSIDriver "+name+with+purpose)
	return nil
}

func (r *Reconciler) driverObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(openshift.ClusterCSIDriverKind())
	object.SetName(name)
	return object
}
