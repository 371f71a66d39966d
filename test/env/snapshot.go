package env

import (
	"context"
	"errors"
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

	"github.com/csi-operators/csi-operators/test/env/stored"
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

// Objects is the metadata of every object in the cluster, as stored.Store has it.
func (c *Cluster) Objects(ctx context.Context) ([]*metav1.PartialObjectMetadata, error) {
	return c.store.Objects(ctx)
}

// Take records every object in the cluster.
func (c *Cluster) Take(ctx context.Context) (Snapshot, error) {
	objects, err := c.Objects(ctx)
	snapshot := Snapshot{}
	for _, object := range objects {
		if !belongsToDefinition(object) {
			snapshot[stored.NameOf(object)] = string(object.UID)
		}
	}
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
	objects, err := c.Objects(ctx)
	var found []metav1.PartialObjectMetadata
	for _, object := range objects {
		if !belongsToDefinition(object) && earlier[stored.NameOf(object)] != string(object.UID) {
			found = append(found, *object.DeepCopy())
		}
	}
	return found, err
}

// AwaitSame waits until the objects in the cluster are those of an earlier snapshot.
func (c *Cluster) AwaitSame(ctx context.Context, what string, before Snapshot) error {
	return Await(ctx, what, func() error {
		after, err := c.Take(ctx)
		return errors.Join(err, before.Differs(after))
	})
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
	all, err := c.OwnedMetadata(ctx, operator)
	if err != nil {
		return nil, err
	}
	label := client.MatchingLabels{managedBy: operator}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, object := range all {
		kinds[object.GroupVersionKind()] = true
	}
	var found []unstructured.Unstructured
	for kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := c.Client.List(ctx, list, label)
		if apierrors.IsNotFound(err) {
			// Its CustomResourceDefinition has just gone.
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

// OwnedMetadata is the metadata of what OwnedOf lists, without a request to the API server.
func (c *Cluster) OwnedMetadata(ctx context.Context, operator string) ([]*metav1.PartialObjectMetadata, error) {
	all, err := c.Objects(ctx)
	return slices.DeleteFunc(all, func(object *metav1.PartialObjectMetadata) bool {
		return object.Labels[managedBy] != operator || !appliedBy(object, operator) || belongsToDefinition(object)
	}), err
}

// managedBy is the label that names the operator of an object.
const managedBy = "app.kubernetes.io/managed-by"

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
