package vsphere

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// Keys of configuration files about which accepts has a row.
const (
	clusterID          = "Global/cluster-id"
	topologyCategories = "Labels/topology-categories"
)

// accepts returns the values that the driver accepts. These values come from the driver's source, kubernetes-sigs/vsphere-csi-driver bf8090256. The
// driver reads its configuration with gopkg.in/gcfg.v1 v1.2.3, and exits if the configuration is invalid.
func accepts() accept.Table {
	const (
		validate = "pkg/common/config/config.go validateConfig"
		plain    = `[^\p{Cc}\x{2028}\x{2029}\x{feff}]*`
		params   = "pkg/csi/service/common/util.go ParseStorageClassParams"
	)
	table := accept.Table{
		{Of: accept.File, Name: clusterID, Most: longestID, Why: "is longer than 64 characters", Source: validate},
		{Of: accept.File, Name: clusterID, Match: plain, Why: "has a line break or another control character",
			Source: "gopkg.in/gcfg.v1 scanner/scanner.go"},
		{Of: accept.File, Name: topologyCategories, Match: `[^,\p{Cc}\x{2028}\x{2029}\x{feff}]+`, Except: accept.OuterBlanks, Source: validate,
			Why: "is empty, or has a comma, an outer space or a line break in its name"},
		{Of: accept.Expansion, Source: "pkg/csi/service/vanilla/controller.go ControllerExpandVolume"},
	}
	table = append(table, accept.VolumeModes("pkg/csi/service/common/common_controller_helper.go",
		corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)...)
	// The driver rejects all other parameters. It ignores the case of parameter names.
	return append(table, accept.Named(accept.Parameter, params, "datastoreURL", "storagePolicyName", "fsType", "csiMigration")...)
}
