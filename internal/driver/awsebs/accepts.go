package awsebs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// accepts returns the values that the driver accepts. Unless a row names another source, these values come from the driver's source,
// kubernetes-sigs/aws-ebs-csi-driver v1.64.0.
func accepts() accept.Table {
	const (
		limits     = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html"
		validation = "pkg/driver/validation.go validateExtraTags"
		parser     = "pkg/driver/options.go AddFlags; k8s.io/component-base v0.36.3 cli/flag/map_string_string.go Set"
		lengths    = "AWS allows keys of 1 to 128 and values of up to 256 characters"
		own        = "the driver sets keys of this kind itself"
		commas     = "the driver's flag --extra-tags separates tags by commas, and keys from values by equals signs"
		blanks     = "the driver's flag --extra-tags trims spaces"
		create     = "pkg/driver/controller.go CreateVolume"
	)
	table := accept.Table{
		// The key of the cluster's tag has 22 characters before the name: see driver.ClusterTag. AWS allows 128 characters in a key.
		accept.Name(106, "only a name of up to 106 letters, digits and . _ - fits into a tag", limits),
		accept.AWSRegion(),
		{Of: accept.Endpoint, Name: driver.EC2, Source: "pkg/cloud/cloud.go newEC2Cloud"},
		{Of: accept.Tag, Name: accept.Key, Match: `(?s).{1,128}`, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Value, Most: 256, Why: lengths, Source: limits},
		{Of: accept.Tag, Name: accept.Key, Except: `^(?i:aws:)`, Why: "AWS reserves keys with the prefix \"aws:\"", Source: limits},
		{Of: accept.Tag, Name: accept.Key, Except: `^(?i:kubernetes\.io|ebs\.csi\.aws\.com)|^CSIVolume(Snapshot)?Name$`, Why: own, Source: validation},
		{Of: accept.Tag, Name: accept.Key, Except: "[,=\n]", Why: commas, Source: parser},
		{Of: accept.Tag, Name: accept.Value, Except: "[,\n]", Why: commas, Source: parser},
		{Of: accept.Tag, Name: accept.Key, Except: accept.OuterBlanks, Why: blanks, Source: parser},
		{Of: accept.Tag, Name: accept.Value, Except: accept.OuterBlanks, Why: blanks, Source: parser},
		{Of: accept.Tag, List: &accept.List{Name: "its flag --extra-tags", Write: accept.Join(",", "="), Read: accept.Split(",", true)}, Source: parser},
		{Of: accept.AccessMode, Name: string(corev1.ReadWriteOnce), Source: "pkg/driver/controller.go isValidCapability"},
		accept.OnlyBlock(corev1.ReadWriteMany, "pkg/driver/controller.go isValidCapability"),
		{Of: accept.Expansion, Source: "pkg/driver/controller.go ControllerExpandVolume"},
	}
	table = append(table, accept.VolumeModes(create, corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)...)
	// The driver ignores the case of parameter names. Names of numbered parameters begin with tagSpecification_.
	return append(table, accept.Named(accept.Parameter, create, "type", "iopsPerGB", "allowAutoIOPSPerGBIncrease", "allowAutoIOPSIncreaseOnModify",
		"iops", "throughput", "volumeInitializationRate", "encrypted", "kmsKeyId", "blockExpress", "blockSize", "inodeSize", "bytesPerInode",
		"numberOfInodes", "ext4BigAlloc", "ext4ClusterSize", "ext4EncryptionSupport", "blockAttachUntilInitialized", "fsType", "tagSpecification_")...)
}
