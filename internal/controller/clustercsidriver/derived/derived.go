// Package derived has configuration that comes from other objects or a cloud. It has the Secret of Driver.Derived, the cloud's last answer (Cloud),
// the reason for not installing a driver (Absence), and the cloud's CA certificates.
//
// New zones take effect only when a second answer confirms them. The operator manages CloudResources while it manages the StorageClass, and while
// pods block the driver's removal. While the driver is Unmanaged, the operator leaves CloudResources unchanged. A removal deletes CloudResources
// last.
package derived

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Source reads the inputs of derived configuration. It has no state.
type Source struct {
	// Client reads from the cache. Live reads PersistentVolumes and Secrets from the cluster, because the cache has no PersistentVolumes, and only
	// hashes of Secrets.
	Client, Live client.Reader
	Driver       driver.Driver
	// Namespace is the namespace of the operands.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Version is the operator's version. Another version can build other content from the same inputs.
	Version string
	// Cloud has the last answer of the cloud. It is nil for drivers without Driver.Cloud.
	Cloud Cloud
	// CloudResources manages resources in the cloud. It is nil for drivers that need no such resources.
	CloudResources CloudResources

	applier *apply.Applier
}

// Use sets the applier.
func (s *Source) Use(applier *apply.Applier) { s.applier = applier }
