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
	// group is the API group of the Operator Lifecycle Manager.
	group = "operators.coreos.com"
	// versionKind is the kind that owns the Deployment of an operator.
	versionKind = "ClusterServiceVersion"
	// copied is the label of copies of ClusterServiceVersions. OLM creates such copies in all other namespaces.
	copied = "olm.copiedFrom"
	// ourPods is a label on the pods of operators that the catalogue renders. The pods of operators of OpenShift 4.5 lack this label.
	ourPods = "openshift.storage.network-policy.dns"
)

// installed has the remaining parts of an operator that OLM installed. find reads the parts in the order of their removal, up to the first part that
// exists.
type installed struct {
	subscriptions, versions, deployments, pods []client.Object
	// configuration is the custom resource of the operator. It is nil if absent.
	configuration *unstructured.Unstructured
}

// find reads, without the cache, what remains of an operator that OLM installed from any catalog in any namespace. If the configuration is absent,
// find reads nothing else, because tenants could have created the other objects. Only a cluster administrator can create the configuration.
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

// subscriptions lists the Subscriptions of the package. It selects by package only, because the Subscriptions and mirrored catalogs can have any
// name.
func (o *Operators) subscriptions(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "SubscriptionList"})
	all, err := o.each(ctx, list)
	return slices.DeleteFunc(all, func(object client.Object) bool {
		subscription, ok := object.(*unstructured.Unstructured)
		return !ok || stringOf(subscription, "spec", "name") != old.Package
	}), err
}

// versions lists the ClusterServiceVersions of the package. It omits OLM's copies, because OLM deletes them itself.
func (o *Operators) versions(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	original, err := labels.NewRequirement(copied, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select by label %s: %w", copied, err)
	}
	selector := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*original)}
	all, err := o.each(ctx, metadata(group, "v1alpha1", versionKind), selector)
	return slices.DeleteFunc(all, func(version client.Object) bool { return !isVersionOf(version.GetName(), old) }), err
}

// deployments lists the operator's Deployments that a ClusterServiceVersion owns. The owner matters, because the new operator may have the same name.
// A tenant can't block the removal for long with a faked owner, because garbage collection deletes objects whose owner's UID does not exist. Labels
// prove nothing, because any user can set them.
func (o *Operators) deployments(ctx context.Context, old catalogue.Predecessor) ([]client.Object, error) {
	named := client.MatchingFields{"metadata.name": old.Deployment}
	all, err := o.each(ctx, metadata("apps", "v1", "Deployment"), named)
	return slices.DeleteFunc(all, func(deployment client.Object) bool { return !isOwned(deployment, old) }), err
}

// isVersionOf reports whether a ClusterServiceVersion belongs to the package. Only its name shows that.
func isVersionOf(name string, old catalogue.Predecessor) bool {
	return strings.HasPrefix(name, old.Package+".")
}

// isOwned reports whether a ClusterServiceVersion of the package owns an object. OLM sets such an owner on Deployments (operator-lifecycle-manager
// 07b7aa7, pkg/controller/install/deployment.go, AddNonBlockingOwner).
func isOwned(object client.Object, old catalogue.Predecessor) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		parsed, _ := schema.ParseGroupVersion(owner.APIVersion)
		return parsed.Group == group && owner.Kind == versionKind && isVersionOf(owner.Name, old)
	})
}

// pods lists the operator's running pods. After the deletion of the Deployment, this program does not know the namespace of the pods. So the first
// call lists pods in all namespaces, and later calls only in namespaces where the first call found pods.
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

// isPodOf reports whether a pod belongs to the predecessor. Pods of the new operator may have the same name.
func isPodOf(pod client.Object, old catalogue.Predecessor) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || (pod.GetNamespace() == catalogue.Namespace && pod.GetLabels()[ourPods] != "") {
		return false
	}
	hash, ok := strings.CutPrefix(owner.Name, old.Deployment+"-")
	return ok && !strings.Contains(hash, "-")
}

// each lists all objects, page by page. It returns no objects if the cluster does not serve the kind.
func (o *Operators) each(ctx context.Context, list client.ObjectList, options ...client.ListOption) ([]client.Object, error) {
	kinds := list.GetObjectKind().GroupVersionKind()
	kind := kinds.GroupVersion().WithKind(strings.TrimSuffix(kinds.Kind, "List"))
	var found []client.Object
	var broken error
	err := volume.EachPage(ctx, o.Live, list, func(page client.ObjectList) {
		items, err := meta.ExtractList(page)
		if err != nil {
			broken = fmt.Errorf("find objects of the operator that OLM installed: list of %ss: %w", kind.Kind, err)
		}
		for _, item := range items {
			// The function keeps a copy, because the next page may reuse the memory.
			if object, ok := item.DeepCopyObject().(client.Object); ok {
				// The items of a list lack their kind.
				object.GetObjectKind().SetGroupVersionKind(kind)
				found = append(found, object)
			}
		}
	}, options...)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find objects of the operator that OLM installed: list %ss: %w", kind.Kind, err)
	default:
		return found, broken
	}
}

// isAbsent reports whether a kind or an object does not exist.
func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// metadata returns an empty list of a kind. A client that fills this list reads only the metadata of the objects.
func metadata(group, version, kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	return list
}

func stringOf(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
