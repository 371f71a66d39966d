package drivers

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
)

// This API server has every feature gate that drivers know. What they render for it is kept, whether OpenShift has the gate or not;
// test/releases tries it where the gates are off.
func TestNothingIsDroppedWhereFeatureGatesAreOn(t *testing.T) {
	cluster, gates := pool.Lend(t), 0
	for _, d := range []driver.Driver{awsebs.Driver(), gcppd.Driver()} {
		gates += len(d.FeatureGates)
		for _, on := range []bool{false, true} {
			rendered := variants.Render(t, d, func(cfg *driver.Config) {
				cfg.FeatureGates = map[string]bool{}
				for _, gate := range d.FeatureGates {
					cfg.FeatureGates[gate.Name] = on
				}
			})
			for _, object := range rendered {
				kind, err := apiutil.GVKForObject(object, cluster.Scheme)
				env.Must(t, err)
				if kind.GroupKind() == driver.VolumeSnapshotClassKind() {
					// Its CRD comes with another test.
					continue
				}
				fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				env.Must(t, err)
				asked := &unstructured.Unstructured{Object: fields}
				asked.SetGroupVersionKind(kind)
				delete(asked.Object, "status")
				if err := cluster.Accept(t.Context(), asked); err != nil {
					t.Errorf("%s, gates %v: %v", d.Name, on, err)
				}
			}
		}
	}
	if gates == 0 {
		t.Error("no driver has a feature gate: this shows nothing")
	}
}
