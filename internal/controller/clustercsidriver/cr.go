package clustercsidriver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// read returns the ClusterCSIDriver from the cache or from our latest write, whichever is newer. It returns nil if the ClusterCSIDriver is absent, or
// if this operator has just removed it. A lagging cache can still have a removed ClusterCSIDriver.
func (r *Reconciler) read(ctx context.Context, name string) (*operatorv1.ClusterCSIDriver, error) {
	cr, err := apply.Newest[operatorv1.ClusterCSIDriver](ctx, r.applier, client.ObjectKey{Name: name})
	if cr != nil && cr.UID == r.removedUID {
		return nil, err
	}
	return cr, err
}

// addFinalizer adds our finalizer, so that the operator can remove the driver before the API server deletes the ClusterCSIDriver.
func (r *Reconciler) addFinalizer(ctx context.Context, cr *operatorv1.ClusterCSIDriver) error {
	finalizer := r.Driver.Finalizer()
	if !r.Driver.Removable || slices.Contains(cr.Finalizers, finalizer) {
		return nil
	}
	patch := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	patch.SetFinalizers([]string{finalizer})
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(r.Driver.Operator), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("add finalizer %s: %w", finalizer, err)
	}
	return r.refresh(cr, patch)
}

// keepInherited stores a predecessor's settings in spec.observedConfig, because the operator's first apply overwrites the arguments of the
// predecessor's controller.
func (r *Reconciler) keepInherited(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found map[string]string) error {
	if migration.Keeps(cr, found) {
		return nil
	}
	patch := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	patch.Object["spec"] = migration.ObservedConfig(found)
	// This patch lacks the finalizer. So it has its own field manager: an apply by the operator's usual field manager would remove the finalizer.
	owner := client.FieldOwner(r.Driver.Operator + "-inherited")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("write the settings of the predecessor's controller into spec.observedConfig of ClusterCSIDriver %s: %w", cr.Name, err)
	}
	r.reporter.record(cr, corev1.EventTypeNormal, eventSettingsKept,
		"this operator keeps a predecessor's settings: "+strings.Join(migration.InheritedNotes(found), "; "))
	return r.refresh(cr, patch)
}

// dropFinalizers removes the finalizers for which function match returns true. The patch contains the resourceVersion. So the API server rejects the
// patch if another client has just changed the finalizers.
func (r *Reconciler) dropFinalizers(ctx context.Context, cr *operatorv1.ClusterCSIDriver, match func(string) bool) error {
	kept := slices.DeleteFunc(slices.Clone(cr.Finalizers), match)
	if len(kept) == len(cr.Finalizers) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": kept, "resourceVersion": cr.ResourceVersion, "uid": cr.UID,
	}})
	if err != nil {
		return fmt.Errorf("encode finalizers: %w", err)
	}
	target := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("drop finalizers: %w", err)
	}
	if cr.DeletionTimestamp != nil && len(kept) == 0 {
		// The patch dropped the last finalizer, so the API server deletes the object.
		cr.Finalizers = nil
		r.applier.Mutations.Evict(subject(cr.Name))
		return nil
	}
	return r.refresh(cr, target)
}

func (r *Reconciler) isOurs(finalizer string) bool {
	return finalizer == r.Driver.Finalizer() || r.Driver.IsLegacy(finalizer)
}

// refresh replaces the content of cr with the API server's answer to a write.
func (r *Reconciler) refresh(cr *operatorv1.ClusterCSIDriver, answer *unstructured.Unstructured) error {
	newest, err := apply.RememberAs[operatorv1.ClusterCSIDriver](r.applier.Mutations, answer)
	if err != nil {
		return err
	}
	newest.DeepCopyInto(cr)
	return nil
}

func subject(name string) apply.Subject {
	return apply.Subject{GroupVersionKind: openshift.ClusterCSIDriverKind(), ObjectKey: client.ObjectKey{Name: name}}
}
