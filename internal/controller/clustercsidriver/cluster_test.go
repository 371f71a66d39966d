package clustercsidriver

import (
	"context"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func newCluster(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	return canned.New(known, objects...)
}

// secretCache holds Secrets as their caches have them.
type secretCache struct {
	cache.Cache
	secrets *canned.Cluster
}

// Get reads one.
func (s secretCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.secrets.Get(ctx, key, object, options...)
}

const statusWrite = "apply status ClusterCSIDriver " + diskName

// written is what was last applied to the status; nil if nothing was.
func (s *trip) written(t *testing.T) *operatorv1.OperatorStatus {
	t.Helper()
	if cr := canned.Written[operatorv1.ClusterCSIDriver](t, s.cluster, statusWrite); cr != nil {
		return &cr.Status.OperatorStatus
	}
	return nil
}
