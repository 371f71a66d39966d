package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// Connection has clients for a cluster, without a cache.
type Connection struct {
	Config    *rest.Config
	Live      client.Client
	Preflight kube.Preflight
}

// Connect connects to the cluster of the options.
func Connect(options manager.Options) (Connection, error) {
	config, err := manager.Connect(options)
	if err != nil {
		return Connection{}, err
	}
	scheme, err := kube.Scheme()
	if err != nil {
		return Connection{}, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return Connection{}, fmt.Errorf("create a client for the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return Connection{}, fmt.Errorf("discover the API server's kinds: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return Connection{}, fmt.Errorf("create a client for the API server: %w", err)
	}
	return Connection{Config: config, Live: live, Preflight: kube.Preflight{Live: live, Mapper: mapper}}, nil
}

// kubernetesMinor returns the minor version of the API server. For v1.36, the result is 36.
func kubernetesMinor(mgr ctrl.Manager) (int, error) {
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return 0, fmt.Errorf("create a client for the API server's version: %w", err)
	}
	found, err := discover.ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("read the API server's version: %w", err)
	}
	parsed, err := version.ParseGeneric(found.GitVersion)
	if err != nil {
		return 0, fmt.Errorf("parse the API server's version %q: %w", found.GitVersion, err)
	}
	return int(parsed.Minor()), nil
}

// Check checks whether the operator of a driver can work in this cluster. It returns the optional kinds that the cluster serves.
func (c Connection) Check(ctx context.Context, namespace string, d driver.Driver) (map[schema.GroupKind]bool, error) {
	if err := c.Preflight.CheckNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	const hint = "it comes with OpenShift; in other clusters, first apply its CustomResourceDefinition from github.com/openshift/api"
	if err := c.Preflight.Require(openshift.ClusterCSIDriverKind(), hint); err != nil {
		return nil, err
	}
	return watch.ServedKinds(c.Preflight, d)
}
