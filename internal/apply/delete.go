package apply

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DeleteRead deletes an object that was read, and none that has taken its place: the UID says which one. One that has gone is no error.
func DeleteRead(ctx context.Context, writer client.Writer, object client.Object, options ...client.DeleteOption) error {
	uid := object.GetUID()
	err := writer.Delete(ctx, object, append(options, client.Preconditions{UID: &uid})...)
	return client.IgnoreNotFound(err) //nolint:wrapcheck // The caller says what for.
}

// Delete is DeleteRead as a change.
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
