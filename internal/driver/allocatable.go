package driver

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
)

// allocatableGate is the gate of Kubernetes by which the number of volumes of a node may change.
const allocatableGate = "MutableCSINodeAllocatableCount"

// AllocatableGate is that of the fields which RefreshAllocatable sets. Source: pkg/features/kube_features.go of Kubernetes v1.36.3.
func AllocatableGate() FeatureGate { return FeatureGate{Name: allocatableGate, OnSince: 35} }

// RefreshAllocatable lets kubelet ask the driver anew how many volumes its node can have, after so many seconds and when a volume finds no
// room, of which the attacher tells the reason. Without the gate it changes nothing.
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
					// Not all versions of the attacher have it on by themselves.
					attacher.Args[i] += "," + allocatableGate + "=true"
				}
			}
			return nil
		}),
	}
}
