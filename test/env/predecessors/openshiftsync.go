package predecessors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/test/env"
)

// SyncOpenShift does what OpenShift's operator does in one round with the objects of its driver, as openshift/csi-operator f7f9dc59 does it
// with its vendored library-go: labels and annotations are merged, all else is set by an update, nothing but a CSIDriver is ever made anew, and
// what fails is reported at the end (pkg/operator/resource/resourceapply/rbac.go, storage.go and generic.go;
// pkg/operator/staticresourcecontroller/static_resource_controller.go). It puts its finalizers on the ClusterCSIDriver.
func SyncOpenShift(ctx context.Context, c *env.Cluster, namespace string) error {
	var problems []error
	for _, object := range OpenShift(namespace) {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return syncOpenShift(ctx, c, object) })
		if err != nil {
			problems = append(problems, fmt.Errorf("%T %s: %w", object, object.GetName(), err))
		}
	}
	cr := env.EFS("")
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		for _, finalizer := range OpenShiftFinalizers()[:2] {
			if !slices.Contains(cr.Finalizers, finalizer) {
				cr.Finalizers = append(cr.Finalizers, finalizer)
			}
		}
		return c.Client.Update(ctx, cr, client.FieldOwner(env.OperatorName))
	})
	return errors.Join(append(problems, err)...)
}

func syncOpenShift(ctx context.Context, c *env.Cluster, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, c.Scheme)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(content, "status")
	wanted, live := &unstructured.Unstructured{Object: content}, &unstructured.Unstructured{}
	wanted.SetGroupVersionKind(kind)
	live.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(wanted.Object, "metadata", "creationTimestamp")
	err = c.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return c.Client.Create(ctx, wanted, client.FieldOwner(env.OperatorName))
	}
	if err != nil {
		return err
	}
	const hash = "operator.openshift.io/spec-hash"
	if _, isDriver := object.(*storagev1.CSIDriver); isDriver && live.GetAnnotations()[hash] != wanted.GetAnnotations()[hash] {
		if err := c.Client.Delete(ctx, live); err != nil {
			return err
		}
		return c.Client.Create(ctx, wanted, client.FieldOwner(env.OperatorName))
	}
	merged := func(have, want map[string]string) map[string]string {
		all := map[string]string{}
		maps.Copy(all, have)
		maps.Copy(all, want)
		return all
	}
	live.SetLabels(merged(live.GetLabels(), wanted.GetLabels()))
	live.SetAnnotations(merged(live.GetAnnotations(), wanted.GetAnnotations()))
	for field, value := range wanted.Object {
		spec, isMap := value.(map[string]any)
		have, hasMap := live.Object[field].(map[string]any)
		switch {
		case field == "metadata" || field == "kind" || field == "apiVersion":
		case kind.Kind == "Service" && isMap && hasMap:
			// What the API server has chosen, such as the address, stays.
			maps.Copy(have, spec)
		default:
			live.Object[field] = value
		}
	}
	return c.Client.Update(ctx, live, client.FieldOwner(env.OperatorName))
}
