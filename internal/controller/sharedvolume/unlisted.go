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

// Names of package efs, repeated here for tests and for other packages.
const (
	AllowedAnnotation  = efs.AllowedAnnotation
	UnlistedAnnotation = efs.UnlistedAnnotation
	DefaultAnnotation  = efs.DefaultAnnotation

	unlistedAllow = efs.UnlistedAllow
	unlistedDeny  = efs.UnlistedDeny
)

// precedent is the state that decides the default for namespaces without a list. No tenant can write any part of this state.
type precedent struct {
	// policy is the policy of SharedVolumes, and nil if it does not exist. closed is true if the unlisted policy exists, which denies SharedVolumes in
	// namespaces without a list.
	policy *admissionv1.ValidatingAdmissionPolicy
	closed bool
	// community is true if the community's operator runs, or its driver exists. bound is true if a volume of a SharedVolume is bound.
	community, bound bool
}

// byDefault returns the default for namespaces without a list. After an upgrade, or a migration from the community's operator, such namespaces may
// still use all shares.
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

// decide returns the default for namespaces without a list. The default stays the same while the CRD exists, even if a user deletes the policy.
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

// hasBound reports whether a volume of a SharedVolume is bound. It reads from the API server, because the watch of volumes starts later.
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

// hasCommunity reports whether the community's operator runs, or whether its driver still exists.
func (r *AdmissionReconciler) hasCommunity(ctx context.Context) (bool, error) {
	running, err := r.Others.Community.Running(ctx)
	if err != nil || running != "" {
		return running != "", err
	}
	return r.Others.Community.HasLeft(ctx)
}
