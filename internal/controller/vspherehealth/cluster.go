package vspherehealth

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// inTreePlugin is Kubernetes' in-tree plugin, whose volumes the driver serves.
	inTreePlugin = "kubernetes.io/vsphere-volume"
	idPrefix     = "vsphere://"
	// platformLabel names the platform of a node, in clusters with nodes of several platforms (vmware-vsphere-csi-driver-operator 030ff0e3,
	// check_nodes.go).
	platformLabel = "node.openshift.io/platform-type"
)

// isPlatform reports whether the driver runs on nodes with this value of platformLabel. The node affinity in driver/vsphere accepts the same values.
// OpenShift sets "vsphere" (cluster-cloud-controller-manager-operator, pkg/cloud/vsphere, --node-labels). Administrators copy "VSphere" from the
// Infrastructure.
func isPlatform(value string) bool { return value == "vsphere" || value == "VSphere" || value == "" }

// node has the fields of a Linux node that checks need.
type node struct {
	name string
	// uuid is the UUID of the node's VM, in lower case. It is empty if the providerID contains no UUID.
	uuid, providerID string
	// platform is the platform of a node that is not a vSphere VM. It is empty for vSphere VMs.
	platform string
	created  time.Time
}

// nodeOf reads a node. It returns false for Windows nodes, because the driver runs only on Linux.
func nodeOf(object client.Object) (node, bool) {
	from, ok := object.(*corev1.Node)
	if !ok || from.Labels[corev1.LabelOSStable] == "windows" {
		return node{}, false
	}
	one := node{name: from.Name, providerID: from.Spec.ProviderID, created: from.CreationTimestamp.Time}
	if where := from.Labels[platformLabel]; !isPlatform(where) {
		one.platform = where
	} else if uuid, ours := strings.CutPrefix(from.Spec.ProviderID, idPrefix); ours {
		one.uuid = strings.ToLower(strings.TrimSpace(uuid))
	}
	return one, true
}

// class has the parameters of a StorageClass that choose where vSphere stores volumes. The StorageClass belongs to the driver or to the in-tree
// plugin.
type class struct {
	name string
	// datastore is the name of a datastore. url is the URL of a datastore. policy is the name of a storage policy. Each is empty if the StorageClass has
	// no such parameter.
	datastore, url, policy string
}

// classOf reads a StorageClass. It ignores the case of parameter names (vsphere-problem-detector b2f09a5b, datastore.go).
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

// volume is a PersistentVolume of the driver or of the in-tree plugin.
type volume struct {
	name string
	// inTree is true if the volume belongs to the in-tree plugin. datastore is set only for such a volume.
	inTree    bool
	datastore string
	// shared is true if several nodes can mount the volume. zonal is true if only nodes in some zones can mount the volume.
	shared, zonal bool
}

// volumeOf reads a PersistentVolume. The handle of a shared volume contains "file:" (vsphere-problem-detector b2f09a5b, count_pv_types.go). The path
// of an in-tree volume is "[datastore] folder/name.vmdk".
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
