package vspherehealth

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// inTreePlugin is Kubernetes' own plugin, which the driver serves.
	inTreePlugin = "kubernetes.io/vsphere-volume"
	idPrefix     = "vsphere://"
	// platformLabel says where a node is, in clusters with nodes of several platforms (operator: check_nodes.go).
	platformLabel = "node.openshift.io/platform-type"
)

// isPlatform reports whether the driver runs on nodes with a value of platformLabel, as the affinity in driver/vsphere says. OpenShift
// sets "vsphere" only (cluster-cloud-controller-manager-operator, pkg/cloud/vsphere, --node-labels); people copy the name in the Infrastructure.
func isPlatform(value string) bool { return value == "vsphere" || value == "VSphere" || value == "" }

// node is what matters of a Linux node.
type node struct {
	name string
	// uuid is that of its VM, in lower case; empty if its providerID does not tell.
	uuid, providerID string
	// elsewhere is the platform of a node that is not of vSphere; empty for all others.
	elsewhere string
	created   time.Time
}

// nodeOf reads a node. The driver runs on no other than Linux.
func nodeOf(object client.Object) (node, bool) {
	from, ok := object.(*corev1.Node)
	if !ok || from.Labels[corev1.LabelOSStable] == "windows" {
		return node{}, false
	}
	one := node{name: from.Name, providerID: from.Spec.ProviderID, created: from.CreationTimestamp.Time}
	if where := from.Labels[platformLabel]; !isPlatform(where) {
		one.elsewhere = where
	} else if uuid, ours := strings.CutPrefix(from.Spec.ProviderID, idPrefix); ours {
		one.uuid = strings.ToLower(strings.TrimSpace(uuid))
	}
	return one, true
}

// class is a StorageClass of the driver or of the plugin: where its volumes are to be.
type class struct {
	name string
	// datastore is a name, url that of a datastore, policy the name of a storage policy.
	datastore, url, policy string
}

// classOf reads a StorageClass. The case of its parameters does not matter (detector: datastore.go).
func classOf(from *storagev1.StorageClass, driverName string) (class, bool) {
	if from.Provisioner != driverName && from.Provisioner != inTreePlugin {
		return class{}, false
	}
	one := class{name: from.Name}
	for key, value := range from.Parameters {
		switch strings.ToLower(key) {
		case "datastore":
			one.datastore = value
		case "datastoreurl":
			one.url = value
		case "storagepolicyname":
			one.policy = value
		}
	}
	return one, true
}

// volume is a PersistentVolume of the driver or of the plugin.
type volume struct {
	name string
	// inTree means that it is of the plugin; datastore is then the name of its datastore.
	inTree    bool
	datastore string
	// shared volumes can be mounted on several nodes, zonal ones not everywhere.
	shared, zonal bool
}

// volumeOf reads a PersistentVolume. A shared one has a handle with "file:" (detector: count_pv_types.go); the path of one of the plugin is
// "[datastore] folder/name.vmdk".
func volumeOf(from *corev1.PersistentVolume, driverName string) (volume, bool) {
	one := volume{name: from.Name}
	if affinity := from.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		one.zonal = len(affinity.Required.NodeSelectorTerms) > 0
	}
	switch {
	case from.Spec.CSI != nil && from.Spec.CSI.Driver == driverName:
		one.shared = strings.Contains(from.Spec.CSI.VolumeHandle, "file:")
	case from.Spec.VsphereVolume != nil:
		one.inTree = true
		if inside, found := strings.CutPrefix(from.Spec.VsphereVolume.VolumePath, "["); found {
			one.datastore, _, _ = strings.Cut(inside, "]")
		}
	default:
		return volume{}, false
	}
	return one, true
}
