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

// read returns the ClusterCSIDriver as the cache or our own latest write has it, whichever is newer; nil if absent. The cache may show for a
// moment one that this operator has just let go.
func (r *Reconciler) read(ctx context.Context, name string) (*operatorv1.ClusterCSIDriver, error) {
	cr, err := apply.Newest[operatorv1.ClusterCSIDriver](ctx, r.applier, client.ObjectKey{Name: name})
	if cr != nil && cr.UID == r.gone {
		return nil, err
	}
	return cr, err
}

// addFinalizer makes sure that the driver is removed before the ClusterCSIDriver goes.
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
	return r.adopt(cr, patch)
}

// keepInherited keeps what a predecessor has decided in spec.observedConfig: its arguments are gone with the first apply.
func (r *Reconciler) keepInherited(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found map[string]string) error {
	if migration.Keeps(cr, found) {
		return nil
	}
	patch := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	patch.Object["spec"] = migration.ObservedConfig(found)
	// A field manager of its own: the operator's owns the finalizer.
	owner := client.FieldOwner(r.Driver.Operator + "-inherited")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("keep settings of a predecessor in spec.observedConfig: %w", err)
	}
	r.reporter.say(cr, corev1.EventTypeNormal, eventSettingsKept, "kept: "+strings.Join(migration.InheritedNotes(found), "; "))
	return r.adopt(cr, patch)
}

// dropFinalizers removes the finalizers that match. The resource version keeps it from dropping one
// that somebody else has added meanwhile.
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
		// With the last finalizer it has gone.
		cr.Finalizers = nil
		r.applier.Mutations.Forget(subject(cr.Name))
		return nil
	}
	return r.adopt(cr, target)
}

func (r *Reconciler) isOurs(finalizer string) bool {
	return finalizer == r.Driver.Finalizer() || r.Driver.IsLegacy(finalizer)
}

// adopt goes on with the answer to a write instead of the older copy from the cache.
func (r *Reconciler) adopt(cr *operatorv1.ClusterCSIDriver, answer *unstructured.Unstructured) error {
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
