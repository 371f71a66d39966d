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
	// Default is the value of its default annotation; empty if it has none.
	Default string
	// Provisioner and Parameters are set for StorageClasses of drivers with Driver.Cloud. They are read-only.
	Provisioner string
	Parameters  map[string]string
}

// DefaultAnnotation is the annotation that marks the default class of a kind; empty for other kinds.
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

// defaultOf returns the default annotation of our class. Its value in the cluster stays: that is the administrator's choice. A new
// class, or one without the annotation, becomes the default only if no other class is.
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
