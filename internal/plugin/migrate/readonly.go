package migrate

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errReadOnly is the error of every write.
const errReadOnly = problem("a plan writes nothing")

type problem string

// Error returns the text.
func (p problem) Error() string { return string(p) }

// readOnly is a client that refuses every write. It is for code that needs a client with all methods.
type readOnly struct{ client.Client }

// Create is refused.
func (readOnly) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errReadOnly
}

// Update is refused.
func (readOnly) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errReadOnly
}

// Patch is refused.
func (readOnly) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errReadOnly
}

// Apply is refused.
func (readOnly) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errReadOnly
}

// Delete is refused.
func (readOnly) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errReadOnly
}

// DeleteAllOf is refused.
func (readOnly) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errReadOnly
}

// Status is refused.
func (r readOnly) Status() client.SubResourceWriter { return r.SubResource("status") }

// SubResource is refused.
func (readOnly) SubResource(string) client.SubResourceClient { return noSubResource{} }

type noSubResource struct{}

// Get is refused.
func (noSubResource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errReadOnly
}

// Create is refused.
func (noSubResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errReadOnly
}

// Update is refused.
func (noSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errReadOnly
}

// Patch is refused.
func (noSubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errReadOnly
}

// Apply is refused.
func (noSubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errReadOnly
}
