package awsefs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

const (
	controller = "v3.4.1 pkg/driver/controller.go CreateVolume"
	node       = "v3.4.1 pkg/driver/node.go NodePublishVolume"
	helper     = "aws/efs-utils v3.2.0 src/efs_utils_common/constants.py"
)

// Values that strconv.ParseBool accepts.
const (
	truth   = `1|t|T|true|TRUE|True`
	boolean = truth + `|0|f|F|false|FALSE|False`

	wantsBoolean = `must be "true" or "false"`
)

// ofUsers returns the values that the driver accepts in StorageClasses and PersistentVolumes.
func ofUsers() accept.Table {
	table := accept.Table{
		// Drivers since 3.0 also accept value s3files-ap, for S3 Files. This project does not install the mount helper for S3 Files.
		{Of: accept.Parameter, Name: "provisioningMode", Values: []string{"efs-ap"}, Why: "must be efs-ap", Source: controller},
		{Of: accept.Parameter, Name: "fileSystemId", Source: controller},
		{Of: accept.Parameter, Name: "fileSystemIdConfigRef", Since: "2.1.15", Source: controller},
		{Of: accept.Parameter, Name: "fileSystemIdSecretRef", Since: "2.1.15", Source: controller},
		{Of: accept.Parameter, Name: "directoryPerms", Match: `[0-7]{3,4}`, Why: `must be octal permissions, such as "700"`,
			Source: "https://docs.aws.amazon.com/efs/latest/ug/API_CreationInfo.html"},
		{Of: accept.Parameter, Name: "uid", Match: `\+?[0-9]{1,18}`, Why: "must be a whole number of at least 0", Source: controller},
		{Of: accept.Parameter, Name: "gid", Match: `\+?[0-9]{1,18}`, Why: "must be a whole number of at least 0", Source: controller},
		{Of: accept.Parameter, Name: "gidRangeStart", Match: `\+?0*[1-9][0-9]{0,17}`, Why: "must be a whole number of at least 1", Source: controller},
		{Of: accept.Parameter, Name: "gidRangeEnd", Match: `\+?0*[1-9][0-9]{0,17}`, Why: "must be a whole number of at least 1", Source: controller},
		// The driver appends a directory to the basePath. AWS limits the whole path, so a basePath within these limits can still be too long.
		{Of: accept.Parameter, Name: "basePath", Most: 100, Except: `^/*[^/]+(/+[^/]+){4}`,
			Why:    "a path has at most 100 characters and 4 parent directories",
			Source: "v3.4.1 pkg/driver/controller.go validatePathRequirements"},
		{Of: accept.Parameter, Name: "subPathPattern", Source: controller},
		{Of: accept.Parameter, Name: "ensureUniqueDirectory", Match: boolean, Why: wantsBoolean, Source: controller},
		{Of: accept.Parameter, Name: "reuseAccessPoint", Match: boolean, Why: wantsBoolean, Source: controller},
		{Of: accept.Parameter, Name: "enforceZoneAffinity", Since: "2.3.0", Match: boolean, Why: wantsBoolean, Source: controller},
		{Of: accept.Parameter, Name: "enableTagging", Since: "3.4.0", Match: truth, Source: controller,
			Why: `remove it: the driver accepts only "true", because the cluster has tags for access points`},
		{Of: accept.Parameter, Name: "az", Source: controller},
		// All other mount options go to NFS.
		{Of: accept.MountOption, Name: "accesspoint", Source: helper},
		{Of: accept.MountOption, Name: "awsprofile", Source: helper},
		{Of: accept.MountOption, Name: "az", Source: helper},
		{Of: accept.MountOption, Name: "iam", Source: helper},
		{Of: accept.MountOption, Name: "mounttargetip", Source: helper},
		{Of: accept.MountOption, Name: "region", Source: helper},
		{Of: accept.MountOption, Name: "tls", Source: node},
		{Of: accept.MountOption, Name: "awscredsuri", Except: `^`, Why: "the driver ignores this option", Source: node},
		{Of: accept.MountOption, Name: "capath", Except: `^`, Why: "the mount helper refuses this option", Source: helper},
	}
	table = append(table, ofVolumes()...)
	table = append(table, accept.VolumeModes(node, corev1.PersistentVolumeFilesystem)...)
	return append(table, accept.Named(accept.AccessMode, "v3.4.1 pkg/driver/node.go volumeCapAccessModes",
		string(corev1.ReadWriteOnce), string(corev1.ReadWriteMany))...)
}
