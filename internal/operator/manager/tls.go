package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// serverTLS is the TLS profile of the metrics endpoint. A change takes effect for new connections, without a restart.
type serverTLS struct {
	profile atomic.Pointer[openshift.TLSProfile]
}

func newServerTLS() *serverTLS {
	servers := &serverTLS{}
	servers.set(openshift.ServerTLS{})
	return servers
}

// set uses the cluster's profile only if this profile applies to all servers. A profile that applies only to servers with external clients may be too
// weak.
func (s *serverTLS) set(cluster openshift.ServerTLS) {
	profile := openshift.IntermediateTLS()
	if cluster.Strict {
		profile = cluster.Profile
	}
	s.profile.Store(&profile)
}

// configure makes a server read the profile for each connection.
func (s *serverTLS) configure(config *tls.Config) {
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := config.Clone()
		current.GetConfigForClient = nil
		s.profile.Load().Apply(current)
		return current, nil
	}
}

// watchProfile watches the APIServer, in replicas that do not lead, too.
func (s *serverTLS) watchProfile(mgr ctrl.Manager, apiServer client.Object) error {
	changed := func(object any) {
		found, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		if cluster, err := openshift.ServerTLSOf(found); err == nil {
			s.set(cluster)
		}
	}
	watch := func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, apiServer)
		if err != nil {
			return fmt.Errorf("watch the TLS profile: %w", err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    changed,
			UpdateFunc: func(_, object any) { changed(object) },
			DeleteFunc: func(any) { s.set(openshift.ServerTLS{}) },
		})
		if err != nil {
			return fmt.Errorf("watch the TLS profile: %w", err)
		}
		return nil
	}
	if err := mgr.Add(always{manager.RunnableFunc(watch)}); err != nil {
		return fmt.Errorf("watch the TLS profile: %w", err)
	}
	return nil
}

// always is a Runnable that the manager also runs in replicas that do not lead.
type always struct{ manager.Runnable }

// NeedLeaderElection returns false. So the manager starts the Runnable without waiting until the replica leads.
func (always) NeedLeaderElection() bool { return false }

// checkCertificates rejects a folder without certificates. With such a folder, the operator would generate a certificate that no client trusts.
func checkCertificates(options Options) error {
	if !options.MetricsSecure || options.MetricsAddress == "0" || options.MetricsCertDir == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(filepath.Join(options.MetricsCertDir, "tls.crt"), filepath.Join(options.MetricsCertDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("--metrics-cert-dir: %w", err)
	}
	return nil
}

// metricsOptions returns the options of the metrics server.
func metricsOptions(options Options, servers *serverTLS) metricsserver.Options {
	metrics := metricsserver.Options{BindAddress: options.MetricsAddress}
	if options.MetricsSecure {
		metrics.SecureServing = true
		metrics.CertDir = options.MetricsCertDir
		metrics.FilterProvider = withAccess
		metrics.TLSOpts = []func(*tls.Config){servers.configure}
	}
	return metrics
}
