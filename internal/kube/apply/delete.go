package apply

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DeleteRead deletes an object only if UID and resourceVersion are unchanged since the caller read it. A leader that lost its Lease during a pause
// can still send old requests. If the object is absent, DeleteRead returns no error. If the object has changed, the error is a conflict.
func DeleteRead(ctx context.Context, writer client.Writer, object client.Object, options ...client.DeleteOption) error {
	err := writer.Delete(ctx, object, append(options, AsRead(object))...)
	return client.IgnoreNotFound(err) //nolint:wrapcheck // The caller says what for.
}

// AsRead returns the precondition that UID and resourceVersion are unchanged since the caller read the object.
func AsRead(object client.Object) client.Preconditions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// Delete calls DeleteRead, and returns the result as a Change.
func Delete(ctx context.Context, writer client.Client, object client.Object, options ...client.DeleteOption) Change {
	kind, err := apiutil.GVKForObject(object, writer.Scheme())
	change := Change{Subject: Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}, Action: Deleted}
	if err == nil {
		err = DeleteRead(ctx, writer, object, options...)
	}
	if err != nil {
		change.Action, change.Err = Failed, fmt.Errorf("delete: %w", err)
	}
	return change
}
