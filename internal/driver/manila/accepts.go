package manila

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/openstack"
)

// accepts returns the values that the driver accepts. These values come from the driver's source, kubernetes/cloud-provider-openstack c453fb7c9. The
// driver rejects unknown parameters and attributes (pkg/csi/manila/validator/validator.go).
func accepts() accept.Table {
	const options = "pkg/csi/manila/options/shareoptions.go"
	table := accept.Table{
		openstack.Name(),
		{Of: accept.Parameter, Name: "protocol", Match: `(?i:cephfs|nfs)`, Why: "must be NFS or CEPHFS", Source: options},
		{Of: accept.Parameter, Name: "autoTopology", Match: `(?i:true|false)`, Why: `must be "true" or "false"`, Source: options},
		{Of: accept.Parameter, Name: "cephfs-mounter", Values: []string{"kernel", "fuse"}, Why: "must be kernel or fuse", Source: options},
		{Of: accept.Attribute, Name: "cephfs-mounter", Values: []string{"kernel", "fuse"}, Why: "must be kernel or fuse", Source: options},
		{Of: accept.Expansion, Source: "pkg/csi/manila/controllerserver.go ControllerExpandVolume"},
	}
	table = append(table, accept.VolumeModes("pkg/csi/manila/util.go validateVolumeCapabilities", corev1.PersistentVolumeFilesystem)...)
	table = append(table, accept.Named(accept.Parameter, options, "type", "shareNetworkID", "availability", "appendShareMetadata", "affinity",
		"antiAffinity", "groupID", "cephfs-clientID", "cephfs-kernelMountOptions", "cephfs-fuseMountOptions", "nfs-shareClient")...)
	return append(table, accept.Named(accept.Attribute, options, "shareID", "shareName", "shareAccessID", "shareAccessIDs",
		"cephfs-kernelMountOptions", "cephfs-fuseMountOptions")...)
}
