package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/openshift"
)

const (
	// olmGroup is the API of the Operator Lifecycle Manager.
	olmGroup = "operators.coreos.com"
	// olmVersion is the kind that owns the Deployment of an operator.
	olmVersion = "ClusterServiceVersion"
	// olmCopied is on the copies of ClusterServiceVersions that it makes in all other namespaces.
	olmCopied = "olm.copiedFrom"
	// olmPage is how much is read at a time.
	olmPage = 500
	// ourPods is on pods of operators that the catalogue renders, and on none of OpenShift 4.5.
	ourPods = "openshift.storage.network-policy.dns"
)

// installed is what is left of an operator that OLM installed. Its parts are looked for in the order in which they go, and what comes
// after the first one that is there is not read.
type installed struct {
	subscriptions, versions, deployments, pods []client.Object
	// configuration is its custom resource, nil if there is none.
	configuration *unstructured.Unstructured
}

// lookForOLM reads from the cluster what is there of an operator that OLM installed, in whichever namespace and from whichever catalog.
// Only an administrator of the cluster can make its configuration: without one, no other object is reason enough to look for more, as
// anybody who may write in a namespace could have made it.
func (r *Reconciler) lookForOLM(ctx context.Context, former catalogue.Predecessor, known *retiring) (installed, error) {
	var found installed
	configuration := &unstructured.Unstructured{}
	configuration.SetGroupVersionKind(former.Configuration)
	switch err := r.Live.Get(ctx, client.ObjectKey{Name: openshift.Singleton}, configuration); {
	case isAbsent(err):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("look for %s %s: %w", former.Configuration.Kind, openshift.Singleton, err)
	}
	found.configuration = configuration
	var err error
	if found.subscriptions, err = r.subscriptions(ctx, former); err != nil || len(found.subscriptions) > 0 {
		return found, err
	}
	if found.versions, err = r.versions(ctx, former); err != nil || len(found.versions) > 0 {
		return found, err
	}
	if found.deployments, err = r.deploymentsOf(ctx, former); err != nil || len(found.deployments) > 0 {
		return found, err
	}
	found.pods, err = r.podsOf(ctx, former, known)
	return found, err
}

// subscriptions are those of the package. A mirrored catalog has any name, and so may the Subscription.
func (r *Reconciler) subscriptions(ctx context.Context, former catalogue.Predecessor) ([]client.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: olmGroup, Version: "v1alpha1", Kind: "SubscriptionList"})
	all, err := r.each(ctx, list)
	return slices.DeleteFunc(all, func(object client.Object) bool {
		subscription, ok := object.(*unstructured.Unstructured)
		return !ok || stringOf(subscription, "spec", "name") != former.Package
	}), err
}

// versions are the ClusterServiceVersions of the package. Copies go with them.
func (r *Reconciler) versions(ctx context.Context, former catalogue.Predecessor) ([]client.Object, error) {
	original, err := labels.NewRequirement(olmCopied, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select by label %s: %w", olmCopied, err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*original)}
	all, err := r.each(ctx, metadata(olmGroup, "v1alpha1", olmVersion), selector)
	return slices.DeleteFunc(all, func(version client.Object) bool { return !isVersionOf(version.GetName(), former) }), err
}

// deploymentsOf are those of the operator. The new operator may have the same name, but no ClusterServiceVersion owns it. Kubernetes
// deletes what names an owner of a UID that is not there, so that a Deployment with the name of an owner alone holds nothing up for long.
// Labels are no proof: anybody may set them.
func (r *Reconciler) deploymentsOf(ctx context.Context, former catalogue.Predecessor) ([]client.Object, error) {
	named := client.MatchingFields{"metadata.name": former.Deployment}
	all, err := r.each(ctx, metadata("apps", "v1", "Deployment"), named)
	return slices.DeleteFunc(all, func(deployment client.Object) bool { return !isOwned(deployment, former) }), err
}

// isVersionOf tells whether a ClusterServiceVersion of that name is of the package.
func isVersionOf(name string, former catalogue.Predecessor) bool {
	return strings.HasPrefix(name, former.Package+".")
}

// isOwned tells whether an object is of a ClusterServiceVersion of the package: OLM makes that an owner of the Deployments that it
// installs (operator-lifecycle-manager, pkg/controller/install/deployment.go, AddNonBlockingOwner).
func isOwned(object client.Object, former catalogue.Predecessor) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		group, _ := schema.ParseGroupVersion(owner.APIVersion)
		return group.Group == olmGroup && owner.Kind == olmVersion && isVersionOf(owner.Name, former)
	})
}

