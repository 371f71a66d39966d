// Package sharedvolume turns a SharedVolume into a PersistentVolume and a claim that is bound to it.
package sharedvolume

import (
	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/efs"
)

// shareIn is the share that a SharedVolume asks for.
func shareIn(owner *v1alpha1.SharedVolume) efs.Share {
	return efs.Share{FileSystem: owner.Spec.FileSystemID, AccessPoint: owner.Spec.AccessPointID}
}
