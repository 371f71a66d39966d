package mustgather

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ErrReadOnly is the answer to every write.
var ErrReadOnly = errors.New("a must-gather folder can't be written")

// Client is the folder for code that wants a whole client but only reads. Every write is ErrReadOnly.
func (f *Folder) Client() client.Client {
	return readOnly{Folder: f, mapper: f.mapper()}
}

// mapper knows the kinds that are in the folder, as the mapper of a cluster knows the kinds that it serves.
func (f *Folder) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(f.scheme.PrioritizedVersionsAllGroups())
	for gvk, objects := range f.objects {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		for key := range objects {
			if key.Namespace != "" {
				scope = meta.RESTScopeNamespace
				break
			}
		}
		mapper.Add(gvk, scope)
	}
	return mapper
}

type readOnly struct {
	*Folder
	mapper meta.RESTMapper
}

var _ client.Client = readOnly{}

func refuse(verb string, what any) error {
	if object, ok := what.(client.Object); ok {
		return fmt.Errorf("%s %T %s: %w", verb, object, client.ObjectKeyFromObject(object), ErrReadOnly)
	}
	return fmt.Errorf("%s %T: %w", verb, what, ErrReadOnly)
}

// Apply refuses.
func (readOnly) Apply(_ context.Context, what runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return refuse("apply", what)
}

// Create refuses.
func (readOnly) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return refuse("create", object)
}

// Delete refuses.
func (readOnly) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	return refuse("delete", object)
}

// Update refuses.
func (readOnly) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	return refuse("update", object)
}

// Patch refuses.
func (readOnly) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return refuse("patch", object)
}

// DeleteAllOf refuses.
func (readOnly) DeleteAllOf(_ context.Context, object client.Object, _ ...client.DeleteAllOfOption) error {
	return refuse("delete all of", object)
}

// Status returns a client that refuses.
func (readOnly) Status() client.SubResourceWriter { return subResource("status") }

// SubResource returns a client that refuses.
func (readOnly) SubResource(name string) client.SubResourceClient { return subResource(name) }

// Scheme is that of Open.
func (r readOnly) Scheme() *runtime.Scheme { return r.scheme }

// RESTMapper knows the kinds that are in the folder.
func (r readOnly) RESTMapper() meta.RESTMapper { return r.mapper }

// GroupVersionKindFor returns the kind of an object, by the scheme.
func (r readOnly) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return gvk, fmt.Errorf("kind of a %T: %w", object, err)
	}
	return gvk, nil
}

// IsObjectNamespaced tells it of kinds that are in the folder.
func (r readOnly) IsObjectNamespaced(object runtime.Object) (bool, error) {
	namespaced, err := apiutil.IsObjectNamespaced(object, r.scheme, r.mapper)
	if err != nil {
		return false, fmt.Errorf("scope of a %T: %w", object, err)
	}
	return namespaced, nil
}

// subResource is the name of one. A folder holds none: what there is of a status is in the object.
type subResource string

func (s subResource) refuse(verb string, what any) error {
	return refuse(verb+" "+string(s)+" of", what)
}

// Get fails.
func (s subResource) Get(_ context.Context, object, _ client.Object, _ ...client.SubResourceGetOption) error {
	return fmt.Errorf("get %s of %T %s: a must-gather folder has no subresources", string(s), object, client.ObjectKeyFromObject(object))
}

// Create refuses.
func (s subResource) Create(_ context.Context, object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return s.refuse("create", object)
}

// Update refuses.
func (s subResource) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.refuse("update", object)
}

// Patch refuses.
func (s subResource) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.refuse("patch", object)
}

// Apply refuses.
func (s subResource) Apply(_ context.Context, what runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return s.refuse("apply", what)
}
