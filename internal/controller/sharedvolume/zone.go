package sharedvolume

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// ZoneAffinityAnnotation on a SharedVolume, with value "true", makes the operator add a node affinity to the existing volume. The affinity is for the
// zone of a One Zone file system. The affinity can't be removed again.
const ZoneAffinityAnnotation = "aws-efs.managed.openshift.io/add-zone-affinity"

// listing is how long AWS may take to list a new file system.
const listing = time.Minute

// Shares provides what AWS reports about shares.
type Shares interface {
	// Locate returns what AWS reports about a share. It sends a request to AWS only if the share is unknown, and takes a few seconds at most.
	Locate(ctx context.Context, fileSystem, accessPoint string) efs.Placement
	// Events returns events for changes in AWS, and for changes of the zones of nodes. The name of an event's object is the ID of the file system, or
	// empty for all file systems.
	Events(handle handler.EventHandler) source.Source
}

// mountability is the state of condition Mountable. If reason is empty, the SharedVolume does not have the condition.
type mountability struct {
	mountable       bool
	reason, message string
}

// problem returns what prevents mounts of the share. It returns an empty string if nothing prevents mounts, or if the operator does not know whether
// mounts are possible.
func (v *mountability) problem() string {
	if v == nil || v.mountable {
		return ""
	}
	return v.message
}

// The reasons of condition Mountable with status True.
const (
	reasonRegional = "Regional"
	reasonOneZone  = "OneZone"
)

// evaluate returns the state of condition Mountable. It returns nil if the operator must ask AWS first.
func evaluate(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *mountability {
	id, zone := owner.Spec.FileSystemID, w.placement.Zone
	switch {
	case volume == nil && w.limits.Denied(shareIn(owner)) != "":
		// The SharedVolume gets no condition Mountable, because the condition would disclose facts about a share that the
		// namespace is not allowed to use.
		return &mountability{}
	case w.askable:
		return nil
	case w.placement.Off:
		return &mountability{}
	case !w.placement.Known || w.placement.Pending:
		return reported(owner)
	case w.placement.Reason != "":
		return &mountability{reason: w.placement.Reason, message: w.placement.Message}
	case zone == "":
		return &mountability{mountable: true, reason: reasonRegional, message: fmt.Sprintf("file system %s is regional", id)}
	}
	one := mountability{mountable: true, reason: reasonOneZone, message: fmt.Sprintf("file system %s is One Zone in %s", id, zone)}
	switch {
	case volume == nil:
	case volume.Spec.NodeAffinity == nil && len(w.outsideZone) > 0:
		one.message += ": the operator adds a node affinity for this zone once these pods in other zones end: " + status.Shorten(w.outsideZone)
	case volume.Spec.NodeAffinity == nil:
		one.message += fmt.Sprintf(": pods in other zones may fail to mount it; annotation %s=true keeps new pods in its zone, permanently",
			ZoneAffinityAnnotation)
	case equality.Semantic.DeepEqual(volume.Spec.NodeAffinity, affinityTo(zone)):
		one.message += ": Kubernetes schedules the pods of this volume in that zone"
	default:
		one.message += fmt.Sprintf(": PersistentVolume %s has another node affinity, which decides where its pods run", volume.Name)
	}
	return &one
}

// reported returns the state of condition Mountable that the status of the SharedVolume has now.
func reported(owner *v1alpha1.SharedVolume) *mountability {
	before := meta.FindStatusCondition(owner.Status.Conditions, v1alpha1.ConditionMountable)
	if before == nil {
		return &mountability{}
	}
	return &mountability{mountable: before.Status == metav1.ConditionTrue, reason: before.Reason, message: before.Message}
}

// confine returns a plan if ZoneAffinityAnnotation is "true". The plan adds a node affinity for the zone to a bound volume that has no node affinity.
// The operator first waits until the pods in other zones have ended, because a kubelet in another zone would refuse to mount the volume again.
func confine(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	wanted := owner.Annotations[ZoneAffinityAnnotation] == "true" && volume.Spec.NodeAffinity == nil && w.pvc.Status.Phase == corev1.ClaimBound
	// The operator adds no affinity while a problem is open, because the affinity can't be removed. For example, an affinity for a zone without nodes
	// would prevent the start of every pod.
	possible := w.placement.Known && !w.placement.Pending && w.placement.Zone != "" && w.placement.Reason == ""
	switch {
	case !wanted || !possible || len(w.outsideZone) > 0:
		return nil
	case w.outsideZone == nil:
		return &plan{phase: v1alpha1.Ready, query: queryPods}
	default:
		return &plan{phase: v1alpha1.Ready, reason: "Bound", do: &change{what: addAffinity, object: volume, fields: map[string]any{
			"spec": map[string]any{"nodeAffinity": affinityTo(w.placement.Zone)},
		}}}
	}
}

// isAwaited reports whether the operator waits until AWS lists the file system of a new SharedVolume. The file system may be new, too. Without this
// wait, the operator would create the volume before it knows the zone, and so without a node affinity.
func isAwaited(owner *v1alpha1.SharedVolume, w seen) bool {
	return w.placement.Reason == efs.ReasonFileSystemNotFound && restOfListing(owner, w) > 0
}

// restOfListing returns how much longer AWS may take to list the file system. It assumes that the file system is as old as the SharedVolume. The
// result is valid even if the clocks of the API server and of this operator differ.
func restOfListing(owner *v1alpha1.SharedVolume, w seen) time.Duration {
	return min(listing, max(0, listing-w.now.Sub(owner.CreationTimestamp.Time)))
}

// affinityTo returns a node affinity for one zone.
func affinityTo(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
		}},
	}}}}
}

// user is a pod that uses a PVC, with the node of the pod.
type user struct {
	pod, node string
	finished  bool
}

// outside returns a text about each user on a node outside of a zone, sorted. A node without a known zone counts as outside. A finished pod does not
// count. The result is never nil.
func outside(users []user, zones map[string]string, zone string) []string {
	found := []string{}
	for _, user := range users {
		if is := zones[user.node]; !user.finished && is != zone {
			found = append(found, fmt.Sprintf("%s on node %s in %s", user.pod, user.node, cmp.Or(is, "an unknown zone")))
		}
	}
	slices.Sort(found)
	return found
}
