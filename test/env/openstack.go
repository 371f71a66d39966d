package env

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
)

// PutOpenStack starts a cloud, and gives the cluster the credentials of its user, as an installer does. They are handed out to who asks for
// them. The caller closes the cloud.
func (c *Cluster) PutOpenStack(ctx context.Context) (*fakeopenstack.Cloud, error) {
	cloud, err := fakeopenstack.Start()
	if err != nil {
		return nil, fmt.Errorf("cloud of the cluster: %w", err)
	}
	// The name is that of the cloud-credential-operator (b187feee6, pkg/operator/constants/constants.go OpenStackCloudCredsSecretName).
	root := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "openstack-credentials"},
		Data:       map[string][]byte{"clouds.yaml": cloud.CloudsYAML(false), "cacert": cloud.CA},
	}
	if err := c.Put(ctx, "installer", root); err != nil {
		cloud.Close()
		return nil, fmt.Errorf("credentials of the cloud: %w", err)
	}
	return cloud, nil
}

// LendOpenStack is PutOpenStack for the time of a test.
func (c *Cluster) LendOpenStack(t *testing.T) *fakeopenstack.Cloud {
	t.Helper()
	cloud, err := c.PutOpenStack(t.Context())
	Must(t, err)
	t.Cleanup(cloud.Close)
	return cloud
}
