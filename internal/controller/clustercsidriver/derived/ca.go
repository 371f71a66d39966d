package derived

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// CA returns the CA certificates of the cloud, empty if it has none of its own, and why those of the cluster are not followed.
func (s *Source) CA(ctx context.Context) (bundle, problem string, err error) {
	if s.Driver.CloudCAVariable == "" || !s.Kinds[openshift.InfrastructureKind()] {
		return "", "", nil
	}
	text, err := ReadCA(ctx, s.Client, watch.CloudConfig())
	if bundle = driver.Certificates(text); err != nil || text == "" || bundle != "" {
		return bundle, "", err
	}
	// Without its certificates, the driver would reach nothing.
	previous, err := ReadCA(ctx, s.Client, client.ObjectKey{Namespace: s.Namespace, Name: s.Driver.CloudCABundle()})
	if err != nil {
		return "", "", err
	}
	instead := "goes on with its previous ones"
	if previous = driver.Certificates(previous); previous == "" {
		instead = "does without"
	}
	return previous, fmt.Sprintf("key %s of ConfigMap %s has no CA certificate in PEM: the driver %s; correct the key in the ConfigMap of "+
		"namespace openshift-config that Infrastructure %s names in spec.cloudConfig", driver.CloudCAKey, watch.CloudConfig(), instead,
		openshift.Singleton), nil
}

// ReadCA reads the text with the certificates in a ConfigMap. Neither it nor the key need be there.
func ReadCA(ctx context.Context, reader client.Reader, key client.ObjectKey) (string, error) {
	config := &corev1.ConfigMap{}
	if err := reader.Get(ctx, key, config); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	if bundle := config.Data[driver.CloudCAKey]; strings.TrimSpace(bundle) != "" {
		return bundle, nil
	}
	return "", nil
}
