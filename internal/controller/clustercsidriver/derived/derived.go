// Package derived has configuration that comes from other objects or a cloud. It has the Secret of Driver.Derived, the cloud's last answer (Cloud),
// the reason for not installing a driver (Absence), and the cloud's CA certificates.
//
// New zones take effect only when a second answer confirms them. CloudResources are managed while the driver manages its StorageClass, or while pods
// block its removal. An unmanaged driver leaves them unchanged, and a removal deletes them last.
package derived

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Source reads the inputs of derived configuration. It has no state.
type Source struct {
	// Client reads from the cache. Live reads Secrets, which the cache has as hashes only, and PersistentVolumes.
	Client, Live client.Reader
	Driver       driver.Driver
	// Namespace is the namespace of the operands.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Version is the operator's version: another version may build other content from the same inputs.
	Version string
	// Cloud has the last answer of the cloud. It is nil for drivers without Driver.Cloud.
	Cloud Cloud
	// CloudResources manages resources in the cloud. It is nil for drivers that need none.
	CloudResources CloudResources

	applier *apply.Applier
}

// Use sets the applier.
func (s *Source) Use(applier *apply.Applier) { s.applier = applier }
