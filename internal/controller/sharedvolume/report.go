package sharedvolume

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of events on SharedVolumes. An event about a failure has the reason of the condition instead.
const (
	eventAdopted    = "Adopted"
	eventRestored   = "IDsRestored"
	eventRebuilt    = "Rebuilt"
	eventRecovered  = "Recovered"
	eventNotAllowed = "NotAllowed"
	eventMountable  = "Mountable"
	eventConfined   = "ZoneAffinityAdded"
)

// report writes the status if it has changed. It writes nothing for a new SharedVolume that is pending without a message, because the schema's
// default is the same.
func (r *Reconciler) report(ctx context.Context, before, owner *v1alpha1.SharedVolume, found seen, step plan) error {
	wanted := statusOf(owner, found, step)
	isNew := owner.Status.ObservedGeneration == 0 && owner.Status.ClaimRef.Name == ""
	owner.Status = wanted
	r.metrics.observe(owner)
	stored := crdstatus.Trim(wanted, found.lacks)
	if isNew && step.phase == v1alpha1.Pending && step.message == "" || reflect.DeepEqual(stored, before.Status) {
		return nil
	}
	have, err := fieldsOf(before.Status, found.lacks)
	if err != nil {
		return err
	}
	want, err := fieldsOf(stored, found.lacks)
	if err != nil {
		return err
	}
	target := apply.Target(v1alpha1.GroupVersion().WithKind(kind), owner)
	// Users wait for each change.
	if _, err := r.writer.Write(ctx, status.Report{Target: target, Have: have, Want: want, Urgent: true}); err != nil {
		return err
	}
	r.metrics.observeReady(before, owner, r.Now())
	r.emit(before, owner)
	return nil
}

// fieldsOf returns the fields of a status, without the fields that the CRD lacks. It includes empty fields, to overwrite values that other clients
// wrote.
func fieldsOf(state v1alpha1.SharedVolumeStatus, lacks []string) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&state)
	if err != nil {
		return nil, fmt.Errorf("convert status: %w", err)
	}
	fields["message"] = state.Message
	if len(lacks) > 0 && state.ClaimRef.Name == "" {
		// The community's CRD rejects an empty reference.
		delete(fields, "claimRef")
	}
	for _, field := range lacks {
		delete(fields, field)
	}
	return fields, nil
}

// statusOf returns the status for a plan.
func statusOf(owner *v1alpha1.SharedVolume, found seen, step plan) v1alpha1.SharedVolumeStatus {
	wanted := *owner.Status.DeepCopy()
	wanted.Phase, wanted.Message, wanted.ObservedGeneration = step.phase, status.Clip(step.message), owner.Generation
	if step.volume != "" {
		wanted.VolumeName = step.volume
	}
	if step.phase == v1alpha1.Ready {
		group := ""
		wanted.ClaimRef = v1alpha1.ClaimReference{APIGroup: &group, Kind: "PersistentVolumeClaim", Name: pvcName(owner.Name)}
	}
	set := func(kind string, isTrue bool, reason, message string) {
		state := metav1.ConditionFalse
		if isTrue {
			state = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&wanted.Conditions, metav1.Condition{
			Type: kind, Status: state, Reason: reason, Message: status.Clip(message), ObservedGeneration: owner.Generation,
		})
	}
	set(v1alpha1.ConditionReady, step.phase == v1alpha1.Ready, step.reason, step.message)
	if step.bound {
		set(v1alpha1.ConditionBound, true, "Bound", "")
	} else {
		set(v1alpha1.ConditionBound, false, step.reason, step.message)
	}
	if found.noDriver {
		set(v1alpha1.ConditionDriverInstalled, false, "NoCSIDriver", noDriverMessage)
	} else {
		set(v1alpha1.ConditionDriverInstalled, true, "Installed", "")
	}
	switch denied := found.limits.Denied(shareIn(owner)); {
	case denied != "":
		set(v1alpha1.ConditionAllowed, false, "NotListed", denied)
	case found.limits.Restricted():
		set(v1alpha1.ConditionAllowed, true, "Listed", "")
	default:
		meta.RemoveStatusCondition(&wanted.Conditions, v1alpha1.ConditionAllowed)
	}
	switch {
	case step.mountable == nil:
	case step.mountable.reason == "":
		meta.RemoveStatusCondition(&wanted.Conditions, v1alpha1.ConditionMountable)
	default:
		set(v1alpha1.ConditionMountable, step.mountable.mountable, step.mountable.reason, step.mountable.message)
	}
	slices.SortFunc(wanted.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return wanted
}

// emit records events for the differences between two statuses.
func (r *Reconciler) emit(before, after *v1alpha1.SharedVolume) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	isNews := was == nil || was.Reason != is.Reason
	switch {
	case after.Status.Phase == v1alpha1.Failed && isNews:
		r.recordEvent(after, corev1.EventTypeWarning, is.Reason, is.Message)
	case after.Status.Phase == v1alpha1.Ready && hasFailed(before) && !meta.IsStatusConditionFalse(after.Status.Conditions, v1alpha1.ConditionMountable):
		r.recordEvent(after, corev1.EventTypeNormal, eventRecovered, "the PVC is bound")
	}
	denied := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionAllowed)
	if after.Status.Phase != v1alpha1.Failed && denied != nil && denied.Status == metav1.ConditionFalse &&
		!meta.IsStatusConditionFalse(before.Status.Conditions, v1alpha1.ConditionAllowed) {
		r.recordEvent(after, corev1.EventTypeWarning, eventNotAllowed, "the PVC stays bound, but "+denied.Message)
	}
	r.recordMountable(before, after)
}

