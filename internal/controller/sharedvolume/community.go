package sharedvolume

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CommunityOperator is the name of the Deployment of the community's aws-efs-operator, in whatever namespace.
const CommunityOperator = "aws-efs-operator"

// Community watches for the community's operator, which looks after the same SharedVolumes.
type Community struct {
	cache cache.Cache
}

// NewCommunity adds the watch to the manager. It needs a cache of its own, as a cache selects one part of a kind only.
func NewCommunity(manager ctrl.Manager) (*Community, error) {
	deployments, err := cache.New(manager.GetConfig(), cache.Options{
		Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), HTTPClient: manager.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&appsv1.Deployment{}: {
			Field: fields.OneTermEqualSelector("metadata.name", CommunityOperator), Transform: stripDeployment,
		}},
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cache of Deployments %s: %w", CommunityOperator, err)
	}
	if err := manager.Add(deployments); err != nil {
		return nil, fmt.Errorf("add cache of Deployments %s: %w", CommunityOperator, err)
	}
	return &Community{cache: deployments}, nil
}

// Running names a Deployment "namespace/name" of the community's operator that has pods or wants some; empty if there is none.
func (c *Community) Running(ctx context.Context) (string, error) {
	deployments := &appsv1.DeploymentList{}
	if err := c.cache.List(ctx, deployments); err != nil {
		return "", fmt.Errorf("look for the community's operator: %w", err)
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0 || deployment.Status.Replicas > 0 {
			return deployment.Namespace + "/" + deployment.Name, nil
		}
	}
	return "", nil
}

// stripDeployment keeps what tells whether it runs.
func stripDeployment(object any) (any, error) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		deployment.ManagedFields, deployment.Annotations = nil, nil
		deployment.Spec = appsv1.DeploymentSpec{Replicas: deployment.Spec.Replicas}
		deployment.Status = appsv1.DeploymentStatus{Replicas: deployment.Status.Replicas}
	}
	return object, nil
}
