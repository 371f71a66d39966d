package leftovers

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// seen is the observed state that a plan depends on.
type seen struct {
	drivers map[string]bool
	volumes []corev1.PersistentVolume
	pvcs    []corev1.PersistentVolumeClaim
	classes []storagev1.StorageClass
	shares  []v1alpha1.SharedVolume
	// points are the access points of the AWS account. It is nil without --account.
	points  []aws.AccessPoint
	infraID string
	// predecessors are the objects that a migration still has to delete.
	predecessors []migration.PlannedObject
	// notes has sentences that say what the command did not check.
	notes []string
}

// Kinds of leftovers that this command deletes itself.
const (
	persistentVolume = "PersistentVolume"
	accessPoint      = "access point"
)

// Item is a leftover.
type Item struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Of is the driver of a PersistentVolume, the file system of an access point, or the namespace of another object.
	Of string `json:"of,omitempty"`
	// Why says why the object is a leftover. Kept says why --delete does not delete the object. Kept is empty if --delete deletes the object.
	Why  string `json:"why"`
	Kept string `json:"kept,omitempty"`

	uid types.UID
}

// Plan lists the leftovers. It can't change anything.
type Plan struct {
	Items []Item   `json:"items"`
	Notes []string `json:"notes,omitempty"`
}

// deletable returns the items that --delete deletes.
func (p Plan) deletable() []Item {
	return slices.DeleteFunc(slices.Clone(p.Items), func(item Item) bool { return item.Kept != "" })
}

// planOf finds the leftovers. It is pure.
func planOf(s seen) Plan {
	plan := Plan{Items: []Item{}, Notes: s.notes}
	for i := range s.volumes {
		if item, left := volumeItem(&s.volumes[i], s.drivers); left {
			plan.Items = append(plan.Items, item)
		}
	}
	pending, used := s.pending(), s.used()
	for _, point := range s.points {
		if point.State == aws.StateDeleting || point.State == aws.StateDeleted || used[point.ID] || efscleanup.Refusal(s.infraID, point.Tags) != "" {
			continue
		}
		item := Item{Kind: accessPoint, Name: point.ID, Of: point.FileSystem, Why: "no PersistentVolume or SharedVolume uses it"}
		switch {
		case point.Tags[awsefs.DriverTag] == "":
			item.Kept = "the driver did not create it: after the cluster is destroyed, \"oc storage efs cleanup\" deletes it"
		case pending != "":
			item.Kept = "PersistentVolumeClaim " + pending + " waits for a volume, and may get this one"
		}
		plan.Items = append(plan.Items, item)
	}
	for _, object := range s.predecessors {
		plan.Items = append(plan.Items, Item{
			Kind: object.Kind, Name: object.Name, Of: object.Namespace, Why: cmp.Or(object.Note, "a predecessor left it"),
			Kept: "the operator deletes it when ClusterCSIDriver " + awsefs.Name + " exists",
		})
	}
	slices.SortStableFunc(plan.Items, func(a, b Item) int { return cmp.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return plan
}

// volumeItem returns the item for a PersistentVolume, and reports whether the volume has lost its claim.
func volumeItem(pv *corev1.PersistentVolume, drivers map[string]bool) (Item, bool) {
	item := Item{Kind: persistentVolume, Name: pv.Name, Of: volume.DriverOf(pv), uid: pv.UID}
	if !drivers[item.Of] || (pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeFailed) {
		return item, false
	}
	was := ""
	if pvc := pv.Spec.ClaimRef; pvc != nil {
		was = fmt.Sprintf("; its claim was %s/%s", pvc.Namespace, pvc.Name)
	}
	item.Why = string(pv.Status.Phase) + was
	switch {
	case pv.DeletionTimestamp != nil:
		item.Kept = "it is being deleted"
	case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		item.Kept = "its reclaim policy is Delete, so the driver deletes it with its data; if that fails, oc describe pv says why"
	}
	return item, true
}

// pending returns the name of a PVC for which the driver may be creating an access point at this moment. If no PVC waits for a volume, the name is
// empty.
func (s seen) pending() string {
	ours := map[string]bool{}
	for _, class := range s.classes {
		ours[class.Name] = class.Provisioner == awsefs.Name
	}
	for _, pvc := range s.pvcs {
		if pvc.Status.Phase != corev1.ClaimBound && pvc.Spec.StorageClassName != nil && ours[*pvc.Spec.StorageClassName] {
			return pvc.Namespace + "/" + pvc.Name
		}
	}
	return ""
}

// used returns the access points that PersistentVolumes and SharedVolumes use.
func (s seen) used() map[string]bool {
	found := map[string]bool{}
	for i := range s.volumes {
		// Even if another part of the handle is invalid, its access point counts as used.
		share, _ := efs.NamesOf(&s.volumes[i])
		found[share.AccessPoint] = true
	}
	for _, share := range s.shares {
		found[share.Spec.AccessPointID] = true
	}
	return found
}
