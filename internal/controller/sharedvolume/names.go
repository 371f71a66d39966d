package sharedvolume

import (
	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	// Kubernetes' limits for names of PVCs and volumes, and for label values.
	longestName  = 253
	longestLabel = 63
)

func pvcName(name string) string { return fit("pvc-"+name, longestName) }

// plainVolumeName is the volume name that the community's operator used, and this one up to 5.2. It is not unique: SharedVolumes "a/b-c" and "a-b/c"
// have the same one.
func plainVolumeName(namespace, name string) string {
	return fit("pv-"+namespace+"-"+name, longestName)
}

// uniqueVolumeName is the name of a SharedVolume's volume. The PVC names the volume before that exists, and Kubernetes binds it to any volume of the
// name. So the name depends on the UID: an attacker can't create such a volume first.
func uniqueVolumeName(namespace, name, uid string) string {
	const suffix = 11
	return fit("pv-"+namespace+"-"+name, longestName-suffix) + "-" + apply.Digest(uid)[:suffix-1]
}

// fit shortens a text to a limit. A hash of the whole text replaces its end, so that different texts stay different. Names must end in a letter or
// digit, which the hash does.
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
