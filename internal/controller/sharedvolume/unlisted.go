package sharedvolume

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// The names of package efs under which tests and other packages know them.
const (
	AllowedAnnotation  = efs.AllowedAnnotation
	UnlistedAnnotation = efs.UnlistedAnnotation
	DefaultAnnotation  = efs.DefaultAnnotation

	unlistedAllow = efs.UnlistedAllow
	unlistedDeny  = efs.UnlistedDeny
)

// precedent is what the cluster has of SharedVolumes when the default is decided. No tenant can make any of it.
type precedent struct {
	// policy is that of SharedVolumes, nil if there is none; closed reports whether namespaces without a list are shut out.
	policy *admissionv1.ValidatingAdmissionPolicy
	closed bool
	// community reports whether the community's operator runs or its driver is still there, bound whether a SharedVolume's volume is.
	community, bound bool
}

// byDefault is what namespaces without a list may use if nobody says. An update of this operator, and the adoption of the community's,
// cuts nobody off.
func (p precedent) byDefault() string {
	switch {
	case p.policy != nil && p.policy.Annotations[DefaultAnnotation] == unlistedAllow:
		return unlistedAllow
	case p.policy != nil && p.policy.Annotations[DefaultAnnotation] != "":
		return unlistedDeny
	case p.closed:
		return unlistedDeny
	case p.policy != nil || p.community || p.bound:
		return unlistedAllow
	default:
		return unlistedDeny
	}
}

// decide says what namespaces without a list may use if no setting does. What was decided once holds, also if somebody deletes the policy.
func (r *AdmissionReconciler) decide(ctx context.Context, crd types.UID) (string, error) {
	policy, err := find[admissionv1.ValidatingAdmissionPolicy](ctx, r.Client, client.ObjectKey{Name: crdName})
	if err != nil {
		return "", err
	}
	found := precedent{policy: policy}
	switch {
	case policy != nil && policy.Annotations[DefaultAnnotation] != "":
		r.decided, r.decidedFor = found.byDefault(), crd
		return r.decided, nil
	case policy == nil && r.decided != "" && r.decidedFor == crd:
		return r.decided, nil
	}
	if found.closed, err = get(ctx, r.Client, client.ObjectKey{Name: unlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{}); err != nil {
		return "", err
	}
	if found.community, err = r.hasCommunity(ctx); err != nil {
		return "", err
	}
	if found.bound, err = r.hasBound(ctx); err != nil {
		return "", err
	}
	r.decided, r.decidedFor = found.byDefault(), crd
	return r.decided, nil
}

// hasBound reports whether a volume of a SharedVolume is bound. They are watched only once SharedVolumes are served, and this is asked once.
func (r *AdmissionReconciler) hasBound(ctx context.Context) (bool, error) {
	found := false
	err := volume.EachPage(ctx, r.Live, &corev1.PersistentVolumeList{}, func(page *corev1.PersistentVolumeList) {
		found = found || slices.ContainsFunc(page.Items, func(one corev1.PersistentVolume) bool { return one.Status.Phase == corev1.VolumeBound })
	}, client.MatchingLabels{ownedLabel: "true"})
	if err != nil {
		return false, fmt.Errorf("list the volumes of SharedVolumes: %w", err)
	}
	return found, nil
}

// hasCommunity reports whether the community's operator runs, or its driver is still there.
func (r *AdmissionReconciler) hasCommunity(ctx context.Context) (bool, error) {
	running, err := r.Others.Community.Running(ctx)
	if err != nil || running != "" {
		return running != "", err
	}
	return r.Others.Community.HasLeft(ctx)
}
