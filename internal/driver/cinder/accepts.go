package cinder

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/openstack"
)

// accepts returns the values that the driver accepts. These values come from the driver's source, kubernetes/cloud-provider-openstack c453fb7c9. The
// driver exits on an invalid configuration. It reads the configuration with gopkg.in/gcfg.v1 v1.2.3 (set.go, types/int.go, types/bool.go). The driver
// skips unknown keys.
func accepts() accept.Table {
	const (
		options = "pkg/csi/cinder/openstack/openstack.go BlockStorageOpts"
		number  = `[+-]?[0-9]{1,18}|-?0x[0-9a-fA-F]{1,15}`
		boolean = `(?i:true|yes|on|1|false|no|off|0)`
		create  = "pkg/csi/cinder/controllerserver.go CreateVolume"
	)
	table := accept.Table{
		openstack.Name(),
		{Of: accept.File, Name: blockStorage + "/node-volume-attach-limit", Match: number, Why: "must be a whole number", Source: options},
		{Of: accept.Expansion, Source: "pkg/csi/cinder/controllerserver.go ControllerExpandVolume"},
	}
	for _, key := range []string{"rescan-on-resize", "ignore-volume-az", "ignore-volume-microversion"} {
		table = append(table, accept.Row{Of: accept.File, Name: blockStorage + "/" + key, Match: boolean, Why: "must be true or false", Source: options})
	}
	table = append(table, accept.VolumeModes(create, corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)...)
	return append(table, accept.Named(accept.Parameter, create, "type", "availability")...)
}
