package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// inUse describes what blocks a removal: pods, PersistentVolumes, objects that only the driver can delete, or nodes with mounts.
type inUse struct {
	count    int
	names    []string
	message  string
	patience status.Patience
}

// mounts is what the operator has learned during a removal about mounts on nodes.
type mounts struct {
	// nodes have mounts, or had mounts when they last reported to this removal.
	nodes []string
	// unknown is the time at which the removal began to wait for an answer about nodes of which no mount is known. It is zero while the removal does not
	// wait for that. Objects that hold the removal in between do not prolong this wait, because new objects can come for ever.
	unknown time.Time
	// asked is the time of the last question to the nodes.
	asked time.Time
	// objects is true if objects have held the removal since the last question. freed is the time of the first question after that.
	objects bool
	freed   time.Time
}

// ask notes a question to the nodes. Argument "held" is true if anything held the removal at the last check.
func (m *mounts) ask(now time.Time, held bool) {
	if now.Sub(m.asked) > waitCounts {
		m.unknown = time.Time{}
	}
	// At its first question, a restarted operator does not know whether objects held the removal.
	if m.objects || held && m.asked.IsZero() {
		m.freed = now
	}
	m.asked, m.objects = now, false
}

// holdsRemoval returns what blocks a removal. It checks mounts only if no object blocks the removal. It returns the zero value if nothing blocks the
// removal. While objects block the removal, the message also names the nodes that had mounts before, for an operator that restarts meanwhile.
func (r *Reconciler) holdsRemoval(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (inUse, error) {
	held, err := r.heldByObjects(ctx, cr)
	switch {
	case err != nil || r.Mounted == nil:
		return held, err
	case held.message == "":
		return r.heldByMounts(ctx, cr), nil
	}
	r.mounts.objects = true
	if nodes := r.present(ctx, r.mountsBefore(cr)); len(nodes) > 0 {
		held.message += fmt.Sprintf(". Also, %d %s%s", len(nodes), driver.RemovalHasMounts, status.Shorten(nodes))
	}
	return held, nil
}

// heldByObjects returns the objects that block a removal. It returns the zero value if no object blocks the removal. It checks pods first, because
// pods would hang without the driver.
func (r *Reconciler) heldByObjects(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (inUse, error) {
	volumes, err := volume.OfDriver(ctx, r.Live, r.Driver.Name)
	if err != nil {
		return inUse{}, err
	}
	users, err := volumes.Users(ctx, r.Live)
	if err != nil {
		return inUse{}, err
	}
	if len(users) > 0 {
		return heldByPods(cr, users), nil
	}
	// The administrator of a payload driver may not know that the driver has PersistentVolumes. So these PersistentVolumes block the removal.
	if r.Driver.RemovedByState && cr.Spec.ManagementState == operatorv1.Removed && len(volumes.Names) > 0 {
		return heldByVolumes(cr, volumes.Names), nil
	}
	unfinished, err := r.unfinished(ctx, volumes)
	if err != nil || len(unfinished) == 0 {
		return inUse{}, err
	}
	return heldByWork(cr, unfinished), nil
}

// unknownWait is how long a removal waits while the operator does not know whether nodes have mounts. After this time, the removal continues.
// Prometheus reads the reports of the nodes every 30 seconds.
const unknownWait = 2 * time.Minute

// waitCounts is how long a wait counts after the last question to the nodes. If objects hold the removal for longer, nodes can get other mounts
// meanwhile, and the removal waits anew.
const waitCounts = 10 * time.Minute

// oldestReport is the age up to which a report of a node counts (internal/controller/efshealth/reports, ask.go).
const oldestReport = 2 * time.Minute

// heldByMounts asks the nodes for mounts that remain although no running pod uses a volume. Such mounts remain because the kubelet unmounts late
// after a pod was deleted by force. The kubelet can't unmount without the driver. If nodes do not answer, the removal waits for unknownWait, and then
// continues. But a node that has reported mounts during the removal blocks it until it reports no mounts, or leaves the cluster.
func (r *Reconciler) heldByMounts(ctx context.Context, cr *operatorv1.ClusterCSIDriver) inUse {
	before := r.present(ctx, r.mountsBefore(cr))
	nodes, unknown, err := r.Mounted(ctx, before)
	r.mounts.ask(r.Now(), r.inUseBefore(cr).message != "")
	silent := slices.DeleteFunc(slices.Clone(unknown), func(node string) bool { return !slices.Contains(before, node) })
	r.mounts.nodes = slices.Sorted(slices.Values(slices.Concat(nodes, silent)))
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case len(unknown) > 0:
		why = fmt.Sprintf("%d nodes do not report: %s", len(unknown), status.Shorten(unknown))
	case len(r.mounts.nodes) == 0 && r.Now().Sub(r.mounts.freed) < oldestReport:
		why = "their reports may be older than the pods and objects that blocked the removal"
	}
	switch {
	case len(r.mounts.nodes) > 0:
		r.mounts.unknown = time.Time{}
		return heldByNodes(cr, r.mounts.nodes, why)
	case why == "":
		r.mounts.unknown = time.Time{}
		return inUse{}
	case r.mounts.unknown.IsZero():
		r.mounts.unknown = r.Now()
	case r.Now().Sub(r.mounts.unknown) >= unknownWait:
		return inUse{}
	}
	return inUse{names: []string{"unknown mounts"}, message: fmt.Sprintf("Removal waits for %s, then continues. %s%s",
		unknownWait, driver.RemovalUnknownMounts, why)}
}

// present returns the nodes that the cluster still has. If a Node can't be read, it counts as present.
func (r *Reconciler) present(ctx context.Context, nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		return apierrors.IsNotFound(r.Live.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}))
	})
}

