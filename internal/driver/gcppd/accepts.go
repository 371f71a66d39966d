package gcppd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// accepts returns the values that the driver accepts. Unless a row names another source, these values come from the driver's source,
// kubernetes-sigs/gcp-compute-persistent-disk-csi-driver v1.26.4. The driver exits on invalid flags. The driver has the same patterns as OpenShift's
// API, but first splits tags at commas.
func accepts() accept.Table {
	const (
		labelParser = "pkg/convert/convert.go ConvertLabelsStringToMap"
		tagParser   = "pkg/convert/convert.go ConvertTagsStringToMap"
		create      = "pkg/parameters/parameters.go ExtractAndDefaultParameters"
		reserved    = "only Kubernetes and OpenShift may set labels that begin with kubernetes-io or openshift-io"
	)
	table := accept.Table{
		{Of: accept.ClusterName, Most: 41, Match: `[a-z0-9_-]+`, Source: labelParser,
			Why: "only a name of up to 41 lower-case letters, digits, - and _ fits into a label"},
		{Of: accept.Label, Name: accept.Key, Except: `^(kubernetes|openshift)-io`, Why: reserved,
			Source: "https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels; openshift/api config/v1"},
		{Of: accept.Label, Name: accept.Key, Match: labelKey, Source: labelParser,
			Why: "a key has 1 to 63 lower-case letters, digits, - and _, and begins with a letter"},
		{Of: accept.Label, Name: accept.Value, Match: labelValue, Source: labelParser, Why: "a value has up to 63 lower-case letters, digits, - and _"},
		{Of: accept.Label, List: &accept.List{Name: "its flag --extra-labels", Write: accept.Join(",", "="), Read: readLabels}, Source: labelParser},
		{Of: accept.Tag, Name: accept.Value, Except: ",", Why: "the driver's flag --extra-tags separates tags by commas", Source: tagParser},
		{Of: accept.Tag, Name: accept.Key, Match: tagParent + "/" + tagKey, Source: tagParser,
			Why: "the driver accepts the number of an organization or the ID of a project, and keys of up to 63 letters, digits and _ . -"},
		{Of: accept.Tag, Name: accept.Value, Match: tagValue, Source: tagParser,
			Why: "the driver accepts values of up to 63 letters, digits, spaces and _ - . @ % = + : * # & ( ) { } [ ]"},
		{Of: accept.Tag, List: &accept.List{Name: "its flag --extra-tags", Write: accept.Join(",", "/"), Read: readTags}, Source: tagParser},
		{Of: accept.AccessMode, Name: string(corev1.ReadWriteOnce), Source: "pkg/gce-pd-csi-driver/utils.go validateAccessMode"},
		{Of: accept.AccessMode, Name: string(corev1.ReadOnlyMany), Source: "pkg/gce-pd-csi-driver/utils.go validateAccessMode"},
		accept.OnlyBlock(corev1.ReadWriteMany, "pkg/gce-pd-csi-driver/utils.go validateVolumeCapability"),
		{Of: accept.Expansion, Source: "pkg/gce-pd-csi-driver/controller.go ControllerExpandVolume"},
	}
	table = append(table, accept.VolumeModes("pkg/gce-pd-csi-driver/utils.go validateVolumeCapability", corev1.PersistentVolumeFilesystem,
		corev1.PersistentVolumeBlock)...)
	table = append(table, accept.Named(accept.SnapshotParameter, "pkg/parameters/parameters.go ExtractAndDefaultSnapshotParameters",
		"storage-locations", "snapshot-type", "image-family", "labels", "resource-tags")...)
	return append(table, accept.Named(accept.Parameter, create, "type", "replication-type", "disk-encryption-kms-key", "labels",
		"provisioned-iops-on-create", "provisioned-throughput-on-create", "availability-class", "enable-confidential-storage", "storage-pools",
		"data-cache-size", "data-cache-mode", "resource-tags", "enable-multi-zone-provisioning", "access-mode", "use-allowed-disk-topology",
		"hyperdisk-type", "pd-type", "disk-type-preference")...)
}

// The patterns of the driver.
const (
	labelKey   = `\p{Ll}[\p{Ll}0-9_-]{0,62}`
	labelValue = `[\p{Ll}0-9_-]{0,63}`
	tagParent  = `([1-9][0-9]{0,31}|[a-z][a-z0-9-]{4,28}[a-z0-9])`
	tagKey     = `[a-zA-Z0-9]([0-9A-Za-z_.-]{0,61}[a-zA-Z0-9])?`
	tagValue   = `[a-zA-Z0-9]([0-9A-Za-z_.@%=+:,*#&()\[\]{}\-\s]{0,61}[a-zA-Z0-9])?`
)
