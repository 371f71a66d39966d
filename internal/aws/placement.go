package aws

// Placement is what AWS has of a share: where pods can mount it, and what keeps them from it.
type Placement struct {
	// Known is false if nobody could find out: there are no credentials, or AWS does not answer. Then nothing else is set, and
	// all must work as it does without AWS.
	Known bool
	// Zone is that of a One Zone file system; empty for a regional one.
	Zone string
	// Reason and Message say what keeps pods from mounting it; both are empty if nothing does.
	Reason, Message string
}

// Why pods can't mount a share.
const (
	ReasonFileSystemNotFound  = "FileSystemNotFound"
	ReasonAccessPointNotFound = "AccessPointNotFound"
	ReasonMountTargetMissing  = "MountTargetMissing"
	ReasonNoNodeInZone        = "NoNodeInZone"
)
