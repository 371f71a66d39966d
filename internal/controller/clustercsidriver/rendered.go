package clustercsidriver

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// rendered caches the objects of the last Config. Rendering parses some 20 YAML files, but most events don't change the Config.
type rendered struct {
	cfg     driver.Config
	objects []client.Object
}

// render is Driver.Render with a cache. The caller may modify the returned objects. Errors are terminal, because only another version of the operator
// or another configuration can solve them.
func (r *rendered) render(d driver.Driver, scheme *runtime.Scheme, cfg driver.Config) ([]client.Object, error) {
	if r.objects == nil || !reflect.DeepEqual(r.cfg, cfg) {
		objects, err := d.Render(scheme, cfg)
		if err != nil {
			return nil, reconcile.TerminalError(err) //nolint:wrapcheck // Render says which driver.
		}
		r.cfg, r.objects = cfg, objects
	}
	copies := make([]client.Object, 0, len(r.objects))
	for _, object := range r.objects {
		if one, ok := object.DeepCopyObject().(client.Object); ok {
			copies = append(copies, one)
		}
	}
	return copies, nil
}
