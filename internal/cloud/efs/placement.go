package efs

// The reasons of a Placement: what keeps pods from mounting a share.
const (
	ReasonFileSystemNotFound  = "FileSystemNotFound"
	ReasonAccessPointNotFound = "AccessPointNotFound"
	ReasonMountTargetMissing  = "MountTargetMissing"
	ReasonNoNodeInZone        = "NoNodeInZone"
)

// Placement is what AWS has of a share, that is, of an access point and its file system.
type Placement struct {
	// Off is true if nobody asks AWS: there are no credentials, or no driver is wanted. Then all works as without AWS.
	Off bool
	// Known is false if AWS does not answer. Then all works as without AWS as well, but what was known before may still be so.
	Known bool
	// Pending is true if the zone is known, but not yet what keeps pods from mounting the share.
	Pending bool
	// Zone is that of a One Zone file system; empty for a regional one.
	Zone string
	// Reason and Message say what keeps pods from mounting the share, and what to do; both are empty if nothing does.
	Reason, Message string
}
