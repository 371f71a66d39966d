package storage

import (
	"context"
	"fmt"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/status"
)

// cluster answers reads, and remembers what was applied and deleted. Nothing else can be written to it.
type cluster struct {
	client.Client
	scheme  *runtime.Scheme
	objects []client.Object
	// applied are names, deleted are kinds and names.
	applied, deleted []string
	// reads are the kinds that were read, a list with its namespace.
	reads []string
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{scheme: scheme, objects: objects}
}

func (c *cluster) Scheme() *runtime.Scheme { return c.scheme }

func (c *cluster) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", into, err)
	}
	c.reads = append(c.reads, kind.Kind)
	for _, object := range c.objects {
		if has, err := apiutil.GVKForObject(object, c.scheme); err != nil || has != kind || client.ObjectKeyFromObject(object) != key {
			continue
		}
		return c.convert(object, into)
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

func (c *cluster) convert(from, into client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	if to, ok := into.(runtime.Unstructured); ok {
		to.SetUnstructuredContent(fields)
		return nil
	}
	if _, partly := into.(*metav1.PartialObjectMetadata); partly {
		fields = map[string]any{"metadata": fields["metadata"]}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	return nil
}

func (c *cluster) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", list, err)
	}
	want := (&client.ListOptions{}).ApplyOptions(options)
	c.reads = append(c.reads, kind.Kind+" "+want.Namespace)
	var found []runtime.Object
	for _, object := range c.objects {
		has, err := apiutil.GVKForObject(object, c.scheme)
		if err == nil && has.Group == kind.Group && has.Kind+"List" == kind.Kind &&
			(want.Namespace == "" || want.Namespace == object.GetNamespace()) &&
			(want.FieldSelector == nil || want.FieldSelector.Matches(fields.Set{"metadata.name": object.GetName()})) &&
			(want.LabelSelector == nil || want.LabelSelector.Matches(labels.Set(object.GetLabels()))) {
			found = append(found, object)
		}
	}
	if err := meta.SetList(list, found); err != nil {
		return fmt.Errorf("fill %T: %w", list, err)
	}
	return nil
}

func (c *cluster) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	named, ok := object.(interface{ GetName() string })
	if !ok {
		return fmt.Errorf("%T has no name", object)
	}
	c.applied = append(c.applied, named.GetName())
	return nil
}

func (c *cluster) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	c.deleted = append(c.deleted, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	return nil
}

// reconcilerOf works on a cluster, at the time of all tests.
func reconcilerOf(c *cluster, entries ...catalogue.Entry) *Reconciler {
	now := func() time.Time { return at }
	return &Reconciler{
		Client: c, Live: c, Conflicts: c, Events: events.NewFakeRecorder(10), Catalogue: entries, Scope: Scope{Entries: entries}, Version: "2", Now: now,
		failures: &status.Failures{Now: now}, rollouts: &status.Rollouts{Now: now}, volumes: map[string]volumes{},
		retired: map[string]bool{}, retirings: map[string]*retiring{},
		applier: &apply.Applier{Client: c, Live: c, FieldManager: catalogue.Operator, Labels: client.MatchingLabels(ownLabels()), Mutations: apply.NewMutationCache()},
	}
}

func infrastructure(name configv1.PlatformType) *configv1.Infrastructure {
	return &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}, Status: *platform(name)}
}
