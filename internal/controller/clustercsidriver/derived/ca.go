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

// CA returns the cloud's CA certificates, and the problem if the configured certificates are unusable. The bundle is empty if the cloud has no CA
// certificates.
func (s *Source) CA(ctx context.Context) (bundle, problem string, err error) {
	if s.Driver.CloudCAVariable == "" || !s.Kinds[openshift.InfrastructureKind()] {
		return "", "", nil
	}
	text, err := ReadCA(ctx, s.Client, watch.CloudConfig())
	if bundle = driver.Certificates(text); err != nil || text == "" || bundle != "" {
		return bundle, "", err
	}
	// The configured certificates are unusable, so the previous certificates stay. Without certificates, the driver could not reach the cloud.
	previous, err := ReadCA(ctx, s.Client, client.ObjectKey{Namespace: s.Namespace, Name: s.Driver.CloudCABundle()})
	if err != nil {
		return "", "", err
	}
	instead := "keeps its previous certificates"
	if previous = driver.Certificates(previous); previous == "" {
		instead = "runs without"
	}
	return previous, fmt.Sprintf("key %s of ConfigMap %s has no CA certificate in PEM: the driver %s; correct the same key in the "+
		"ConfigMap of namespace openshift-config that spec.cloudConfig.name of Infrastructure %s names", driver.CloudCAKey, watch.CloudConfig(), instead,
		openshift.Singleton), nil
}

// ReadCA reads certificates from a ConfigMap. It returns an empty string if the ConfigMap or the key is missing.
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
