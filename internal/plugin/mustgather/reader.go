package mustgather

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
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

var _ client.Reader = (*Folder)(nil)

// Get copies an object of the folder into out, or returns a NotFound error. If the kind is cluster-scoped, Get ignores the namespace, as an API
// server does.
func (f *Folder) Get(ctx context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read %s from a folder: %w", key, err)
	}
	gvk, err := f.kind(out)
	if err != nil {
		return err
	}
	if !f.scheme.Recognizes(gvk) {
		return notRead(gvk)
	}
	found, known := f.objects[gvk][key]
	if !known {
		found, known = f.objects[gvk][client.ObjectKey{Name: key.Name}]
	}
	if !known {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		return fmt.Errorf("read from a folder: %w", apierrors.NewNotFound(plural.GroupResource(), key.Name))
	}
	return copyInto(out, found, gvk)
}

// List copies the objects of a kind into out, sorted by namespace and name. It supports namespaces and label selectors. It supports the fields
// metadata.name and metadata.namespace and, for Pods, spec.nodeName and spec.serviceAccountName. It ignores a limit, and returns all objects at
// once.
func (f *Folder) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	listKind, err := f.kind(out)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read a %s from a folder: %w", listKind.Kind, err)
	}
	gvk := listKind.GroupVersion().WithKind(strings.TrimSuffix(listKind.Kind, "List"))
	if !f.scheme.Recognizes(gvk) {
		return notRead(gvk)
	}
	wanted := (&client.ListOptions{}).ApplyOptions(options)
	found, err := f.find(gvk, wanted)
	if err != nil {
		return err
	}
	items := make([]runtime.Object, 0, len(found))
	for _, object := range found {
		item, err := f.item(out, gvk)
		if err != nil {
			return err
		}
		if err := copyInto(item, object, gvk); err != nil {
			return err
		}
		items = append(items, item)
	}
	if err := meta.SetList(out, items); err != nil {
		return fmt.Errorf("fill a %T: %w", out, err)
	}
	out.GetObjectKind().SetGroupVersionKind(listKind)
	// If the caller passes a list from an earlier call, the list can still have these fields of the earlier answer.
	out.SetContinue("")
	out.SetRemainingItemCount(nil)
	return nil
}

// kind returns the kind of an object or a list.
func (f *Folder) kind(of runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(of, f.scheme)
	if err != nil {
		return gvk, fmt.Errorf("read a %T from a folder: %w", of, err)
	}
	return gvk, nil
}

// notRead returns the error for a kind that the scheme does not know. The error is not NotFound, because the folder may have objects of this kind.
func notRead(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("kind %s of %s was not read from the folder: the scheme does not know it", gvk.Kind, gvk.GroupVersion())
}

func (f *Folder) find(gvk schema.GroupVersionKind, options *client.ListOptions) ([]client.Object, error) {
	var found []client.Object
	if err := check(gvk, options.FieldSelector); err != nil {
		return nil, err
	}
	for key, object := range f.objects[gvk] {
		if options.Namespace != "" && key.Namespace != "" && key.Namespace != options.Namespace {
			continue
		}
		if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		if options.FieldSelector != nil && !options.FieldSelector.Matches(fieldsOf(object)) {
			continue
		}
		found = append(found, object)
	}
	slices.SortFunc(found, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}

// The fields of Pods by which they can be selected.
const (
	nodeName           = "spec.nodeName"
	serviceAccountName = "spec.serviceAccountName"
	phase              = "status.phase"
)

// check rejects field selectors with a field that fieldsOf does not know, as an API server does. Without this check, such a selector would match
// nothing, or everything.
func check(gvk schema.GroupVersionKind, selector fields.Selector) error {
	if selector == nil {
		return nil
	}
	for _, requirement := range selector.Requirements() {
		switch requirement.Field {
		case "metadata.name", "metadata.namespace":
			continue
		case nodeName, serviceAccountName, phase:
			if gvk == corev1.SchemeGroupVersion.WithKind("Pod") {
				continue
			}
		}
		return fmt.Errorf("read from a folder: %w", apierrors.NewBadRequest(
			fmt.Sprintf("field label %q is not supported for %s", requirement.Field, gvk.Kind)))
	}
	return nil
}

func fieldsOf(object client.Object) fields.Set {
	set := fields.Set{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
	if pod, ok := object.(*corev1.Pod); ok {
		set[nodeName], set[serviceAccountName], set[phase] = pod.Spec.NodeName, pod.Spec.ServiceAccountName, string(pod.Status.Phase)
	}
	return set
}

// item makes an empty element for a list.
func (f *Folder) item(list client.ObjectList, gvk schema.GroupVersionKind) (client.Object, error) {
	switch list.(type) {
	case *unstructured.UnstructuredList:
		return &unstructured.Unstructured{}, nil
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	}
	made, err := f.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("fill a %T: %w", list, err)
	}
	item, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("read a %T from a folder: type %T has no metadata", list, made)
	}
	return item, nil
}

// copyInto copies all of object into out. Argument "out" has the type of object, or is a PartialObjectMetadata or an Unstructured.
func copyInto(out, object client.Object, gvk schema.GroupVersionKind) error {
	copied := object.DeepCopyObject()
	if reflect.TypeOf(out) == reflect.TypeOf(copied) {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(copied).Elem())
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
	if err != nil {
		return fmt.Errorf("copy %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(object), err)
	}
	if free, ok := out.(*unstructured.Unstructured); ok {
		free.SetUnstructuredContent(content)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, out); err != nil {
		return fmt.Errorf("copy %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
