package sharedvolume

import (
	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	// Kubernetes' limits for the names of PVCs and volumes, and for label values.
	longestName  = 253
	longestLabel = 63
)

func pvcName(name string) string { return fit("pvc-"+name, longestName) }

// plainVolumeName returns the volume name that the community's operator used. This operator used it up to version 5.2. The name is not unique:
// SharedVolumes "a/b-c" and "a-b/c" have the same plain name.
func plainVolumeName(namespace, name string) string {
	return fit("pv-"+namespace+"-"+name, longestName)
}

// uniqueVolumeName returns the name of a SharedVolume's volume. The PVC names the volume before the volume exists, and Kubernetes binds the PVC to
// any volume of that name. So the name contains a hash of the UID, and an attacker can't create a volume of this name first.
func uniqueVolumeName(namespace, name, uid string) string {
	const suffix = 11
	return fit("pv-"+namespace+"-"+name, longestName-suffix) + "-" + apply.Digest(uid)[:suffix-1]
}

// fit shortens a text to a limit. It replaces the end of the text by a hash of the whole text, so that different texts stay different. A name must
// end in a letter or digit, and the hash does.
func fit(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const hash = 10
	return text[:limit-hash-1] + "x" + apply.Digest(text)[:hash]
}

// shareIn returns the share that a SharedVolume asks for.
func shareIn(owner *v1alpha1.SharedVolume) efs.Share {
	return efs.Share{FileSystem: owner.Spec.FileSystemID, AccessPoint: owner.Spec.AccessPointID}
}
