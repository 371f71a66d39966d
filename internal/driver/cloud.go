package driver

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cloud lists the facts that a driver needs from its cloud. A poller asks the cloud in the background. A reconcile only reads the last answer,
// Config.Cloud.
//
// The first installation of a driver with Driver.Disabled waits for the first answer.
type Cloud struct {
	// Secret is the name of a Secret of Driver.Credentials. The poller logs in with it. For OpenStack, key clouds.yaml of the Secret has the
	// credentials. The optional key cacert has CA certificates, which the poller uses if CA has none. For VCenters, the Secret's keys are
	// SERVER.username and SERVER.password.
	Secret string
	// CA, if set, names the ConfigMap with the CA certificates of the cloud in PEM, in key CloudCAKey. The ConfigMap or the key can be absent.
	CA client.ObjectKey
	// Zones means that the poller reads the availability zones of Nova and Cinder. ShareTypes means that the poller reads the share types of Manila.
	Zones, ShareTypes bool
	// VCenters means that the poller polls vCenters. Config is the ConfigMap that names the vCenters.
	VCenters bool
	Config   client.ObjectKey
}

// ClusterCABundle returns the name of the ConfigMap with all CA certificates that the cluster trusts, in key TrustedCAKey
// (openshift/cluster-network-operator, pkg/names/names.go, TRUSTED_CA_BUNDLE_CONFIGMAP).
func ClusterCABundle() client.ObjectKey {
	return client.ObjectKey{Namespace: ManagedNamespace, Name: "trusted-ca-bundle"}
}

// CloudFacts are a cloud's answers to the questions in Cloud. If Known is false, there is no complete answer, and the operator removes nothing
// because of missing facts.
type CloudFacts struct {
	// Known means that the cloud has answered all questions at least once. After later failures, the answers stay.
	Known bool
	// NoService means that the cloud's catalogue lacks the driver's service. All fields below are then empty.
	NoService bool
	// ComputeZones and VolumeZones are the names of the available zones of Nova and Cinder, sorted. A change of the zones restarts pods. So new zones
	// take effect only when two answers in a row agree on them. Field Repeated reports whether that has happened since the operator started.
	ComputeZones, VolumeZones []string
	// ShareTypes are the names of Manila's share types, sorted. Each type is in at least one of the last two answers.
	ShareTypes []string
	// Repeated, for zones, means that two answers in a row had the same zones. For share types, it means that at least two answers lack each type that
	// is not in ShareTypes.
	Repeated bool
	// Refused says why checks of the vCenters prevent the installation. It is empty if no check prevents the installation.
	Refused string
	// StoragePolicy is the name of the cluster's storage policy. It is empty until the policy exists.
	StoragePolicy string
	// DatastoreURL is the URL of the datastore of in-tree vSphere volumes. It is empty if there is no such datastore, or if the URL is unknown.
	DatastoreURL string
	// ManyVolumes means that the ESXi hosts of all nodes allow more than 59 volumes for a VM.
	ManyVolumes bool
}

// CloudClasses are the StorageClasses of a driver that depend on the answers of the cloud.
type CloudClasses struct {
	// IsMade reports whether a StorageClass comes from Make, or from a predecessor that makes such classes in the same way.
	IsMade func(Class) bool
	// Make returns the classes. It keeps each existing class for which IsMade is true. It drops such a class only if all of this holds: Config.Cloud is
	// Known, Config.Cloud does not justify the class, and Config.ClassesInUse does not list the class.
	Make func(Config) []*storagev1.StorageClass
}

// Made returns the names of the StorageClasses in the cluster that CloudClasses created.
func (d Driver) Made(classes []Class) []string {
	var made []string
	for _, class := range classes {
		if class.Kind == storageClass && d.CloudClasses != nil && d.CloudClasses.IsMade(class) {
			made = append(made, class.Name)
		}
	}
	return made
}

// Unfounded returns the names of the StorageClasses in the cluster that CloudClasses would remove if no PersistentVolume used them.
func (d Driver) Unfounded(cfg Config) []string {
	made := d.Made(cfg.Classes)
	if len(made) == 0 || !cfg.Cloud.Known {
		return nil
	}
	cfg.ClassesInUse = nil
	wanted := d.CloudClasses.Make(cfg)
	return slices.DeleteFunc(made, func(name string) bool {
		return slices.ContainsFunc(wanted, func(class *storagev1.StorageClass) bool { return class.Name == name })
	})
}

// Undecided reports whether the decision to install the driver depends on the cloud, and the cloud has not answered yet.
func (d Driver) Undecided(cfg Config) bool {
	return d.Disabled != nil && d.Cloud != nil && !cfg.Cloud.Known
}

// cloudClasses returns the StorageClasses that depend on the cloud.
func (d Driver) cloudClasses(cfg Config) []client.Object {
	if d.CloudClasses == nil {
		return nil
	}
	var objects []client.Object
	for _, class := range d.CloudClasses.Make(cfg) {
		class.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind(storageClass))
		objects = append(objects, class)
	}
	return objects
}