// podsOf are the pods of the operator that have not ended. When its Deployment has gone, nothing else says where they are, so that the
// first look is for those of all namespaces, and each one after it for those where the first has found some.
func (r *Reconciler) podsOf(ctx context.Context, former catalogue.Predecessor, known *retiring) ([]client.Object, error) {
	running := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)}
	if known.podsIn == nil {
		all, err := r.each(ctx, metadata("", "v1", "Pod"), running)
		if err != nil {
			return nil, err
		}
		known.podsIn = map[string]bool{}
		all = slices.DeleteFunc(all, func(pod client.Object) bool { return !isPodOf(pod, former) })
		for _, pod := range all {
			known.podsIn[pod.GetNamespace()] = true
		}
		return all, nil
	}
	var found []client.Object
	for _, namespace := range slices.Sorted(maps.Keys(known.podsIn)) {
		all, err := r.each(ctx, metadata("", "v1", "Pod"), running, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(all, func(pod client.Object) bool { return !isPodOf(pod, former) })...)
	}
	return found, nil
}

// isPodOf tells whether a pod is one of the old operator. A Deployment of the new operator has pods of the same name.
func isPodOf(pod client.Object, former catalogue.Predecessor) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || (pod.GetNamespace() == catalogue.Namespace && pod.GetLabels()[ourPods] != "") {
		return false
	}
	hash, ok := strings.CutPrefix(owner.Name, former.Deployment+"-")
	return ok && !strings.Contains(hash, "-")
}

// each reads all objects of a list, page by page. A kind that the cluster does not serve has none.
func (r *Reconciler) each(ctx context.Context, list client.ObjectList, options ...client.ListOption) ([]client.Object, error) {
	kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
	var found []client.Object
	for {
		page := append(slices.Clone(options), client.Limit(olmPage), client.Continue(list.GetContinue()))
		err := r.Live.List(ctx, list, page...)
		if isAbsent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for what OLM installed: list %ss: %w", kind, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("look for what OLM installed: list of %ss: %w", kind, err)
		}
		for _, item := range items {
			// The next page may be read into the same memory.
			if object, ok := item.DeepCopyObject().(client.Object); ok {
				// Items of a list do not say of which kind they are.
				gvk := list.GetObjectKind().GroupVersionKind()
				object.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(kind))
				found = append(found, object)
			}
		}
		if list.GetContinue() == "" {
			return found, nil
		}
	}
}

// isAbsent tells whether a kind or an object is not there.
func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// lendRights lets the operator of a driver of this repository take over what runs in the namespace of the old driver. It drops the
// binding itself when nothing is left there. Where nothing is, no binding is made.
func (r *Reconciler) lendRights(ctx context.Context, entry catalogue.Entry) error {
	namespace := entry.Predecessor.Namespace
	if !entry.Builtin || namespace == "" {
		return nil
	}
	runs, err := r.runsIn(ctx, entry, namespace)
	if err != nil || !runs {
		return err
	}
	name := entry.Operator + "-role"
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &rbacv1.RoleBinding{})
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
	binding.SetLabels(ownLabels())
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(binding), client.FieldOwner(catalogue.Operator)); err != nil {
		return fmt.Errorf("let %s take over the driver in namespace %s: RoleBinding %s: %w", entry.Operator, namespace, name, err)
	}
	ctrl.LoggerFrom(ctx).Info("the driver that OLM's operator ran is handed over", "driver", entry.Name, "namespace", namespace)
	return nil
}

// runsIn tells whether workloads of a driver, or their pods, are in another namespace than ours are.
func (r *Reconciler) runsIn(ctx context.Context, entry catalogue.Entry, namespace string) (bool, error) {
	for _, workload := range entry.Workloads {
		object := &metav1.PartialObjectMetadata{}
		object.APIVersion, object.Kind = "apps/v1", workload.Kind
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload.Name}, object)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for the driver that OLM's operator ran: %w", err)
		}
		pods := &corev1.PodList{}
		if err := r.Live.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": workload.Name}, client.Limit(1)); err != nil {
			return false, fmt.Errorf("look for the driver that OLM's operator ran: list pods in namespace %s: %w", namespace, err)
		}
		if len(pods.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}
