package sharedvolume

import (
	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	// longestName is the limit of names of PVCs and volumes, longestLabel that of label values.
	longestName  = 253
	longestLabel = 63
)

func pvcName(name string) string { return fit("pvc-"+name, longestName) }

// plainVolumeName is the name that the community's operator gave to the volume of a SharedVolume, and this one did up to 5.2. Two SharedVolumes may
// want the same one, "a/b-c" and "a-b/c" for instance.
func plainVolumeName(namespace, name string) string {
	return fit("pv-"+namespace+"-"+name, longestName)
}

// uniqueVolumeName is the name of the volume of a SharedVolume. It depends on the UID: the PVC names the volume before it is there, and Kubernetes
// would bind the PVC to any volume of that name. An attacker cannot know this name before the SharedVolume exists.
func uniqueVolumeName(namespace, name, uid string) string {
	const suffix = 11
	return fit("pv-"+namespace+"-"+name, longestName-suffix) + "-" + apply.Digest(uid)[:suffix-1]
}

// fit cuts a text to a limit. What is cut is replaced by a hash of the whole, so that different texts stay different. The end
// of what is kept is a letter or digit if the text's is, as names need it.
func fit(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const hash = 10
	return text[:limit-hash-1] + "x" + apply.Digest(text)[:hash]
}

// shareIn is the share that a SharedVolume asks for.
func shareIn(owner *v1alpha1.SharedVolume) efs.Share {
	return efs.Share{FileSystem: owner.Spec.FileSystemID, AccessPoint: owner.Spec.AccessPointID}
}
