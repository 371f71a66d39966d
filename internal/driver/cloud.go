package driver

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cloud lists the facts that a driver needs from its cloud. A poller asks for them outside of the trip; the trip reads the last answer,
// Config.Cloud.
//
// A driver with Disabled is not installed for the first time before the first answer.
type Cloud struct {
	// Secret is the one of Driver.Credentials for the poller. It has clouds.yaml in a key of that name, and may have CA certificates in key
	// cacert, which are used if CA has none. For VCenters, its keys are SERVER.username and SERVER.password.
	Secret string
	// CA, if set, is the ConfigMap with the CA certificates of the cloud in PEM, in key CloudCAKey. Both are optional.
	CA client.ObjectKey
	// Zones reads the availability zones of Nova and Cinder, ShareTypes the share types of Manila.
	Zones, ShareTypes bool
	// VCenters polls the vCenters that ConfigMap Config names.
	VCenters bool
	Config   client.ObjectKey
}

// ClusterCABundle is the ConfigMap with all CA certificates that the cluster trusts, in key TrustedCAKey (openshift/cluster-network-operator,
// pkg/names/names.go, TRUSTED_CA_BUNDLE_CONFIGMAP).
func ClusterCABundle() client.ObjectKey {
	return client.ObjectKey{Namespace: ManagedNamespace, Name: "trusted-ca-bundle"}
}

// CloudFacts are the answers of a cloud to Cloud. They are complete, or not Known: unknown facts remove nothing.
type CloudFacts struct {
	// Known: the cloud has answered all questions once. Later failures keep the answers.
	Known bool
	// NoService: the cloud's catalogue lacks a service. All fields below are then empty.
	NoService bool
	// ComputeZones and VolumeZones are the names of the available zones of Nova and Cinder, sorted. A change restarts pods, so it takes effect only when
	// a second answer repeats it. After a start of the operator, that is when Repeated is true.
	ComputeZones, VolumeZones []string
	// ShareTypes are the names of Manila's share types in either of the last two answers, sorted.
	ShareTypes []string
	// Repeated: two answers agree that types missing from ShareTypes do not exist, or on these zones.
	Repeated bool
	// Refused says why checks of the vCenters prevent the installation; empty if none does.
	Refused string
	// StoragePolicy is the name of the cluster's storage policy; empty until it exists.
	StoragePolicy string
	// DatastoreURL is the URL of the datastore of in-tree vSphere volumes; empty if there is none, or if it is unknown.
	DatastoreURL string
	// ManyVolumes: the ESXi hosts of all nodes allow more than 59 volumes for a VM.
	ManyVolumes bool
}

// CloudClasses are the StorageClasses of a driver that depend on the answers of the cloud.
type CloudClasses struct {
	// IsMade reports whether Make, or a predecessor in the same way, created a StorageClass.
	IsMade func(Class) bool
	// Make returns the classes. Existing classes for which IsMade is true stay, unless Config.Cloud is Known and lacks them, and
	// Config.ClassesInUse does not list them.
	Make func(Config) []*storagev1.StorageClass
}

// Made names the StorageClasses in the cluster that CloudClasses created.
func (d Driver) Made(classes []Class) []string {
	var made []string
	for _, class := range classes {
		if class.Kind == storageClass && d.CloudClasses != nil && d.CloudClasses.IsMade(class) {
			made = append(made, class.Name)
		}
	}
	return made
}

// Unfounded names the StorageClasses in the cluster that CloudClasses would remove if no PersistentVolume used them.
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

// Undecided reports whether the installation depends on an answer of the cloud that is still missing.
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
