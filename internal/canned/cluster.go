// Package canned answers reads from a list of objects, and notes what is written. It is for tests of what a controller makes of the answers.
// It knows no version, no conflict and no field manager: what the API server does is tested against a real one.
package canned

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Cluster has objects that never change by themselves. What is not implemented here, nobody may call.
type Cluster struct {
	client.Client
	// Objects are what is read.
	Objects []client.Object
	// Fail, if set, says which request fails: a kind that is read, a list with its namespace, or a write as in Writes.
	Fail func(request string) error
	// Reads are the kinds that were read, a list with its namespace. Writes are verb, kind and name, such as "delete Pod a". Bodies are what
	// was sent with each of them.
	Reads, Writes, Bodies []string

	scheme *runtime.Scheme
}

// New returns a cluster with objects of a scheme, and of kinds that name themselves.
func New(scheme *runtime.Scheme, objects ...client.Object) *Cluster {
	return &Cluster{scheme: scheme, Objects: objects}
}

// Scheme has the kinds.
func (c *Cluster) Scheme() *runtime.Scheme { return c.scheme }

// Status notes writes of a status as all others.
func (c *Cluster) Status() client.SubResourceWriter { return &statuses{c} }

// Get answers with a copy of an object.
func (c *Cluster) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", into, err)
	}
	if err := c.read(kind.Kind); err != nil {
		return err
	}
	for _, object := range c.Objects {
		if has, err := apiutil.GVKForObject(object, c.scheme); err == nil && has == kind && client.ObjectKeyFromObject(object) == key {
			return convert(object, into)
		}
	}
	//nolint:wrapcheck // It is the answer of an API server.
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

// convert copies an object into another type. PartialObjectMetadata gets only its part.
func convert(from, into client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	if to, ok := into.(runtime.Unstructured); ok {
		to.SetUnstructuredContent(runtime.DeepCopyJSON(fields))
		return nil
	}
	if _, partly := into.(*metav1.PartialObjectMetadata); partly {
		// It keeps its kind, as an API server's answer does.
		version, kind := into.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		fields = map[string]any{"apiVersion": version, "kind": kind, "metadata": fields["metadata"]}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	return nil
}

// List answers with the objects of a kind that the options select, all on one page. Of fields it knows the name.
func (c *Cluster) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", list, err)
	}
	want := (&client.ListOptions{}).ApplyOptions(options)
	if err := c.read(kind.Kind + " " + want.Namespace); err != nil {
		return err
	}
	var found []runtime.Object
	for _, object := range c.Objects {
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

// Create notes the object.
func (c *Cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.write("create", object, object)
}

// Apply notes the name and the fields.
func (c *Cluster) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return c.apply("apply", object)
}

// Patch notes the patch.
func (c *Cluster) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch("patch", object, patch)
}

// Delete notes the name.
func (c *Cluster) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	return c.write("delete", object, nil)
}

func (c *Cluster) read(what string) error {
	c.Reads = append(c.Reads, what)
	if c.Fail == nil {
		return nil
	}
	return c.Fail(what)
}

func (c *Cluster) apply(verb string, object runtime.ApplyConfiguration) error {
	target, ok := object.(client.Object)
	if !ok {
		return fmt.Errorf("%T has no name", object)
	}
	return c.write(verb, target, object)
}

func (c *Cluster) patch(verb string, object client.Object, patch client.Patch) error {
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return c.write(verb, object, json.RawMessage(data))
}

func (c *Cluster) write(verb string, object client.Object, body any) error {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", object, err)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode %T: %w", object, err)
	}
	what := verb + " " + kind.Kind + " " + object.GetName()
	c.Writes, c.Bodies = append(c.Writes, what), append(c.Bodies, string(encoded))
	if c.Fail == nil {
		return nil
	}
	return c.Fail(what)
}

// statuses notes what is written to the status of objects.
type statuses struct{ *Cluster }

// Create is not for a status.
func (s *statuses) Create(_ context.Context, object client.Object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return fmt.Errorf("a status of %s is never created", object.GetName())
}

// Update is not for our statuses: each program applies its own fields.
func (s *statuses) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return fmt.Errorf("a status of %s is never updated as a whole", object.GetName())
}

// Apply notes the fields.
func (s *statuses) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return s.apply("apply status", object)
}

// Patch notes the patch.
func (s *statuses) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.patch("patch status", object, patch)
}
