package sharedvolume

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// CommunityOperator is the name of the Deployment of the community's aws-efs-operator, in whatever namespace.
const CommunityOperator = "aws-efs-operator"

// Community watches for the community's operator, which looks after the same SharedVolumes.
type Community struct {
	cache  cache.Cache
	client client.Client
	now    func() time.Time

	mutex   sync.Mutex
	rights  map[client.ObjectKey]bool
	checked time.Time
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
	return &Community{cache: deployments, client: manager.GetClient(), now: time.Now, rights: map[client.ObjectKey]bool{}}, nil
}

// Running names a Deployment "namespace/name" of the community's operator that has pods or wants some; empty if there is none.
// Anybody can call a Deployment so. It is the operator only if its account may change SharedVolumes in all namespaces.
func (c *Community) Running(ctx context.Context) (string, error) {
	deployments := &appsv1.DeploymentList{}
	if err := c.cache.List(ctx, deployments); err != nil {
		return "", fmt.Errorf("look for the community's operator: %w", err)
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		if deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0 && deployment.Status.Replicas == 0 {
			continue
		}
		account := client.ObjectKey{Namespace: deployment.Namespace, Name: cmp.Or(deployment.Spec.Template.Spec.ServiceAccountName, "default")}
		may, err := c.mayChange(ctx, account)
		if err != nil {
			return "", err
		}
		if may {
			return deployment.Namespace + "/" + deployment.Name, nil
		}
	}
	return "", nil
}

// mayChange asks the API server, and believes the answer for a while.
func (c *Community) mayChange(ctx context.Context, account client.ObjectKey) (bool, error) {
	if may, known := c.remembered(account); known {
		return may, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "update", Group: v1alpha1.GroupVersion().Group, Version: "*", Resource: "sharedvolumes",
		},
	}}
	if err := c.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask what ServiceAccount %s may do: %w", account, err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.rights[account] = review.Status.Allowed
	return review.Status.Allowed, nil
}

func (c *Community) remembered(account client.ObjectKey) (may, known bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.now().Sub(c.checked) > again {
		clear(c.rights)
		c.checked = c.now()
	}
	may, known = c.rights[account]
	return may, known
}

// stripDeployment keeps what tells whether it runs.
func stripDeployment(object any) (any, error) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		deployment.ManagedFields, deployment.Annotations = nil, nil
		account := deployment.Spec.Template.Spec.ServiceAccountName
		deployment.Spec = appsv1.DeploymentSpec{Replicas: deployment.Spec.Replicas}
		deployment.Spec.Template.Spec.ServiceAccountName = account
		deployment.Status = appsv1.DeploymentStatus{Replicas: deployment.Status.Replicas}
	}
	return object, nil
}