// mountsBefore returns the nodes that had mounts at the last check. If an earlier process made that check, mountsBefore reads the nodes from its
// message, which names only the first of many nodes.
func (r *Reconciler) mountsBefore(cr *operatorv1.ClusterCSIDriver) []string {
	if len(r.mounts.nodes) > 0 {
		return r.mounts.nodes
	}
	_, names, _ := strings.Cut(r.inUseBefore(cr).message, driver.RemovalHasMounts)
	names, _, _ = strings.Cut(names, ". ")
	return strings.FieldsFunc(names, func(sign rune) bool { return strings.ContainsRune(" ,", sign) })
}

// inUseBefore returns what blocked the removal at the last check. If an earlier process made that check, only the message is known.
func (r *Reconciler) inUseBefore(cr *operatorv1.ClusterCSIDriver) inUse {
	before := status.Find(cr.Status.Conditions, r.Driver.ConditionPrefix+nodeService+status.Progressing)
	if r.inUse.message != "" || before == nil || before.Reason != inUseReason {
		return r.inUse
	}
	return inUse{message: before.Message}
}

// unfinished lists the objects that only the driver can delete: volumes whose deletion has begun, attachments of volumes to nodes, and
// snapshots.
func (r *Reconciler) unfinished(ctx context.Context, volumes volume.Volumes) ([]string, error) {
	losing, err := volumes.LosingPVC(ctx, r.Live)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range slices.Concat(volumes.ToDelete, losing) {
		found = append(found, "PersistentVolume "+name)
	}
	if r.Driver.Attaches() {
		err = volume.EachPage(ctx, r.Live, &storagev1.VolumeAttachmentList{}, func(list *storagev1.VolumeAttachmentList) {
			for _, attachment := range list.Items {
				if attachment.Spec.Attacher == r.Driver.Name {
					found = append(found, "VolumeAttachment "+attachment.Name)
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list VolumeAttachments of driver %s: %w", r.Driver.Name, err)
		}
	}
	snapshots, err := r.snapshots(ctx)
	found = append(found, snapshots...)
	sort.Strings(found)
	return found, err
}

// snapshots lists the VolumeSnapshotContents of the driver. The list is empty if the driver or the cluster does not support snapshots.
func (r *Reconciler) snapshots(ctx context.Context) ([]string, error) {
	if !slices.Contains(r.Driver.OptionalKinds(), driver.VolumeSnapshotClassKind()) {
		return nil, nil
	}
	contents := &unstructured.UnstructuredList{}
	contents.SetGroupVersionKind(snapshotv1.ContentKind())
	var found []string
	err := volume.EachPage(ctx, r.Live, contents, func(list *unstructured.UnstructuredList) {
		for _, content := range list.Items {
			name, _, _ := unstructured.NestedString(content.Object, "spec", "driver")
			policy, _, _ := unstructured.NestedString(content.Object, "spec", "deletionPolicy")
			// A VolumeSnapshotContent with policy Retain counts while it is being deleted, because the driver's sidecar must remove its finalizer.
			if name == r.Driver.Name && (policy != string(corev1.PersistentVolumeReclaimRetain) || content.GetDeletionTimestamp() != nil) {
				found = append(found, content.GetKind()+" "+content.GetName())
			}
		}
	})
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list VolumeSnapshotContents of driver %s: %w", r.Driver.Name, err)
	}
	return found, nil
}

func heldByPods(cr *operatorv1.ClusterCSIDriver, users []volume.User) inUse {
	pods := volume.Pods(users)
	return inUse{count: len(pods), names: pods, message: fmt.Sprintf("Removal is blocked: %d %s%s. Delete them, or set annotation %s=true on "+
		"ClusterCSIDriver %s to remove the driver anyway",
		len(pods), driver.RemovalHasUsers, status.Shorten(pods), ForceRemovalAnnotation, cr.Name)}
}

func heldByVolumes(cr *operatorv1.ClusterCSIDriver, volumes []string) inUse {
	return inUse{names: volumes, message: fmt.Sprintf("Removal is blocked: the driver has %d PersistentVolumes, and %sattach or "+
		"delete them: %s. Delete them, or set annotation %s=true on ClusterCSIDriver %s to remove the driver anyway",
		len(volumes), driver.RemovalNeedsDriver, status.Shorten(volumes), ForceRemovalAnnotation, cr.Name)}
}

// heldByNodes describes a removal that waits for nodes with mounts. Argument "why" says why the list may be outdated or incomplete. It is empty if
// all nodes have answered.
func heldByNodes(cr *operatorv1.ClusterCSIDriver, nodes []string, why string) inUse {
	message := fmt.Sprintf("Removal is blocked: %d %s%s. The kubelet can't unmount without the driver. Wait until the kubelet has unmounted, or "+
		"restart these nodes, or set annotation %s=true on ClusterCSIDriver %s to remove the driver anyway",
		len(nodes), driver.RemovalHasMounts, status.Shorten(nodes), ForceRemovalAnnotation, cr.Name)
	if why != "" {
		message += ". Not all nodes have answered: " + why
	}
	return inUse{count: len(nodes), names: nodes, message: message}
}

// heldByWork describes a removal that waits for objects which only the driver can delete. Field "count" makes the alert fire, because the wait may
// last until a person acts.
func heldByWork(cr *operatorv1.ClusterCSIDriver, objects []string) inUse {
	return inUse{count: len(objects), names: objects, message: fmt.Sprintf("Removal is blocked: %sdelete these %d objects and what "+
		"belongs to them in the storage system: %s. Delete their PersistentVolumeClaims and VolumeSnapshots, and wait for the driver. Or set "+
		"their reclaim policy to Retain. To remove the driver anyway, set annotation %s=true on ClusterCSIDriver %s",
		driver.RemovalNeedsDriver, len(objects), status.Shorten(objects), ForceRemovalAnnotation, cr.Name)}
}
