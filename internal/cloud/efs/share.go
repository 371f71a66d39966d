// Package efs knows the names of what AWS EFS has: IDs, handles of volumes, which namespace may use a share, and where a share can be mounted. It
// calls nothing.
package efs

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DriverName is the name of the CSI driver, and of its ClusterCSIDriver.
const DriverName = "efs.csi.aws.com"

const (
	fileSystemPrefix  = "fs-"
	accessPointPrefix = "fsap-"
)

// IsFileSystem reports whether a text is the ID of a file system by AWS's pattern, fs-[0-9a-f]{8,40}.
func IsFileSystem(text string) bool { return isID(fileSystemPrefix, text) }

// IsAccessPoint reports whether a text is the ID of an access point by AWS's pattern, fsap-[0-9a-f]{8,40}.
func IsAccessPoint(text string) bool { return isID(accessPointPrefix, text) }

func isID(prefix, text string) bool {
	digits := len(text) - len(prefix)
	return isPlain(prefix, text) && digits >= 8 && digits <= 40
}

// isPlain reports whether a text is a prefix and hexadecimal digits, however many. It holds neither colons nor commas, so that it can't become
// more of a handle or a mount option than an ID.
func isPlain(prefix, text string) bool {
	digits, found := strings.CutPrefix(text, prefix)
	return found && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

// Share is an access point of a file system.
type Share struct {
	FileSystem, AccessPoint string
}

// Valid reports whether both IDs are plain. Old SharedVolumes have IDs of fewer digits than AWS's; the API server holds new ones to AWS's pattern.
func (s Share) Valid() bool {
	return isPlain(fileSystemPrefix, s.FileSystem) && isPlain(accessPointPrefix, s.AccessPoint)
}

// Handle is the driver's name of the share's volume: FILE_SYSTEM:PATH:ACCESS_POINT, without a path.
func (s Share) Handle() string { return s.FileSystem + "::" + s.AccessPoint }

// ShareOf reads which share a volume is. It knows the handle of today, that of drivers 3.0 to 3.4 with a prefix "efs:", and volumes of the
// community's operator before June 2020, whose access point is a mount option. False means that the volume is no share of this kind.
func ShareOf(volume *corev1.PersistentVolume) (Share, bool) {
	source := volume.Spec.CSI
	if source == nil || source.Driver != DriverName {
		return Share{}, false
	}
	var found Share
	switch parts := parts(source); len(parts) {
	case 1:
		options := accessPointOptions(volume)
		if len(options) > 1 {
			return Share{}, false
		}
		found = Share{FileSystem: parts[0], AccessPoint: strings.Join(options, "")}
	case 3:
		if parts[1] != "" {
			return Share{}, false
		}
		found = Share{FileSystem: parts[0], AccessPoint: parts[2]}
	default:
		return Share{}, false
	}
	return found, found.Valid()
}

// NamesOf are the IDs that any volume of the driver names, whatever its path; the access point is empty where it has none. False means that
// they are no IDs of AWS.
func NamesOf(volume *corev1.PersistentVolume) (Share, bool) {
	source := volume.Spec.CSI
	if source == nil || source.Driver != DriverName {
		return Share{}, false
	}
	parts := parts(source)
	found := Share{FileSystem: parts[0]}
	if len(parts) >= 3 {
		found.AccessPoint = strings.Join(parts[2:], ":")
	}
	if options := accessPointOptions(volume); found.AccessPoint == "" && len(options) > 0 {
		found.AccessPoint = options[0]
	}
	return found, IsFileSystem(found.FileSystem) && (found.AccessPoint == "" || IsAccessPoint(found.AccessPoint))
}

// parts are those of a handle FILE_SYSTEM[:PATH[:ACCESS_POINT]], which drivers since 3.0 may write with "efs:" in front.
func parts(source *corev1.CSIPersistentVolumeSource) []string {
	return strings.Split(strings.TrimPrefix(source.VolumeHandle, "efs:"), ":")
}

// accessPointOptions are the access points that the mount options name. PVs of old operators have one there.
func accessPointOptions(volume *corev1.PersistentVolume) []string {
	var named []string
	for _, option := range volume.Spec.MountOptions {
		if accessPoint, isOne := strings.CutPrefix(option, "accesspoint="); isOne && accessPoint != "" {
			named = append(named, accessPoint)
		}
	}
	return named
}

// ListedIn reports whether a list of shares, separated by commas, has this one: "fs-ID" is all access points of a file system, "fs-ID/fsap-ID"
// one, and "*" everything. The admission policies of SharedVolumes say the same in CEL.
func (s Share) ListedIn(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(entry) {
		case "*", s.FileSystem, s.FileSystem + "/" + s.AccessPoint:
			return true
		}
	}
	return false
}
