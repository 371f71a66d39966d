package efs

// Reasons of a Placement: why pods can't mount a share.
const (
	ReasonFileSystemNotFound  = "FileSystemNotFound"
	ReasonAccessPointNotFound = "AccessPointNotFound"
	ReasonMountTargetMissing  = "MountTargetMissing"
	ReasonNoNodeInZone        = "NoNodeInZone"
)

// Placement is the state in AWS of a share: of its access point and its file system.
type Placement struct {
	// Off means that the operator does not query AWS, for lack of credentials or because no driver is requested. Checks are skipped.
	Off bool
	// Known is false if AWS does not answer. Checks are skipped, but earlier results may still hold.
	Known bool
	// Pending means that the zone is known, but not yet whether pods can mount the share.
	Pending bool
	// Zone is the zone of a One Zone file system; empty for a regional one.
	Zone string
	// Reason and Message say why pods can't mount the share, and what to do; empty if they can.
	Reason, Message string
}
