package efs

// Reasons of a Placement. They say why pods can't mount a share.
const (
	ReasonFileSystemNotFound  = "FileSystemNotFound"
	ReasonAccessPointNotFound = "AccessPointNotFound"
	ReasonMountTargetMissing  = "MountTargetMissing"
	ReasonNoNodeInZone        = "NoNodeInZone"
)

// Placement is the state of a share in AWS: the state of its access point and of its file system.
type Placement struct {
	// Off is true if the operator does not query AWS, because it lacks credentials or no driver is requested. Callers then skip their checks.
	Off bool
	// Known is true if AWS has answered about the share. If it is false, callers skip their checks, but results of earlier checks can still be valid.
	Known bool
	// Pending is true if the operator has found out the zone, but not yet whether pods can mount the share.
	Pending bool
	// Zone is the zone of a One Zone file system. It is empty for a regional file system.
	Zone string
	// Reason and Message say why pods can't mount the share, and what to do. They are empty if pods can mount the share.
	Reason, Message string
}
