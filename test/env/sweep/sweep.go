// Package sweep takes a cluster back to what it was, so that the next test can have it.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env/stored"
)

// State is every object of a cluster as it was, under its stored.NameOf. Events and leases are not in it.
type State map[string]*unstructured.Unstructured

// Cluster is one that is swept.
type Cluster struct {
	Client client.Client
	Store  *stored.Store
}

// Record reads every object.
func (c Cluster) Record(ctx context.Context) (State, error) {
	objects, err := c.Store.Objects(ctx)
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, object := range objects {
		kinds[object.GroupVersionKind()] = true
	}
	state := State{}
	for kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			state[stored.NameOf(object)] = object
		}
	}
	return state, nil
}

// Settled returns an error if something changed until a later state.
func (s State) Settled(later State) error {
	if len(s) != len(later) {
		return fmt.Errorf("%d objects, before %d", len(later), len(s))
	}
	for name, object := range later {
		if before := s[name]; before == nil || before.GetResourceVersion() != object.GetResourceVersion() {
			return errors.New("new or changed: " + name)
		}
	}
	return nil
}

// Forget deletes all events and the leases of programs that have ended: a test looks for events by the names of objects, and a program that was
// killed holds its lease for minutes.
func (c Cluster) Forget(ctx context.Context) error {
	namespaces := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, namespaces); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		name, kinds := namespaces.Items[i].Name, []client.Object{&corev1.Event{}}
		if !strings.HasPrefix(name, "kube-") {
			kinds = append(kinds, &coordinationv1.Lease{})
		}
		if err := c.forget(ctx, name, kinds...); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes all objects of some kinds in a namespace.
func (c Cluster) forget(ctx context.Context, namespace string, kinds ...client.Object) error {
	for _, kind := range kinds {
		if err := c.Client.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("delete every %T of namespace %s: %w", kind, namespace, err)
		}
	}
	return nil
}

