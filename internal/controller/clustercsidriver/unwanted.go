package clustercsidriver

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// removalWish is the result of NotWantedAnnotation.
type removalWish struct {
	// remove: remove the driver. message says why, or why the driver stays despite the annotation; empty without the annotation.
	remove  bool
	message string
	// stale: the cached ClusterCSIDriver is not the newest. Do nothing before the event of the newest arrives.
	stale bool
}

// notWanted reports whether to remove the driver because the cluster's platform has changed. The annotation may be a mistake, so the Infrastructure
// must confirm the change.
func (r *Reconciler) notWanted(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (removalWish, error) {
	if _, annotated := cr.Annotations[openshift.NotWantedAnnotation]; !annotated || r.Driver.Removable || cr.DeletionTimestamp != nil {
		return removalWish{}, nil
	}
	switch state := cr.Spec.ManagementState; state {
	case operatorv1.Managed, operatorv1.Removed, "":
	default:
		return removalWish{message: fmt.Sprintf("annotation %s has no effect while spec.managementState is %s", openshift.NotWantedAnnotation, state)}, nil
	}
	stays := "the driver stays although annotation " + openshift.NotWantedAnnotation + " is set: "
	platform, stale, err := r.confirmed(ctx, cr)
	switch {
	case err != nil || stale:
		return removalWish{stale: stale}, err
	case platform == "":
		return removalWish{message: stays + "the Infrastructure names no platform"}, nil
	case platform == r.Driver.Platform:
		return removalWish{message: fmt.Sprintf("%sthe Infrastructure still names its platform %s; remove the annotation", stays, platform)}, nil
	default:
		message := fmt.Sprintf("the platform of the cluster is now %s, and the driver is for %s", platform, r.Driver.Platform)
		return removalWish{remove: true, message: message}, nil
	}
}

// confirmed returns the platform of the cluster. Before a removal it reads live: a cache may lag behind a reverted change. Stale: the cached
// ClusterCSIDriver is not the newest.
func (r *Reconciler) confirmed(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (platform configv1.PlatformType, stale bool, err error) {
	platform, err = r.platform(ctx, r.Client)
	if err != nil || platform == "" || platform == r.Driver.Platform {
		return platform, false, err
	}
	if platform, err = r.platform(ctx, r.Live); err != nil || platform == r.Driver.Platform {
		return platform, false, err
	}
	newest, err := r.isNewest(ctx, cr)
	return platform, err == nil && !newest, err
}

// isNewest reports whether the cached ClusterCSIDriver equals the live one. The caches of both kinds lag independently: the Infrastructure may be
// new, and the ClusterCSIDriver old.
func (r *Reconciler) isNewest(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (bool, error) {
	list := &operatorv1.ClusterCSIDriverList{}
	if err := r.Live.List(ctx, list, client.MatchingFields{"metadata.name": cr.Name}); err != nil {
		return false, fmt.Errorf("nothing is removed: read ClusterCSIDriver %s: %w", cr.Name, err)
	}
	return slices.ContainsFunc(list.Items, func(newest operatorv1.ClusterCSIDriver) bool {
		_, annotated := newest.Annotations[openshift.NotWantedAnnotation]
		return newest.Name == cr.Name && newest.UID == cr.UID && newest.Generation == cr.Generation && annotated
	}), nil
}

// platform returns the platform of the Infrastructure; empty if it names none, or if the cluster has no Infrastructure.
func (r *Reconciler) platform(ctx context.Context, reader client.Reader) (configv1.PlatformType, error) {
	if !r.Kinds[openshift.InfrastructureKind()] {
		return "", nil
	}
	infrastructure, err := openshift.ReadInfrastructure(ctx, reader)
	switch {
	case err != nil:
		return "", fmt.Errorf("nothing is removed: %w", err)
	case infrastructure == nil:
		return "", fmt.Errorf("nothing is removed: Infrastructure %s is missing", openshift.Singleton)
	}
	return openshift.PlatformOf(infrastructure.Status), nil
}
