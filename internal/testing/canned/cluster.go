// Package canned has a client for tests of controllers: it answers reads from a list of objects, and records writes. It has no versions, conflicts
// and field managers: tests of the API server's behaviour use a real one.
package canned

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Cluster is a client whose objects never change. Methods that it does not implement panic.
type Cluster struct {
	client.Client
	// Objects are the objects for reads.
	Objects []client.Object
	// Fail, if set, returns the error of a request. A request is a text as in Reads and Writes, without the options of a deletion.
	Fail func(request string) error
	// Reads has verb, kind and name, such as "get Pod ns/a", or for a list its namespace, such as "list Pod ns". Writes has the same, and for a
	// deletion its policy, and whether it lacks the UID: "delete Pod ns/a Foreground, whichever it is". Bodies has the body of each write.
	Reads, Writes, Bodies []string

	scheme *runtime.Scheme
}

// New returns a cluster with objects whose kinds are in the scheme, or in the objects.
func New(scheme *runtime.Scheme, objects ...client.Object) *Cluster {
	return &Cluster{scheme: scheme, Objects: objects}
}

// Refuse makes requests fail from now on. Each argument is the text of a request, or the beginning of that text, with or without the namespace. If
// the call names no request, all requests fail.
func (c *Cluster) Refuse(err error, requests ...string) {
	c.Fail = func(asked string) error {
		short := asked
		if from, to := strings.LastIndex(asked, " "), strings.LastIndex(asked, "/"); to > from {
			short = asked[:from+1] + asked[to+1:]
		}
		if len(requests) == 0 || slices.ContainsFunc(requests, func(request string) bool {
			return asked == request || short == request || strings.HasPrefix(asked, request+" ")
		}) {
			return err
		}
		return nil
	}
}

// Sent returns the writes with their bodies.
func (c *Cluster) Sent() []string {
	var all []string
	for i, write := range c.Writes {
		all = append(all, strings.TrimSpace(write+" "+c.Bodies[i]))
	}
	return all
}

// Scheme implements client.Client.
func (c *Cluster) Scheme() *runtime.Scheme { return c.scheme }

// Status returns a client that records writes of a status.
func (c *Cluster) Status() client.SubResourceWriter { return &statuses{c} }

// Get answers with a copy of an object.
func (c *Cluster) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", into, err)
	}
	if err := c.read("get " + nameOf(kind, key)); err != nil {
		return err
	}
	for _, object := range c.Objects {
		if has, err := apiutil.GVKForObject(object, c.scheme); err == nil && has == kind && client.ObjectKeyFromObject(object) == key {
			return convert(object, into)
		}
	}
	//nolint:wrapcheck // An API server returns the same error.
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

// convert copies an object into another type.
func convert(from, into client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	// Objects without a Go type keep their kind, as with an API server.
	version, kind := into.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if to, ok := into.(runtime.Unstructured); ok {
		fields = runtime.DeepCopyJSON(fields)
		fields["apiVersion"], fields["kind"] = version, kind
		to.SetUnstructuredContent(fields)
		return nil
	}
	if _, partly := into.(*metav1.PartialObjectMetadata); partly {
		fields = map[string]any{"apiVersion": version, "kind": kind, "metadata": fields["metadata"]}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	return nil
}

// List answers with the objects of a kind that the options select, all on one page.
func (c *Cluster) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", list, err)
	}
	want := (&client.ListOptions{}).ApplyOptions(options)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if err := c.read(strings.TrimSpace("list " + kind.Kind + " " + want.Namespace)); err != nil {
		return err
	}
	var found []runtime.Object
	for _, object := range c.Objects {
		if has, err := apiutil.GVKForObject(object, c.scheme); err != nil || has.GroupKind() != kind.GroupKind() || !selects(*want, object) {
			continue
		}
		item, err := itemOf(list, kind, object)
		if err != nil {
			return err
		}
		found = append(found, item)
	}
	if err := meta.SetList(list, found); err != nil {
		return fmt.Errorf("fill %T: %w", list, err)
	}
	return nil
}

// itemOf converts an object to the item type of a list.
func itemOf(list client.ObjectList, kind schema.GroupVersionKind, object client.Object) (client.Object, error) {
	var item client.Object
	switch list.(type) {
	case *metav1.PartialObjectMetadataList:
		item = &metav1.PartialObjectMetadata{}
	case *unstructured.UnstructuredList:
		item = &unstructured.Unstructured{}
	default:
		return object, nil
	}
	item.GetObjectKind().SetGroupVersionKind(kind)
	return item, convert(object, item)
}

// selects reports whether list options select an object. It supports the field selectors of our programs.
func selects(options client.ListOptions, object client.Object) bool {
	has := fields.Set{"metadata.name": object.GetName()}
	if pod, ok := object.(*corev1.Pod); ok {
		has["spec.nodeName"], has["spec.serviceAccountName"] = pod.Spec.NodeName, pod.Spec.ServiceAccountName
		has["status.phase"] = string(pod.Status.Phase)
	}
	if node, ok := object.(*corev1.Node); ok {
		has["spec.unschedulable"] = strconv.FormatBool(node.Spec.Unschedulable)
	}
	return (options.Namespace == "" || options.Namespace == object.GetNamespace()) &&
		(options.FieldSelector == nil || options.FieldSelector.Matches(has)) &&
		(options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(object.GetLabels())))
}

// Create records the object.
func (c *Cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.write("create", object, "", object)
}

// Apply records the name and the fields.
func (c *Cluster) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return c.apply("apply", object)
}

// Patch records the patch.
func (c *Cluster) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch("patch", object, patch)
}

// Delete records the name and the options.
func (c *Cluster) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	wanted := (&client.DeleteOptions{}).ApplyOptions(options)
	how := ""
	if wanted.PropagationPolicy != nil {
		how += " " + string(*wanted.PropagationPolicy)
	}
	switch exactly := wanted.Preconditions; {
	case exactly == nil || exactly.UID == nil || *exactly.UID != object.GetUID():
		how += ", whichever it is"
	case exactly.ResourceVersion == nil || *exactly.ResourceVersion != object.GetResourceVersion():
		how += ", whatever it has become"
	}
	return c.write("delete", object, how, nil)
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
	return c.write(verb, target, "", object)
}

func (c *Cluster) patch(verb string, object client.Object, patch client.Patch) error {
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return c.write(verb, object, "", json.RawMessage(data))
}

func (c *Cluster) write(verb string, object client.Object, how string, body any) error {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", object, err)
	}
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode %T: %w", object, err)
		}
		text = string(encoded)
	}
	what := verb + " " + nameOf(kind, client.ObjectKeyFromObject(object))
	c.Writes, c.Bodies = append(c.Writes, what+how), append(c.Bodies, text)
	if c.Fail == nil {
		return nil
	}
	return c.Fail(what)
}

// nameOf returns the kind, namespace and name of an object as a text.
func nameOf(kind schema.GroupVersionKind, key client.ObjectKey) string {
	return kind.Kind + " " + strings.TrimPrefix(key.String(), "/")
}

// statuses records writes of a status.
type statuses struct{ *Cluster }

// Create fails: a status is never created.
func (s *statuses) Create(_ context.Context, object client.Object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return fmt.Errorf("a status of %s is never created", object.GetName())
}

// Update fails: our programs apply only their own fields of a status.
func (s *statuses) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return fmt.Errorf("a status of %s is never updated as a whole", object.GetName())
}

// Apply records the fields.
func (s *statuses) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return s.apply("apply status", object)
}

// Patch records the patch.
func (s *statuses) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.patch("patch status", object, patch)
}
