package driver

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
)

// allocatableGate is Kubernetes' feature gate that allows the maximum number of volumes of a node to change.
const allocatableGate = "MutableCSINodeAllocatableCount"

// AllocatableGate returns the gate of the fields that RefreshAllocatable sets (Kubernetes v1.36.3, pkg/features/kube_features.go).
func AllocatableGate() FeatureGate { return FeatureGate{Name: allocatableGate, OnSince: 35} }

// RefreshAllocatable makes each kubelet ask the driver repeatedly how many volumes the node can have. The kubelet asks after each interval of this
// many seconds, and when a volume exceeds the limit. Without the feature gate, RefreshAllocatable changes nothing.
func RefreshAllocatable(seconds int64) []Mutation {
	return []Mutation{
		Mutate(func(cfg Config, object *storagev1.CSIDriver) error {
			if cfg.FeatureGates[allocatableGate] {
				object.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
			}
			return nil
		}),
		MutatePods(func(cfg Config, pods Pods) error {
			if !cfg.FeatureGates[allocatableGate] || pods.Workload != Controller {
				return nil
			}
			attacher, err := pods.Container("csi-attacher")
			if err != nil {
				return err
			}
			for i, argument := range attacher.Args {
				if strings.HasPrefix(argument, "--feature-gates=") {
					// Some versions of the attacher disable the feature gate by default, so enable it.
					attacher.Args[i] += "," + allocatableGate + "=true"
				}
			}
			return nil
		}),
	}
}