// Sweep deletes what is not in a state, changes back what was changed and makes again what is missing. It does what can be done now, and returns an
// error that says what was still to be done.
func (c Cluster) Sweep(ctx context.Context, state State) error {
	objects, err := c.Store.Objects(ctx)
	if err != nil {
		return err
	}
	found, isFilled := map[string]*metav1.PartialObjectMetadata{}, map[string]bool{}
	for _, object := range objects {
		found[stored.NameOf(object)] = object.DeepCopy()
		isFilled[object.Namespace] = true
	}
	var work []func() error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if object := found[name]; state[name] == nil {
			remove := c.remove
			if object.Kind == "Namespace" && object.DeletionTimestamp != nil && !isFilled[object.Name] {
				remove = c.finalize
			}
			work = append(work, func() error { return errors.Join(errors.New("new: "+name), remove(ctx, object)) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state)) {
		switch object, wanted := found[name], state[name]; {
		case object == nil:
			work = append(work, func() error { return errors.Join(errors.New("gone: "+name), c.restore(ctx, wanted)) })
		case object.ResourceVersion != wanted.GetResourceVersion():
			work = append(work, func() error { return c.revert(ctx, name, wanted) })
		}
	}
	return sideBySide(work)
}

// sideBySide does a few things at a time.
func sideBySide(work []func() error) error {
	failures := make([]error, len(work))
	var group sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, one := range work {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			failures[i] = one()
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// remove deletes an object. No program that has set a finalizer is there any more.
func (c Cluster) remove(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	switch object.Kind {
	case "APIService", "Endpoints", "EndpointSlice":
		// They follow what they are made for.
		return nil
	}
	isKept := object.Kind == "Namespace" || object.Kind == "CustomResourceDefinition"
	if object.DeletionTimestamp == nil {
		at := client.Preconditions{UID: &object.UID}
		err := c.Client.Delete(ctx, object, at, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground))
		return ignoreGone(err)
	}
	if len(object.Finalizers) == 0 || isKept {
		return nil
	}
	return ignoreGone(c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// finalize ends a namespace in which nothing is left. The namespace controller would wait for 5 s, in case another API server does not know yet
// that the namespace ends (namespaceDeletionGracePeriod in pkg/controller/namespace/namespace_controller.go of Kubernetes 1.36.3).
func (c Cluster) finalize(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	if err := c.forget(ctx, object.Name, &corev1.Event{}, &coordinationv1.Lease{}); err != nil {
		return err
	}
	namespace := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), namespace); err != nil {
		return ignoreGone(err)
	}
	if namespace.UID != object.UID {
		return nil
	}
	namespace.Spec.Finalizers = nil
	return ignoreGone(c.Client.SubResource("finalize").Update(ctx, namespace))
}

// ignoreGone forgives what the next look shows.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// restore makes an object that was deleted. What a controller makes is left to it.
func (c Cluster) restore(ctx context.Context, wanted *unstructured.Unstructured) error {
	if len(wanted.GetOwnerReferences()) > 0 {
		return nil
	}
	object := wanted.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "metadata", "uid")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	return client.IgnoreAlreadyExists(c.Client.Create(ctx, object))
}

// revert changes an object back, with its status.
func (c Cluster) revert(ctx context.Context, name string, wanted *unstructured.Unstructured) error {
	live := wanted.DeepCopy()
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return err
	}
	isSame, isSameStatus := sameContent(live, wanted), sameStatus(live, wanted)
	if isSame && isSameStatus {
		// The next look is spared this one.
		wanted.SetResourceVersion(live.GetResourceVersion())
		return nil
	}
	object := wanted.DeepCopy()
	for _, field := range []string{"uid", "creationTimestamp"} {
		value, _, err := unstructured.NestedFieldCopy(live.Object, "metadata", field)
		if err == nil {
			err = unstructured.SetNestedField(object.Object, value, "metadata", field)
		}
		if err != nil {
			return fmt.Errorf("change back %s: %w", name, err)
		}
	}
	object.SetResourceVersion(live.GetResourceVersion())
	object.SetManagedFields(nil)
	changed := errors.New("changed: " + name)
	if !isSame {
		return errors.Join(changed, ignoreGone(c.Client.Update(ctx, object)))
	}
	return errors.Join(changed, ignoreGone(c.Client.Status().Update(ctx, object)))
}

// sameContent compares what a test can change of an object, but for its status.
func sameContent(live, wanted *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(content(live), content(wanted))
}

func content(object *unstructured.Unstructured) map[string]any {
	kept := object.DeepCopy()
	metadata := map[string]any{
		"labels": kept.GetLabels(), "annotations": kept.GetAnnotations(), "finalizers": kept.GetFinalizers(), "deleted": kept.GetDeletionTimestamp() != nil,
	}
	if object.GetKind() == "ServiceAccount" {
		// They name Secrets that have other names when they are made again.
		unstructured.RemoveNestedField(kept.Object, "imagePullSecrets")
		unstructured.RemoveNestedField(kept.Object, "secrets")
	}
	delete(kept.Object, "status")
	kept.Object["metadata"] = metadata
	return kept.Object
}

// sameStatus compares the status of kinds that no controller of Kubernetes reports in: where one does, it comes to the same by itself.
func sameStatus(live, wanted *unstructured.Unstructured) bool {
	switch group := live.GroupVersionKind().Group; {
	case live.GetKind() == "Node":
		return equality.Semantic.DeepEqual(conditions(live), conditions(wanted))
	case strings.HasSuffix(group, ".openshift.io"):
		return equality.Semantic.DeepEqual(live.Object["status"], wanted.Object["status"])
	default:
		return true
	}
}

// conditions are those of a node without their times.
func conditions(node *unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	list, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	for _, entry := range list {
		if condition, ok := entry.(map[string]any); ok {
			found[fmt.Sprint(condition["type"])] = condition["status"]
		}
	}
	return found
}
