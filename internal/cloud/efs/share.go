// Package efs parses the IDs and volume handles of AWS EFS, and decides which namespaces are allowed to use a share. It makes no calls.
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

// IsFileSystem reports whether a text matches AWS's pattern for file system IDs, fs-[0-9a-f]{8,40}.
func IsFileSystem(text string) bool { return isID(fileSystemPrefix, text) }

// IsAccessPoint reports whether a text matches AWS's pattern for access point IDs, fsap-[0-9a-f]{8,40}.
func IsAccessPoint(text string) bool { return isID(accessPointPrefix, text) }

func isID(prefix, text string) bool {
	digits := len(text) - len(prefix)
	return isPlain(prefix, text) && digits >= 8 && digits <= 40
}

// isPlain reports whether a text is a prefix and hexadecimal digits, of any length. Such a text can't inject colons or commas into a handle or a
// mount option.
func isPlain(prefix, text string) bool {
	digits, found := strings.CutPrefix(text, prefix)
	return found && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

// Share is an access point of a file system.
type Share struct {
	FileSystem, AccessPoint string
}

// Valid reports whether both IDs are plain (see isPlain). It accepts IDs that are too short for AWS, because SharedVolumes of earlier versions can
// have them. For new SharedVolumes, the API server checks the IDs with AWS's pattern.
func (s Share) Valid() bool {
	return isPlain(fileSystemPrefix, s.FileSystem) && isPlain(accessPointPrefix, s.AccessPoint)
}

// Handle returns the share's volume handle, FILE_SYSTEM:PATH:ACCESS_POINT with an empty path.
func (s Share) Handle() string { return s.FileSystem + "::" + s.AccessPoint }

// ShareOf returns the share of a volume, or false if the volume has no share. It parses current handles, and handles of drivers 3.0 to 3.4, which
// have the prefix "efs:". Volumes of the community's operator before June 2020 name the access point in a mount option.
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

// NamesOf returns the IDs in a volume's handle, whatever path the handle has. The access point can be empty. If the handle has no AWS IDs, NamesOf
// returns false.
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

// parts splits a handle FILE_SYSTEM[:PATH[:ACCESS_POINT]]. Drivers since 3.0 can put the prefix "efs:" before a handle.
func parts(source *corev1.CSIPersistentVolumeSource) []string {
	return strings.Split(strings.TrimPrefix(source.VolumeHandle, "efs:"), ":")
}

// accessPointOptions returns the access points in the mount options. The community's operator wrote these options before June 2020.
func accessPointOptions(volume *corev1.PersistentVolume) []string {
	var named []string
	for _, option := range volume.Spec.MountOptions {
		if accessPoint, isOne := strings.CutPrefix(option, "accesspoint="); isOne && accessPoint != "" {
			named = append(named, accessPoint)
		}
	}
	return named
}

// ListedIn reports whether a comma-separated list covers the share: "fs-ID" means all access points of a file system, "fs-ID/fsap-ID" one, and "*"
// all shares. The admission policies of SharedVolumes implement the same in CEL.
func (s Share) ListedIn(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(entry) {
		case "*", s.FileSystem, s.FileSystem + "/" + s.AccessPoint:
			return true
		}
	}
	return false
}
