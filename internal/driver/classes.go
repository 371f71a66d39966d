package driver

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

// storageClass is the kind of StorageClasses.
const storageClass = "StorageClass"

// Class is a StorageClass or VolumeSnapshotClass in the cluster.
type Class struct {
	// Kind is StorageClass or VolumeSnapshotClass.
	Kind, Name string
	// Default is the value of the class's default annotation. An empty Default means that the class lacks the annotation.
	Default string
	// Provisioner and Parameters are set only for StorageClasses of drivers with Driver.Cloud. Readers of a Class must not change its Parameters.
	Provisioner string
	Parameters  map[string]string
}

// DefaultAnnotation returns the annotation that marks the default class of a kind. For other kinds, it returns an empty text.
func DefaultAnnotation(kind string) string {
	switch kind {
	case storageClass:
		return "storageclass.kubernetes.io/is-default-class"
	case VolumeSnapshotClassKind().Kind:
		return snapshotv1.DefaultAnnotation
	default:
		return ""
	}
}

// chooseDefaults decides which of our classes are the default.
func chooseDefaults(cfg Config, objects []client.Object) {
	for _, object := range objects {
		kind, annotations := object.GetObjectKind().GroupVersionKind().Kind, object.GetAnnotations()
		if key := DefaultAnnotation(kind); key != "" && annotations[key] != "" {
			annotations[key] = defaultOf(cfg, Class{Kind: kind, Name: object.GetName(), Default: annotations[key]})
			object.SetAnnotations(annotations)
		}
	}
}

// defaultOf returns the value of our class's default annotation. A value in the cluster stays, because the administrator chose it. If our class is
// new or lacks the annotation, it can become the default only if no other class is the default.
func defaultOf(cfg Config, ours Class) string {
	wanted := ours.Default
	for _, class := range cfg.Classes {
		switch {
		case class.Kind != ours.Kind:
		case class.Name == ours.Name && class.Default != "":
			return class.Default
		case class.Name != ours.Name && class.Default == "true":
			wanted = "false"
		}
	}
	return wanted
}
