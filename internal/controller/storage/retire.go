package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/status"
)

// retireInterval is how soon to look again for what OLM and Kubernetes remove. Nothing of it is watched.
const retireInterval = time.Second

// retirement is how far the operator of a driver that OLM installed is removed.
type retirement struct {
	// message says what is waited for; empty if nothing is.
	message string
	// done means that nothing is in the way of the entry.
	done bool
	// again is when to look once more although no event may come.
	again time.Duration
}

// retire removes the operator of a driver that OLM installed in OpenShift 4.5, and leaves the driver running. Until it is done, the entry
// is not applied. Whoever goes on after a restart finds out from the cluster where the last one was.
//
// The order is what keeps the driver: without its Subscription OLM installs nothing anew, without its ClusterServiceVersion the operator
// ends, and only after its last pod the finalizer goes by which it would remove the driver.
func (r *Reconciler) retire(ctx context.Context, entry catalogue.Entry) (retirement, error) {
	former := *entry.Predecessor
	found, err := r.lookForOLM(ctx, former)
	if err != nil {
		return retirement{}, err
	}
	if found.nothing() {
		return retirement{done: true}, r.lendRights(ctx, entry)
	}
	if found.configuration == nil {
		// Without it the operator has installed nothing, so that nothing is waited for: anybody can make the other objects, and hold them.
		if err := r.deleteAll(ctx, slices.Concat(found.subscriptions, found.versions)); err != nil {
			return retirement{}, err
		}
		return retirement{done: true}, r.lendRights(ctx, entry)
	}
	if err := r.keepSettings(ctx, entry, found.configuration); err != nil {
		return retirement{}, err
	}
	waiting := func(format string, args ...any) (retirement, error) {
		return retirement{message: fmt.Sprintf(format, args...), again: retireInterval}, nil
	}
	switch {
	case len(found.subscriptions) > 0:
		if err := r.deleteAll(ctx, found.subscriptions); err != nil {
			return retirement{}, err
		}
		return waiting("the operator of %s that OLM installed is replaced: removing %s", entry.Title, namesOf(found.subscriptions))
	case len(found.versions) > 0:
		if err := r.deleteAll(ctx, found.versions); err != nil {
			return retirement{}, err
		}
		return waiting("the operator of %s that OLM installed is replaced: removing %s", entry.Title, namesOf(found.versions))
	case len(found.deployments) > 0:
		first := client.ObjectKeyFromObject(found.deployments[0])
		return waiting("the operator of %s that OLM installed is replaced: waiting until OLM has removed %s; if that lasts: oc delete deployment %s -n %s",
			entry.Title, namesOf(found.deployments), first.Name, first.Namespace)
	case len(found.pods) > 0:
		first := client.ObjectKeyFromObject(found.pods[0])
		return waiting("the operator of %s that OLM installed is replaced: waiting for the end of %s; if that lasts: oc delete pod %s -n %s",
			entry.Title, namesOf(found.pods), first.Name, first.Namespace)
	default:
		if err := r.dropConfiguration(ctx, found.configuration); err != nil {
			return retirement{}, err
		}
		return waiting("the operator of %s that OLM installed is replaced: removing %s %s", entry.Title, former.Configuration.Kind, singleton)
	}
}

// keepSettings makes the ClusterCSIDriver with what the administrator has set in the configuration of the old operator. One that is there
// has the administrator's newer word.
func (r *Reconciler) keepSettings(ctx context.Context, entry catalogue.Entry, old *unstructured.Unstructured) error {
	err := r.Live.Get(ctx, client.ObjectKey{Name: entry.Name}, &operatorv1.ClusterCSIDriver{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for ClusterCSIDriver %s: %w", entry.Name, err)
	}
	target := r.driverObject(entry.Name)
	target.Object["spec"] = settingsOf(old)
	if err := r.put(ctx, target, " with the settings of the operator that OLM installed", ""); err != nil {
		return err
	}
	_, err = r.remember(target)
	return err
}

// settingsOf is the spec of a ClusterCSIDriver with the settings of an old configuration, which may be absent. What it has in common with
// the old one are these three; a driver that was to be removed is part of the cluster now.
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

func stringOf(object *unstructured.Unstructured, path ...string) string {
	if object == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// deleteAll deletes objects that were read, and none that has taken the place of one. Their end is seen by the next look.
func (r *Reconciler) deleteAll(ctx context.Context, objects []client.Object) error {
	for _, object := range objects {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		uid, name := object.GetUID(), nameOf(object)
		if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		ctrl.LoggerFrom(ctx).Info("deleted what OLM installed", "object", name)
	}
	return nil
}

// dropConfiguration deletes the configuration of the old operator, without its finalizers: by these the operator, should anybody start it
// once more, would remove the driver that runs. The resource version says that nobody has put one on since.
func (r *Reconciler) dropConfiguration(ctx context.Context, old *unstructured.Unstructured) error {
	name := nameOf(old)
	if len(old.GetFinalizers()) > 0 {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": nil, "uid": old.GetUID(), "resourceVersion": old.GetResourceVersion(),
		}})
		if err != nil {
			return fmt.Errorf("encode the finalizers of %s: %w", name, err)
		}
		deleted := old.GetDeletionTimestamp() != nil
		err = r.Client.Patch(ctx, old, client.RawPatch(types.MergePatchType, patch))
		if apierrors.IsNotFound(err) || (err == nil && deleted) {
			// Somebody has deleted it before, and it has gone with the last finalizer.
			return nil
		}
		if err != nil {
			return fmt.Errorf("take the finalizers off %s, which would remove the driver: %w", name, err)
		}
	}
	uid, version := old.GetUID(), old.GetResourceVersion()
	err := r.Client.Delete(ctx, old, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted the configuration of the operator that OLM installed", "object", name)
	return nil
}

// nameOf is how messages call an object that was read.
func nameOf(object client.Object) string {
	name := object.GetObjectKind().GroupVersionKind().Kind + " "
	if namespace := object.GetNamespace(); namespace != "" {
		name += namespace + "/"
	}
	return name + object.GetName()
}

func namesOf(objects []client.Object) string {
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, nameOf(object))
	}
	slices.Sort(names)
	return status.Shorten(names)
}

// metadata is a list of objects of which nothing but the metadata is read.
func metadata(group, version, kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.APIVersion, list.Kind = group+"/"+version, kind+"List"
	if group == "" {
		list.APIVersion = version
	}
	return list
}
