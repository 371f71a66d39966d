// Package derived has the configuration of a driver that other objects or a cloud decide: the Secret of Driver.Derived, the last answer of the cloud
// (Cloud), why a driver is not installed (Absence), and the CA certificates of the cloud.
//
// After a start, zones of one answer change nothing in the cluster: only a second answer that agrees does. CloudResources are what the operator makes
// in a cloud. A managed driver keeps them while it manages its StorageClass or while pods keep it from being removed, an unmanaged one leaves them,
// and removal undoes them at the end.
package derived

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Source reads what the configuration is derived from. It keeps nothing of it.
type Source struct {
	// Client reads from the cache. Live reads Secrets from the cluster, of which the cache has hashes, and PersistentVolumes.
	Client, Live client.Reader
	Driver       driver.Driver
	// Namespace is where the operands go.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Version is that of the operator: the next one may make another content of the same.
	Version string
	// Cloud has the last answers of the cloud. Only drivers with Driver.Cloud have it.
	Cloud Cloud
	// CloudResources are what the operator makes in the cloud. Only drivers that need something there have any.
	CloudResources CloudResources

	applier *apply.Applier
}

// Use takes what compares and writes the objects of the driver.
func (s *Source) Use(applier *apply.Applier) { s.applier = applier }