// hasFailed reports whether a SharedVolume has failed, or is pending again after it was Ready. A new SharedVolume has not failed.
func hasFailed(owner *v1alpha1.SharedVolume) bool {
	return owner.Status.Phase == v1alpha1.Failed || owner.Status.Phase == v1alpha1.Pending && owner.Status.ClaimRef.Name != ""
}

// recordMountable records an event when a problem begins to prevent mounts of the share, and another event when the problem is resolved.
func (r *Reconciler) recordMountable(before, after *v1alpha1.SharedVolume) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionMountable)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionMountable)
	wasWrong := was != nil && was.Status == metav1.ConditionFalse
	switch {
	case is == nil:
	case is.Status == metav1.ConditionFalse && (!wasWrong || was.Reason != is.Reason):
		r.recordEvent(after, corev1.EventTypeWarning, is.Reason, is.Message)
	case is.Status == metav1.ConditionTrue && wasWrong:
		r.recordEvent(after, corev1.EventTypeNormal, eventMountable, "pods can mount the share again: "+is.Message)
	}
}

// recordChange records an event for a change that may surprise users.
func (r *Reconciler) recordChange(owner *v1alpha1.SharedVolume, do *change) {
	switch do.what {
	case restoreIDs:
		r.recordEvent(owner, corev1.EventTypeWarning, eventRestored, "the IDs of a SharedVolume are immutable: the operator restored them from its "+
			"volume. For another access point, create another SharedVolume")
	case dropFinalizer:
		r.recordEvent(owner, corev1.EventTypeNormal, eventAdopted, "migrated from the community's operator")
	case addAffinity:
		r.recordEvent(owner, corev1.EventTypeNormal, eventConfined, "added a node affinity to PersistentVolume "+do.object.GetName()+
			", as the annotation asks: new pods that use it run in the zone of its file system")
	case createPVC, createVolume:
		if owner.Status.ClaimRef.Name != "" {
			r.recordEvent(owner, corev1.EventTypeNormal, eventRebuilt, "recreated "+do.object.GetName())
		}
	case nudgePVC, rejoinVolume, markVolume, adoptPVC, deletePVC, deleteVolume:
	}
}

func (r *Reconciler) recordEvent(owner *v1alpha1.SharedVolume, kind, reason, note string) {
	r.Events.Eventf(owner, nil, kind, reason, "Reconcile", "%s", status.Clip(note))
}
