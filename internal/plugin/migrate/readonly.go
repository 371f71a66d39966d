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

// Create returns errReadOnly.
func (readOnly) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errReadOnly
}

// Update returns errReadOnly.
func (readOnly) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errReadOnly
}

// Patch returns errReadOnly.
func (readOnly) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errReadOnly
}

// Apply returns errReadOnly.
func (readOnly) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errReadOnly
}

// Delete returns errReadOnly.
func (readOnly) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errReadOnly
}

// DeleteAllOf returns errReadOnly.
func (readOnly) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errReadOnly
}

// Status returns a client that refuses everything.
func (r readOnly) Status() client.SubResourceWriter { return r.SubResource("status") }

// SubResource returns a client that refuses everything.
func (readOnly) SubResource(string) client.SubResourceClient { return noSubResource{} }

type noSubResource struct{}

// Get returns errReadOnly.
func (noSubResource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errReadOnly
}

// Create returns errReadOnly.
func (noSubResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errReadOnly
}

// Update returns errReadOnly.
func (noSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errReadOnly
}

// Patch returns errReadOnly.
func (noSubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errReadOnly
}

// Apply returns errReadOnly.
func (noSubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errReadOnly
}
