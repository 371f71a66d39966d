// Package manager creates the controller-runtime manager of an operator: connection, cache, leader election, probes and metrics endpoint.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllers "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Options are the options of an operator.
type Options struct {
	// NamespaceFile is the path of a file that Namespace reads instead of podNamespace. Only tests set it.
	NamespaceFile string
	// Kubeconfig is the path of a file. Empty means $KUBECONFIG, else ~/.kube/config, else the pod's own ServiceAccount.
	Kubeconfig string
	// Namespace is the operator's namespace. Empty means the namespace of the pod. Outside a pod, empty means Fallback or, if Fallback is empty,
	// kube.DefaultNamespace.
	Namespace, Fallback string
	// LeaderElect enables leader election. LockName is the name of the Lease.
	LeaderElect bool
	LockName    string
	// LeaderElectRetry is the interval at which the operator renews the Lease. The other times of the leader election are multiples of this interval.
	// With 0, all times are those of OpenShift: see leaderElection.
	LeaderElectRetry time.Duration
	// PodUID is metadata.uid of the operator's pod. It is empty outside a pod. See podLock.
	PodUID string
	// MetricsAddress and HealthAddress are host:port. The address "0" disables an endpoint.
	MetricsAddress, HealthAddress string
	// MetricsSecure is true if the operator serves metrics over HTTPS, to clients that RBAC allows to get /metrics. MetricsCertDir has tls.crt and
	// tls.key. The operator reloads both after a change. If MetricsCertDir is empty, the operator generates a certificate.
	MetricsSecure  bool
	MetricsCertDir string
}

// Connect loads the client configuration.
func Connect(options Options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = options.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("no cluster is configured: pass --kubeconfig FILE, set KUBECONFIG, or run in a pod")
	case err != nil && options.Kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig %s: %w", options.Kubeconfig, err)
	case err != nil:
		return nil, fmt.Errorf("load the client configuration: %w", err)
	}
	// The client does not limit its requests, because API Priority and Fairness in the API server limits them.
	config.QPS = -1
	// Do not log the API server's warnings. They are about content that the assets have on purpose, such as OpenShift's label for control-plane nodes.
	config.WarningHandler = rest.NoWarnings{}
	if !klog.V(6).Enabled() {
		// client-go adds this RoundTripper itself only if the level is already high now. The operator can raise the level later.
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport.NewDebuggingRoundTripper(next, transport.DebugByContext)
		})
	}
	return config, nil
}

// podNamespace is the path of the file with the namespace of a pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the operator's namespace. The value of flag --namespace takes precedence. Without this flag, the result is the pod's namespace.
// Outside a pod, the result is the default namespace.
func Namespace(options Options) string {
	if options.Namespace != "" {
		return options.Namespace
	}
	if own, err := os.ReadFile(cmp.Or(options.NamespaceFile, podNamespace)); err == nil && len(own) > 0 {
		return strings.TrimSpace(string(own))
	}
	return options.DefaultNamespace()
}

// DefaultNamespace returns the namespace of an operator that runs outside a cluster without flag --namespace.
func (o Options) DefaultNamespace() string {
	if o.Fallback != "" {
		return o.Fallback
	}
	return kube.DefaultNamespace
}

// New creates the manager. byObject has the cache options of each kind. The transform is for all other kinds, and can be nil.
func New(
	config *rest.Config, options Options, singleNode bool, byObject map[client.Object]cache.ByObject, transform toolscache.TransformFunc,
) (ctrl.Manager, error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	if err := checkCertificates(options); err != nil {
		return nil, err
	}
	lease, renew, retry := leaderElection(singleNode, options.LeaderElectRetry)
	servers := newServerTLS()
	lock, err := podLock(config, options, scheme, renew)
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// A read of a kind without a watch is a bug. Such a read must not start a watch.
		Cache:                         cache.Options{ByObject: byObject, DefaultTransform: transform, ReaderFailOnMissingInformer: true},
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:                       metricsOptions(options, servers),
		HealthProbeBindAddress:        options.HealthAddress,
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              options.LockName,
		LeaderElectionNamespace:       Namespace(options),
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,

		LeaderElectionResourceLockInterface: lock,
		// The priority queue of v0.24 can hang at shutdown, and then the operator does not release the Lease
		// (https://github.com/kubernetes-sigs/controller-runtime/issues/3538).
		Controller: controllers.Controller{UsePriorityQueue: new(false)},
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	for object := range byObject {
		if object.GetObjectKind().GroupVersionKind() == openshift.APIServerKind() {
			if err := servers.watchProfile(manager, object); err != nil {
				return nil, err
			}
		}
	}
	if err := manager.Add(&memory{}); err != nil {
		return nil, fmt.Errorf("add the memory manager: %w", err)
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	return manager, nil
}

// Cache is a cache that syncs after the start.
type Cache interface {
	// WaitForCacheSync returns false if the cache does not sync before ctx ends.
	WaitForCacheSync(ctx context.Context) bool
}

// Filled is a check for the readiness probe. Without this check, an operator that lacks a permission to watch would look ready, although it does
// nothing. A replica that does not lead watches little, and becomes ready, too.
func Filled(caches ...Cache) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		for _, one := range caches {
			if !one.WaitForCacheSync(ctx) {
				return errors.New("the caches have not synced yet: see the log for kinds that can't be watched")
			}
		}
		return nil
	}
}
