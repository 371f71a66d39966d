package storage

import (
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// defaultAnnotation marks the default StorageClass, which PVCs without a StorageClass get.
const defaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// defaults returns the names of the default StorageClasses, sorted.
func (w *seen) defaults() []string {
	return w.classNames(func(class *storagev1.StorageClass) bool { return class.Annotations[defaultAnnotation] == "true" })
}

// classesOf returns the names of the StorageClasses of a driver, sorted.
func (w *seen) classesOf(driver string) []string {
	return w.classNames(func(class *storagev1.StorageClass) bool { return volume.Provisioner(class.Provisioner) == driver })
}

// classNames returns the names of the StorageClasses that match, sorted.
func (w *seen) classNames(match func(*storagev1.StorageClass) bool) []string {
	var names []string
	for i := range w.classes {
		if match(&w.classes[i]) {
			names = append(names, w.classes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// classConditions reports on default StorageClasses. These conditions never show a failure, because drivers create the StorageClasses, and the
// administrator chooses the default.
func classConditions(w *seen, choices []choice) []operatorv1.OperatorCondition {
	reason, message := "", noDriver(w, choices)
	if message != "" {
		reason = noDriverReason
	}
	if names := w.defaults(); len(names) > 1 {
		reason = "MultipleDefaultStorageClasses"
		text := fmt.Sprintf("%d StorageClasses are marked as the default, so PVCs without a class get the newest of them: set annotation %s to "+
			"\"false\" on all but one of %s", len(names), defaultAnnotation, status.Shorten(names))
		if message != "" {
			text = message + "; " + text
		}
		message = text
	}
	return []operatorv1.OperatorCondition{
		status.Condition(defaultClass+status.Available, true, reason, message),
		status.Condition(defaultClass+status.Progressing, false, "", ""),
		status.Condition(defaultClass+status.Degraded, false, "", ""),
	}
}

// mismatched maps each driver to true if the driver's VolumeAttributesClasses do not all have the same parameter names. Drivers refuse to switch a
// volume between classes with different names, because a parameter that the new class lacks would keep its value.
func (w *seen) mismatched() map[string]bool {
	first, found := map[string][]string{}, map[string]bool{}
	for i := range w.attributes {
		class := &w.attributes[i]
		names := slices.Sorted(maps.Keys(class.Parameters))
		if known, seen := first[class.DriverName]; seen {
			found[class.DriverName] = found[class.DriverName] || !slices.Equal(known, names)
			continue
		}
		first[class.DriverName], found[class.DriverName] = names, false
	}
	return found
}
