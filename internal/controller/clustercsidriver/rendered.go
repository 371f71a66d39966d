package clustercsidriver

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// rendered is what the last Config has given. Rendering is pure and reads some 20 YAML files, and most reconciles come from an event that
// says nothing new to it.
type rendered struct {
	cfg     driver.Config
	objects []client.Object
}

// render is Driver.Render, or what it gave the last time. The objects are the caller's. An error stays until the operator or the
// configuration is changed.
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
