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

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/status"
)

// Nothing of what OLM and Kubernetes remove is watched. It is looked for again after retireInterval, and after twice as long each time that
// nothing has changed, but for retireLimit at most.
const (
	retireInterval = time.Second
	retireLimit    = 2 * time.Minute
)

// retirement is how far the operator of a driver that OLM installed is removed.
type retirement struct {
	// message says what is waited for; empty if nothing is.
	message string
	// done means that nothing is in the way of the entry.
	done bool
	// again is when to look once more although no event may come.
	again time.Duration
}

// retiring is what is remembered of a removal between two looks.
type retiring struct {
	// last is what the last look found, pause how long the next one waits, and due when it is.
	last  retirement
	pause time.Duration
	due   time.Time
	// podsIn are the namespaces in which the operator had pods when its Deployment had gone; nil until then.
	podsIn map[string]bool
}

// retireWhenDue is retire, unless that has been done a moment ago: events of other objects come at any time, and each look is many requests.
func (r *Reconciler) retireWhenDue(ctx context.Context, entry catalogue.Entry) (retirement, error) {
	known := r.retirings[entry.Name]
	if known == nil {
		known = &retiring{}
		r.retirings[entry.Name] = known
	}
	if wait := known.due.Sub(r.Now()); wait > 0 {
		waits := known.last
		waits.again = wait
		return waits, nil
	}
	found, err := r.retire(ctx, entry, known)
	if err != nil || found.done {
		return found, err
	}
	known.wait(&found, r.Now())
	return found, nil
}

// wait says when to look again, after a look that has found something.
func (k *retiring) wait(found *retirement, now time.Time) {
	if found.message == k.last.message {
		k.pause = min(2*k.pause, retireLimit)
	} else {
		k.pause = retireInterval
	}
	found.again = k.pause
	k.last, k.due = *found, now.Add(k.pause)
}

// retire removes the operator of a driver that OLM installed in OpenShift 4.5, and leaves the driver running. Until it is done, the entry
// is not applied. Whoever goes on after a restart finds out from the cluster where the last one was.
//
// The order is what keeps the driver: without its Subscription OLM installs nothing anew, without its ClusterServiceVersion the operator
// ends, and only after its last pod the finalizer goes by which it would remove the driver. The configuration is the last to go, and where
// there is none, nothing is deleted.
func (r *Reconciler) retire(ctx context.Context, entry catalogue.Entry, known *retiring) (retirement, error) {
	former := *entry.Predecessor
	found, err := r.lookForOLM(ctx, former, known)
	if err != nil {
		return retirement{}, err
	}
	if found.configuration == nil {
		return retirement{done: true}, r.lendRights(ctx, entry)
	}
	if err := r.keepSettings(ctx, entry, found.configuration); err != nil {
		return retirement{}, err
	}
	waiting := func(format string, args ...any) (retirement, error) {
		return retirement{message: fmt.Sprintf("the operator of %s that OLM installed is replaced: ", entry.Title) + fmt.Sprintf(format, args...)}, nil
	}
	switch {
	case len(found.subscriptions) > 0:
		if err := r.deleteAll(ctx, found.subscriptions); err != nil {
			return retirement{}, err
		}
		return waiting("removing %s", namesOf(found.subscriptions))
	case len(found.versions) > 0:
		if err := r.deleteAll(ctx, found.versions); err != nil {
			return retirement{}, err
		}
		return waiting("removing %s", namesOf(found.versions))
	case len(found.deployments) > 0:
		first := client.ObjectKeyFromObject(found.deployments[0])
		return waiting("waiting until OLM has removed %s; if that lasts: oc delete deployment %s -n %s",
			namesOf(found.deployments), first.Name, first.Namespace)
	case len(found.pods) > 0:
		first := client.ObjectKeyFromObject(found.pods[0])
		return waiting("waiting for the end of %s; if that lasts: oc delete pod %s -n %s", namesOf(found.pods), first.Name, first.Namespace)
	default:
		if err := r.dropConfiguration(ctx, found.configuration); err != nil {
			return retirement{}, err
		}
		return waiting("removing %s %s", former.Configuration.Kind, openshift.Singleton)
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
		name := nameOf(object)
		if err := apply.DeleteRead(ctx, r.Client, object); err != nil {
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
