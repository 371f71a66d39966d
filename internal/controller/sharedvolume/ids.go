// Package sharedvolume turns a SharedVolume into a PersistentVolume and a claim that is bound to it.
package sharedvolume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// DriverName is the CSI driver of the volumes.
const DriverName = "efs.csi.aws.com"

// share is an access point of a file system.
type share struct {
	fileSystem, accessPoint string
}

// valid tells whether both IDs are IDs: they hold neither colons nor commas, so that an ID can't become more of a handle or a
// mount option than an ID. New objects are held to AWS's own, stricter patterns by the API server.
func (s share) valid() bool { return isID("fs-", s.fileSystem) && isID("fsap-", s.accessPoint) }

func isID(prefix, text string) bool {
	digits, found := strings.CutPrefix(text, prefix)
	return found && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

// shareIn is the share that a SharedVolume asks for.
func shareIn(owner *v1alpha1.SharedVolume) share {
	return share{owner.Spec.FileSystemID, owner.Spec.AccessPointID}
}

// handle is the driver's name of the volume: FILE_SYSTEM:PATH:ACCESS_POINT, without a path.
func (s share) handle() string { return s.fileSystem + "::" + s.accessPoint }

// shareOf reads which share a volume is. It knows the handle of today, that of drivers 3.0 to 3.4 with a prefix "efs:", and
// volumes of the community's operator before June 2020, whose access point is a mount option. False means that the volume is
// no share of this kind.
func shareOf(volume *corev1.PersistentVolume) (share, bool) {
	source := volume.Spec.CSI
	if source == nil || source.Driver != DriverName {
		return share{}, false
	}
	var found share
	switch parts := strings.Split(strings.TrimPrefix(source.VolumeHandle, "efs:"), ":"); len(parts) {
	case 1:
		found.fileSystem = parts[0]
		for _, option := range volume.Spec.MountOptions {
			if accessPoint, isOne := strings.CutPrefix(option, "accesspoint="); isOne {
				if found.accessPoint != "" {
					return share{}, false
				}
				found.accessPoint = accessPoint
			}
		}
	case 3:
		if parts[1] != "" {
			return share{}, false
		}
		found = share{parts[0], parts[2]}
	default:
		return share{}, false
	}
	return found, found.valid()
}
