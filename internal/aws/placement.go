package aws

// The reasons of a Placement: what keeps pods from mounting a share.
const (
	ReasonFileSystemNotFound  = "FileSystemNotFound"
	ReasonAccessPointNotFound = "AccessPointNotFound"
	ReasonMountTargetMissing  = "MountTargetMissing"
	ReasonNoNodeInZone        = "NoNodeInZone"
)

// Placement is what AWS has of a share, that is, of an access point and its file system.
type Placement struct {
	// Known is false if nobody could find out: there are no credentials, or AWS does not answer. Then all works as without AWS.
	Known bool
	// Zone is that of a One Zone file system; empty for a regional one.
	Zone string
	// Reason and Message say what keeps pods from mounting the share, and what to do; both are empty if nothing does.
	Reason, Message string
}
