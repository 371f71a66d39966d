package env

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Snapshot maps "Kind.group namespace/name" to the UID of every object in the cluster but what comes and goes by
// themselves: events, leases, the API server's internals, and what belongs to a CustomResourceDefinition.
type Snapshot map[string]string

// Kinds are all kinds that the API server can list.
func (c *Cluster) Kinds() ([]schema.GroupVersionKind, error) {
	api, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	lists, err := api.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	var kinds []schema.GroupVersionKind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discover kinds: %w", err)
		}
		for _, resource := range list.APIResources {
			switch resource.Kind {
			case "Event", "Lease", "PodMetrics", "NodeMetrics":
			default:
				if version.Group != "apiserver.k8s.io" && !strings.HasPrefix(version.Group, "internal.") {
					kinds = append(kinds, version.WithKind(resource.Kind))
				}
			}
		}
	}
	return kinds, nil
}

// Take records every object in the cluster.
func (c *Cluster) Take(ctx context.Context) (Snapshot, error) {
	kinds, err := c.Kinds()
	if err != nil {
		return nil, err
	}
	return c.takeOf(ctx, kinds)
}

func (c *Cluster) takeOf(ctx context.Context, kinds []schema.GroupVersionKind) (Snapshot, error) {
	snapshot := Snapshot{}
	err := c.each(ctx, kinds, func(name string, object *metav1.PartialObjectMetadata) {
		snapshot[name] = string(object.UID)
	})
	return snapshot, err
}

// HasPullSecrets returns an error until every ServiceAccount of OpenShift has its pull Secret, which is made a moment after it.
func (c *Cluster) HasPullSecrets(ctx context.Context) error {
	accounts := &corev1.ServiceAccountList{}
	if err := c.Client.List(ctx, accounts); err != nil {
		return err
	}
	for _, account := range accounts.Items {
		if strings.HasPrefix(account.Namespace, "openshift-") && len(account.ImagePullSecrets) == 0 {
			return fmt.Errorf("ServiceAccount %s/%s has no pull Secret yet", account.Namespace, account.Name)
		}
	}
	return nil
}

// Since lists the objects that are in the cluster and not in an earlier snapshot.
func (c *Cluster) Since(ctx context.Context, earlier Snapshot) ([]metav1.PartialObjectMetadata, error) {
	kinds, err := c.Kinds()
	if err != nil {
		return nil, err
	}
	var found []metav1.PartialObjectMetadata
	err = c.each(ctx, kinds, func(name string, object *metav1.PartialObjectMetadata) {
		if earlier[name] != string(object.UID) {
			found = append(found, *object)
		}
	})
	return found, err
}

// each visits every object of these kinds, under the name that it has in a Snapshot.
func (c *Cluster) each(ctx context.Context, kinds []schema.GroupVersionKind, visit func(string, *metav1.PartialObjectMetadata)) error {
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := c.Client.List(ctx, list)
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if belongsToDefinition(item) {
				continue
			}
			// The items of a list do not say their kind.
			item.SetGroupVersionKind(kind)
			visit(fmt.Sprintf("%s %s/%s", kind.GroupKind(), item.Namespace, item.Name), item)
		}
	}
	return nil
}

// AwaitSame waits until the objects in the cluster are those of an earlier snapshot. Before a look at all kinds it looks at those that go last, and
// after it at the kinds that differ: lists of all kinds are most of what a test asks the API server for.
func (c *Cluster) AwaitSame(ctx context.Context, what string, before Snapshot) error {
	// A kind that comes or goes is a CustomResourceDefinition that comes or goes.
	kinds, err := c.Kinds()
	if err != nil {
		return err
	}
	look := slices.DeleteFunc(slices.Clone(kinds), func(kind schema.GroupVersionKind) bool {
		return !slices.Contains([]string{"Pod", "ReplicaSet", "ControllerRevision", "EndpointSlice", "Secret"}, kind.Kind)
	})
	return Await(ctx, what, func() error {
		after, err := c.takeOf(ctx, look)
		if err == nil && len(look) < len(kinds) && before.of(look).Differs(after) == nil {
			look = kinds
			after, err = c.takeOf(ctx, look)
		}
		if err != nil {
			return err
		}
		differs := before.of(look).Differs(after)
		look = slices.DeleteFunc(slices.Clone(look), func(kind schema.GroupVersionKind) bool {
			return before.of([]schema.GroupVersionKind{kind}).Differs(after.of([]schema.GroupVersionKind{kind})) == nil
		})
		return differs
	})
}

// of are the objects of these kinds.
func (s Snapshot) of(kinds []schema.GroupVersionKind) Snapshot {
	found := Snapshot{}
	for name, uid := range s {
		for _, kind := range kinds {
			if strings.HasPrefix(name, kind.GroupKind().String()+" ") {
				found[name] = uid
			}
		}
	}
	return found
}

// Differs says what changed between two snapshots; nil if nothing did.
func (s Snapshot) Differs(later Snapshot) error {
	var lines []string
	for name, uid := range s {
		switch later[name] {
		case uid:
		case "":
			lines = append(lines, "gone: "+name)
		default:
			lines = append(lines, "made again: "+name)
		}
	}
	for name := range later {
		if _, before := s[name]; !before {
			lines = append(lines, "new: "+name)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	sort.Strings(lines)
	return fmt.Errorf("the cluster differs:\n  %s", strings.Join(lines, "\n  "))
}

// Owned lists all objects of the driver: they carry the operator's label and were applied by it. The label alone is not
// enough: the endpoints of a Service inherit its labels.
func (c *Cluster) Owned(ctx context.Context) ([]unstructured.Unstructured, error) {
	return c.OwnedOf(ctx, OperatorName)
}

// OwnedOf is Owned for the operator of another driver.
func (c *Cluster) OwnedOf(ctx context.Context, operator string) ([]unstructured.Unstructured, error) {
	kinds, err := c.Kinds()
	if err != nil {
		return nil, err
	}
	var found []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := c.Client.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/managed-by": operator})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			if appliedBy(&list.Items[i], operator) && !belongsToDefinition(&list.Items[i]) {
				found = append(found, list.Items[i])
			}
		}
	}
	return found, nil
}

// belongsToDefinition is true for the admission policies of an API, which come and go with it, not with the driver.
func belongsToDefinition(object metav1.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "CustomResourceDefinition" {
			return true
		}
	}
	return false
}

func appliedBy(object client.Object, operator string) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == operator && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}
