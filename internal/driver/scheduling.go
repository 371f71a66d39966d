package driver

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
)

// SchedulingAnnotation on the ClusterCSIDriver says whether the scheduler places pods with volumes of the driver only on nodes that have the driver.
// Without the annotation, the scheduler does so if the feature gate is on and the driver attaches volumes.
const SchedulingAnnotation = "operator.openshift.io/prevent-pod-scheduling-if-missing"

// SchedulingField is the field of the CSIDriver that SchedulingAnnotation sets.
const SchedulingField = "spec.preventPodSchedulingIfMissing"

const (
	// SchedulingGate is Kubernetes' feature gate of SchedulingField. It is alpha in Kubernetes 1.35 and 1.36, and on by default since 1.37 (kubernetes
	// v1.36.3 and v1.37.0, pkg/features/kube_features.go).
	SchedulingGate = "VolumeLimitScaling"
	// schedulingSince is the first minor version of Kubernetes with SchedulingField. Earlier API servers refuse an apply with this field (client-go
	// v0.35.4 and v0.36.3, applyconfigurations/internal/internal.go).
	schedulingSince = 36
)

// FeatureGate is a gate of the API server. Without the gate, the API server drops the fields that belong to the gate.
type FeatureGate struct {
	Name string
	// OnSince is the first minor version of Kubernetes in which the gate is on by default, for instance 35 for Kubernetes 1.35.
	OnSince int
}

// Gates returns all gates of the API server on which rendering depends: Driver.FeatureGates, and SchedulingGate, which concerns all drivers.
func (d Driver) Gates() []FeatureGate {
	return append(slices.Clone(d.FeatureGates), FeatureGate{Name: SchedulingGate, OnSince: 37})
}

// RequiresDriver computes Config.RequiresDriver. Argument "annotation" is the value of SchedulingAnnotation. If it is empty, the result is byDefault.
// Argument "minor" is the minor version of the API server. Argument "current" is the value in the cluster. If the annotation is invalid, the result
// is current. Result "problem" says why the annotation has no effect.
func RequiresDriver(annotation string, byDefault bool, minor int, current bool) (required bool, problem string) {
	switch {
	case annotation == "":
		return byDefault, ""
	case Boolean(annotation) != nil:
		return current, fmt.Sprintf("annotation %s=%q of this ClusterCSIDriver must be true or false: %s of the CSIDriver stays %t until you correct "+
			"or remove the annotation", SchedulingAnnotation, annotation, SchedulingField, current)
	case annotation == "true" && minor < schedulingSince:
		return false, fmt.Sprintf("annotation %s=%q of this ClusterCSIDriver has no effect: the cluster has Kubernetes 1.%d, and %s needs 1.%d: remove "+
			"the annotation, or upgrade the cluster", SchedulingAnnotation, annotation, minor, SchedulingField, schedulingSince)
	default:
		return annotation == "true", ""
	}
}

// requireDriver sets SchedulingField if Config.RequiresDriver is true. Otherwise, it omits the field, because an older API server refuses an apply
// with a field that it does not know.
func requireDriver(cfg Config, object *storagev1.CSIDriver) error {
	if cfg.RequiresDriver {
		object.Spec.PreventPodSchedulingIfMissing = &cfg.RequiresDriver
	}
	return nil
}
