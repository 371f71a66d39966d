package olm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

const (
	// group is the API of the Operator Lifecycle Manager.
	group = "operators.coreos.com"
	// versionKind is the kind that owns the Deployment of an operator.
	versionKind = "ClusterServiceVersion"
	// copied is on the copies of ClusterServiceVersions that it makes in all other namespaces.
	copied = "olm.copiedFrom"
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

// find reads from the cluster what is there of an operator that OLM installed, in whichever namespace and from whichever catalog. Only an
// administrator of the cluster can make its configuration: without one, no other object is reason enough to look for more, as anybody
// who may write in a namespace could have made it.
func (o *Operators) find(ctx context.Context, old catalogue.Predecessor, known *removal) (installed, error) {
	var found installed
	configuration := &unstructured.Unstructured{}
	configuration.SetGroupVersionKind(old.Configuration)
	switch err := o.Live.Get(ctx, client.ObjectKey{Name: openshift.Singleton}, configuration); {
	case isAbsent(err):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("look for %s %s: %w", old.Configuration.Kind, openshift.Singleton, err)
	}
	found.configuration = configuration
	var err error
	if found.subscriptions, err = o.subscriptions(ctx, old); err != nil || len(found.subscriptions) > 0 {
		return found, err
	}
	if found.versions, err = o.versions(ctx, old); err != nil || len(found.versions) > 0 {
		return found, err
	}
	if found.deployments, err = o.deployments(ctx, old); err != nil || len(found.deployments) > 0 {
		return found, err
	}
	found.pods, err = o.pods(ctx, old, known)
	return found, err
}

// subscriptions are those of the package. A mirrored catalog has any name, and so may the Subscription.
func (o *Operators) subscriptions(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "SubscriptionList"})
	all, err := o.each(ctx, list)
	return slices.DeleteFunc(all, func(object client.Object) bool {
		subscription, ok := object.(*unstructured.Unstructured)
		return !ok || stringOf(subscription, "spec", "name") != old.Package
	}), err
}

// versions are the ClusterServiceVersions of the package. Copies go with them.
func (o *Operators) versions(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	original, err := labels.NewRequirement(copied, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select by label %s: %w", copied, err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*original)}
	all, err := o.each(ctx, metadata(group, "v1alpha1", versionKind), selector)
	return slices.DeleteFunc(all, func(version client.Object) bool { return !isVersionOf(version.GetName(), old) }), err
}

// deployments are those of the operator. The new operator may have the same name, but no ClusterServiceVersion owns it. Kubernetes
// deletes what names an owner of a UID that is not there, so that a Deployment with the name of an owner alone holds nothing up for long.
// Labels are no proof: anybody may set them.
func (o *Operators) deployments(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	named := client.MatchingFields{"metadata.name": old.Deployment}
	all, err := o.each(ctx, metadata("apps", "v1", "Deployment"), named)
	return slices.DeleteFunc(all, func(deployment client.Object) bool { return !isOwned(deployment, old) }), err
}

// isVersionOf reports whether a ClusterServiceVersion of that name is of the package.
func isVersionOf(name string, old catalogue.Predecessor) bool {
	return strings.HasPrefix(name, old.Package+".")
}

// isOwned reports whether an object is of a ClusterServiceVersion of the package: OLM makes that an owner of the Deployments that it
// installs (operator-lifecycle-manager, pkg/controller/install/deployment.go, AddNonBlockingOwner).
func isOwned(object client.Object, old catalogue.Predecessor) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		parsed, _ := schema.ParseGroupVersion(owner.APIVersion)
		return parsed.Group == group && owner.Kind == versionKind && isVersionOf(owner.Name, old)
	})
}

// pods are those of the operator that have not ended. When its Deployment has gone, nothing else says where they are, so that the
// first look is for those of all namespaces, and each one after it for those where the first has found some.
func (o *Operators) pods(ctx context.Context, old catalogue.Predecessor, known *removal) ([]client.Object, error) {
	running := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)}
	if known.podsIn == nil {
		all, err := o.each(ctx, metadata("", "v1", "Pod"), running)
		if err != nil {
			return nil, err
		}
		known.podsIn = map[string]bool{}
		all = slices.DeleteFunc(all, func(pod client.Object) bool { return !isPodOf(pod, old) })
		for _, pod := range all {
			known.podsIn[pod.GetNamespace()] = true
		}
		return all, nil
	}
	var found []client.Object
	for _, namespace := range slices.Sorted(maps.Keys(known.podsIn)) {
		all, err := o.each(ctx, metadata("", "v1", "Pod"), running, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(all, func(pod client.Object) bool { return !isPodOf(pod, old) })...)
	}
	return found, nil
}

// isPodOf reports whether a pod is one of the predecessor. A Deployment of the new operator has pods of the same name.
func isPodOf(pod client.Object, old catalogue.Predecessor) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || (pod.GetNamespace() == catalogue.Namespace && pod.GetLabels()[ourPods] != "") {
		return false
	}
	hash, ok := strings.CutPrefix(owner.Name, old.Deployment+"-")
	return ok && !strings.Contains(hash, "-")
}

// each reads all objects of a list, page by page. A kind that the cluster does not serve has none.
func (o *Operators) each(ctx context.Context, list client.ObjectList, options ...client.ListOption) ([]client.Object, error) {
	kinds := list.GetObjectKind().GroupVersionKind()
	kind := kinds.GroupVersion().WithKind(strings.TrimSuffix(kinds.Kind, "List"))
	var found []client.Object
	var broken error
	err := volume.EachPage(ctx, o.Live, list, func(page client.ObjectList) {
		items, err := meta.ExtractList(page)
		if err != nil {
			broken = fmt.Errorf("look for what OLM installed: list of %ss: %w", kind.Kind, err)
		}
		for _, item := range items {
			// The next page may be read into the same memory.
			if object, ok := item.DeepCopyObject().(client.Object); ok {
				// Items of a list do not say of which kind they are.
				object.GetObjectKind().SetGroupVersionKind(kind)
				found = append(found, object)
			}
		}
	}, options...)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for what OLM installed: list %ss: %w", kind.Kind, err)
	default:
		return found, broken
	}
}

// isAbsent reports whether a kind or an object is not there.
func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// metadata is a list of objects of which nothing but the metadata is read.
func metadata(group, version, kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	return list
}

func stringOf(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
