package driver

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cloud says what a driver has to know of its cloud that no object of the cluster tells. It is asked for on a schedule, outside of the trip; the
// trip reads the last answer, Config.Cloud.
//
// A driver with Disabled that was never installed is not installed before the first answer. The cluster does not need it until then.
type Cloud struct {
	// Secret is the one of Driver.Credentials with which the cloud is asked. Its key is clouds.yaml, and its key cacert, which it may lack, has
	// the CA certificates of the cloud where CA has none. For VCenters, its keys are SERVER.username and SERVER.password.
	Secret string
	// CA, if set, is the ConfigMap with the CA certificates of the cloud in PEM, under CloudCAKey. Neither it nor the key need be there.
	CA client.ObjectKey
	// Zones asks Nova and Cinder for their availability zones, ShareTypes asks Manila for its share types.
	Zones, ShareTypes bool
	// VCenters asks the vCenters that ConfigMap Config names.
	VCenters bool
	Config   client.ObjectKey
}

// ClusterCABundle is the ConfigMap with all CA certificates that the cluster trusts, under TrustedCAKey (openshift/cluster-network-operator,
// pkg/names/names.go, TRUSTED_CA_BUNDLE_CONFIGMAP).
func ClusterCABundle() client.ObjectKey {
	return client.ObjectKey{Namespace: ManagedNamespace, Name: "trusted-ca-bundle"}
}

// CloudFacts is what a cloud has answered, as far as Cloud asks for it. It is complete, or not Known: what is not known removes nothing.
type CloudFacts struct {
	// Known means that all questions were answered once. Later failures leave the answers as they are.
	Known bool
	// NoService means that the catalogue of the cloud lacks a service that was to be asked. Then all that follows is empty.
	NoService bool
	// ComputeZones and VolumeZones are the names of the zones of Nova and Cinder that are available, sorted. A change counts when the second
	// answer has it as well: pods are restarted for it. After a start of the operator that is so once they are Repeated.
	ComputeZones, VolumeZones []string
	// ShareTypes are the names of Manila's share types that any of the last two answers has, sorted.
	ShareTypes []string
	// Repeated means that there were two answers: what ShareTypes lacks was in neither, or both had these zones.
	Repeated bool
	// Refused says why the vCenters do not let the driver be installed, a sentence; empty if nothing speaks against it.
	Refused string
	// StoragePolicy is the name of the cluster's storage policy; empty while there is none.
	StoragePolicy string
	// DatastoreURL is that of the datastore of the volumes that Kubernetes' own vSphere plugin has made; empty if there is none, or if it is not known.
	DatastoreURL string
	// ManyVolumes means that every ESXi host of a node lets a VM have more than 59 volumes.
	ManyVolumes bool
}

// CloudClasses are the StorageClasses of a driver that follow from what the cloud has answered. Their names are not known before.
type CloudClasses struct {
	// IsMade tells whether a StorageClass was made by Make, some time, or by a predecessor in the same way.
	IsMade func(Class) bool
	// Make makes them. Those of Config.Classes that IsMade knows stay as they are, unless Config.Cloud is known to speak against them and
	// Config.ClassesInUse does not have them.
	Make func(Config) []*storagev1.StorageClass
}

// Made are the names of the StorageClasses in the cluster that CloudClasses has made.
func (d Driver) Made(classes []Class) []string {
	var made []string
	for _, class := range classes {
		if class.Kind == storageClass && d.CloudClasses != nil && d.CloudClasses.IsMade(class) {
			made = append(made, class.Name)
		}
	}
	return made
}

// Unfounded are the names of the StorageClasses in the cluster that CloudClasses makes no more, unless there are PersistentVolumes of them.
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

// Undecided tells whether only the cloud knows whether there is anything to drive, and it has not answered yet.
func (d Driver) Undecided(cfg Config) bool {
	return d.Disabled != nil && d.Cloud != nil && !cfg.Cloud.Known
}

// cloudClasses are the StorageClasses that follow from the cloud.
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
