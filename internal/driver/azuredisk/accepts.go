package azuredisk

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
)

// accepts returns the values that the driver accepts. All sources are files of kubernetes-sigs/azuredisk-csi-driver, in the version that the row
// names.
func accepts() accept.Table {
	const (
		create   = "v1.33.2 pkg/azureutils/azure_disk_utils.go ParseDiskParameters"
		modes    = "v1.33.2 pkg/azureutils/azure_disk_utils.go IsValidVolumeCapabilities"
		snapshot = "v1.33.2 pkg/azuredisk/controllerserver.go CreateSnapshot"
	)
	table := append(azure.AcceptTags(
		azure.Tags{Before: "1.34.0", Refused: "<>%&?/.", Source: "v1.33.2 pkg/util/util.go ConvertTagsToMap"},
		azure.Tags{Since: "1.34.0", Refused: `<>%&?\/`, Source: "v1.34.0 pkg/util/util.go ConvertTagsToMap (dc6ce8c64)"},
	),
		accept.Row{Of: accept.Tag, Name: accept.Key, Except: `^(?i:k8s-azure-created-by|kubernetes\.io-created-for-(pv|pvc)-name(space)?)$`,
			Why: "the driver sets this key itself", Source: "v1.33.2 pkg/azureconstants/azure_constants.go"},
		accept.Row{Of: accept.AccessMode, Name: string(corev1.ReadWriteOnce), Source: modes},
		accept.OnlyBlock(corev1.ReadOnlyMany, modes), accept.OnlyBlock(corev1.ReadWriteMany, modes),
		accept.Row{Of: accept.Expansion, Source: "v1.33.2 pkg/azuredisk/controllerserver.go ControllerExpandVolume"},
	)
	table = append(table, accept.VolumeModes("v1.33.2 pkg/azureutils/azure_disk_utils.go IsValidVolumeCapabilities",
		corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)...)
	// The driver ignores the case of names. A name with the prefix device-setting/ is a file of the block device.
	table = append(table, accept.Named(accept.Parameter, create, "skuName", "location", "storageAccountType", "cachingMode", "subscriptionID",
		"resourceGroup", "diskIOPSReadWrite", "diskMBpsReadWrite", "logicalSectorSize", "diskName", "diskEncryptionSetID", "diskEncryptionType", "tags",
		"writeAcceleratorEnabled", "maxShares", "fsType", "kind", "perfProfile", "networkAccessPolicy", "publicNetworkAccess", "diskAccessID",
		"enableBursting", "userAgent", "enableAsyncAttach", "zoned", "enablePerformancePlus", "attachDiskInitialDelay", "tagValueDelimiter")...)
	return append(table, accept.Named(accept.SnapshotParameter, snapshot, "tags", "incremental", "resourceGroup", "location", "userAgent",
		"subscriptionID", "dataAccessAuthMode", "tagValueDelimiter")...)
}
