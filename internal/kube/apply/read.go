package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// read returns the cached object, or our latest write of the object if the cache is older. It returns nil if the object is absent.
func (a *Applier) read(ctx context.Context, subject Subject) (*unstructured.Unstructured, error) {
	cached, err := a.readFrom(ctx, a.Client, subject)
	if err != nil {
		return nil, err
	}
	return a.Mutations.Newer(subject, cached), nil
}

// get reads an object. It returns nil if the object is absent.
func (a *Applier) get(ctx context.Context, reader client.Reader, subject Subject) (client.Object, error) {
	typed, err := a.newObject(subject.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	err = reader.Get(ctx, subject.ObjectKey, typed)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	}
	return typed, nil
}

func (a *Applier) readFrom(ctx context.Context, reader client.Reader, subject Subject) (*unstructured.Unstructured, error) {
	typed, err := a.get(ctx, reader, subject)
	if err != nil || typed == nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	found := &unstructured.Unstructured{Object: dropNulls(fields)}
	found.SetGroupVersionKind(subject.GroupVersionKind)
	return found, nil
}

// newObject returns an empty typed object, because only the typed cache has watches.
func (a *Applier) newObject(kind schema.GroupVersionKind) (client.Object, error) {
	object, err := a.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("kind %s is not in the scheme: %w", kind, err)
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("kind %s has no metadata", kind)
	}
	return typed, nil
}

// Newest returns the cached object, or our latest write of the object if the cache is older. It returns nil if the object is absent.
func Newest[T any, P interface {
	*T
	client.Object
}](ctx context.Context, a *Applier, key client.ObjectKey) (P, error) {
	object := P(new(T))
	kind, err := apiutil.GVKForObject(object, a.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("kind of %T: %w", object, err)
	}
	subject := Subject{GroupVersionKind: kind, ObjectKey: key}
	err = a.Client.Get(ctx, key, object)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key.Name, err)
	}
	if !a.Mutations.remembers(subject) {
		if err != nil {
			return nil, nil
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		return object, nil
	}
	found, err := a.read(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	if found == nil {
		return nil, nil
	}
	return typed[T](found)
}

func typed[T any](found *unstructured.Unstructured) (*T, error) {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", found.GetKind(), found.GetName(), err)
	}
	return object, nil
}

// Find reads an object of the Inventory from the cluster. It returns nil if the object is absent, or if our field manager did not apply it.
func (a *Applier) Find(ctx context.Context, subject Subject) (*unstructured.Unstructured, error) {
	found, err := a.readFrom(ctx, a.Live, subject)
	if err != nil || found == nil || !a.applied(found) {
		return nil, err
	}
	return found, nil
}
