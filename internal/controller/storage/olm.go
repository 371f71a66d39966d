package storage

import (
	"context"
	"fmt"
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
)

const (
	// olmGroup is the API of the Operator Lifecycle Manager.
	olmGroup = "operators.coreos.com"
	// olmOwner is what it puts on the Deployment of an operator: the name of the ClusterServiceVersion.
	olmOwner = "olm.owner"
	// olmCopied is on the copies of ClusterServiceVersions that it makes in all other namespaces.
	olmCopied = "olm.copiedFrom"
	// olmPage is how much is read at a time.
	olmPage = 500
	// ourPods is on pods of operators that the catalogue renders, and on none of OpenShift 4.5.
	ourPods = "openshift.storage.network-policy.dns"
)

// installed is what is in the cluster of an operator that OLM installed.
type installed struct {
	subscriptions, versions, deployments, pods []client.Object
	// configuration is its custom resource, nil if there is none.
	configuration *unstructured.Unstructured
}

func (i installed) nothing() bool {
	return len(i.subscriptions)+len(i.versions)+len(i.deployments) == 0 && i.configuration == nil
}

// lookForOLM reads from the cluster what is there of an operator that OLM installed, in whichever namespace and from whichever catalog.
func (r *Reconciler) lookForOLM(ctx context.Context, former catalogue.Predecessor) (installed, error) {
	var found installed
	var err error
	if found.subscriptions, err = r.subscriptions(ctx, former); err != nil {
		return found, err
	}
	// The new operator may have the same name, but OLM has not made it.
	deployments := metadata("apps", "v1", "Deployment")
	named := client.MatchingFields{"metadata.name": former.Deployment}
	if found.deployments, err = r.each(ctx, deployments, named, client.HasLabels{olmOwner}); err != nil {
		return found, err
	}
	if found.versions, err = r.versions(ctx, former, found.deployments); err != nil {
		return found, err
	}
	configuration := &unstructured.Unstructured{}
	configuration.SetGroupVersionKind(former.Configuration)
	switch err := r.Live.Get(ctx, client.ObjectKey{Name: singleton}, configuration); {
	case err == nil:
		found.configuration = configuration
	case !isAbsent(err):
		return found, fmt.Errorf("look for %s %s: %w", former.Configuration.Kind, singleton, err)
	}
	if found.configuration == nil || len(found.subscriptions)+len(found.versions)+len(found.deployments) > 0 {
		// It is not their turn yet, and the list is that of all pods.
		return found, nil
	}
	found.pods, err = r.podsOf(ctx, former)
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

// versions are the ClusterServiceVersions of the package, or whichever the Deployments belong to. Copies go with them.
func (r *Reconciler) versions(ctx context.Context, former catalogue.Predecessor, deployments []client.Object) ([]client.Object, error) {
	owners := map[client.ObjectKey]bool{}
	for _, deployment := range deployments {
		owners[client.ObjectKey{Namespace: deployment.GetNamespace(), Name: deployment.GetLabels()[olmOwner]}] = true
	}
	original, err := labels.NewRequirement(olmCopied, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select by label %s: %w", olmCopied, err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*original)}
	all, err := r.each(ctx, metadata(olmGroup, "v1alpha1", "ClusterServiceVersion"), selector)
	return slices.DeleteFunc(all, func(version client.Object) bool {
		return !strings.HasPrefix(version.GetName(), former.Package+".v") && !owners[client.ObjectKeyFromObject(version)]
	}), err
}

// podsOf are the pods of the operator that have not ended, wherever they are: when its Deployment has gone, nothing else says where. A
// Deployment of the new operator has pods of the same name.
func (r *Reconciler) podsOf(ctx context.Context, former catalogue.Predecessor) ([]client.Object, error) {
	all, err := r.each(ctx, metadata("", "v1", "Pod"), client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)})
	return slices.DeleteFunc(all, func(pod client.Object) bool {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "ReplicaSet" || (pod.GetNamespace() == catalogue.Namespace && pod.GetLabels()[ourPods] != "") {
			return true
		}
		hash, ok := strings.CutPrefix(owner.Name, former.Deployment+"-")
		return !ok || strings.Contains(hash, "-")
	}), err
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
