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

// removalWish says what NotWantedAnnotation asks for.
type removalWish struct {
	// remove is true if the operator must remove the driver. message says why the operator removes the driver, or why the driver stays despite
	// NotWantedAnnotation. message is empty if the ClusterCSIDriver does not have that annotation.
	remove  bool
	message string
	// stale is true if the cached ClusterCSIDriver is not the newest. In that case, the operator does nothing until the event of the newest
	// ClusterCSIDriver arrives.
	stale bool
}

// notWanted reports whether the operator must remove the driver because the cluster's platform has changed. A user may have set NotWantedAnnotation
// by mistake, so the operator removes the driver only if the Infrastructure confirms the change.
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
		return removalWish{message: stays + "the object Infrastructure/cluster has no platform"}, nil
	case platform == r.Driver.Platform:
		stays += "the cluster still has the driver's platform " + string(platform) + ". Remove the annotation from the ClusterCSIDriver"
		return removalWish{message: stays}, nil
	default:
		message := fmt.Sprintf("the platform of the cluster is now %s, and the driver is for %s", platform, r.Driver.Platform)
		return removalWish{remove: true, message: message}, nil
	}
}

// confirmed returns the platform of the cluster. Before a removal it reads the Infrastructure live, because a cache may not show yet that the change
// was reverted. Result "stale" is true if the cached ClusterCSIDriver is not the newest.
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

// isNewest reports whether the cached ClusterCSIDriver has the UID and the generation of the live ClusterCSIDriver, and whether the live one still
// has the annotation. The caches of ClusterCSIDrivers and Infrastructures lag independently, so the cached Infrastructure can be new while the cached
// ClusterCSIDriver is old.
func (r *Reconciler) isNewest(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (bool, error) {
	list := &operatorv1.ClusterCSIDriverList{}
	if err := r.Live.List(ctx, list, client.MatchingFields{"metadata.name": cr.Name}); err != nil {
		return false, fmt.Errorf("nothing is removed, because ClusterCSIDriver %s could not be read: %w", cr.Name, err)
	}
	return slices.ContainsFunc(list.Items, func(newest operatorv1.ClusterCSIDriver) bool {
		_, annotated := newest.Annotations[openshift.NotWantedAnnotation]
		return newest.Name == cr.Name && newest.UID == cr.UID && newest.Generation == cr.Generation && annotated
	}), nil
}

// platform returns the platform of the Infrastructure. It returns an empty string if the cluster does not serve Infrastructures, or if the
// Infrastructure names no platform. A missing Infrastructure is an error.
func (r *Reconciler) platform(ctx context.Context, reader client.Reader) (configv1.PlatformType, error) {
	if !r.Kinds[openshift.InfrastructureKind()] {
		return "", nil
	}
	infrastructure, err := openshift.ReadInfrastructure(ctx, reader)
	switch {
	case err != nil:
		return "", fmt.Errorf("nothing is removed, because the platform is unknown: %w", err)
	case infrastructure == nil:
		return "", fmt.Errorf("nothing is removed, because Infrastructure %s is missing", openshift.Singleton)
	}
	return openshift.PlatformOf(infrastructure.Status), nil
}
