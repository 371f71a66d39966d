// Package standin has stand-ins for other operators of an OpenShift cluster. An operator under test relies on these operators. Each stand-in has
// its own file, and names the operator that it replaces. A stand-in acts only on events, and writes nothing while nothing changes.
package standin

import (
	"context"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/pki"
)

// files has the paths of the files that the stand-ins read when they start.
type files struct {
	kubeconfig    string
	serviceCACert string
	serviceCAKey  string
	systemCACert  string
}

// Run runs all stand-ins until the context ends.
func Run(ctx context.Context, args []string) error {
	var f files
	flags := flag.NewFlagSet("stand-ins", flag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	flags.StringVar(&f.serviceCACert, "service-ca-cert", "", "file with the CA certificate for Services")
	flags.StringVar(&f.serviceCAKey, "service-ca-key", "", "file with the key of the CA for Services")
	flags.StringVar(&f.systemCACert, "system-ca-cert", "", "file with the CA certificates that the operating system trusts")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("stand-ins: can't parse the flags: %w", err)
	}
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	manager, err := newManager(f.kubeconfig)
	if err != nil {
		return err
	}
	serviceCA, err := loadAuthority(f.serviceCACert, f.serviceCAKey)
	if err != nil {
		return err
	}
	systemCA, err := os.ReadFile(f.systemCACert)
	if err != nil {
		return fmt.Errorf("stand-ins: can't read the system's CA certificates: %w", err)
	}
	standIns := []interface {
		setup(ctrl.Manager) error
	}{
		&credentials{client: owned(manager, "credentials")},
		&servingCertificates{client: owned(manager, "serving-certificates"), authority: serviceCA},
		&serviceCABundle{client: owned(manager, "service-ca-bundle"), bundle: string(serviceCA.Cert)},
		&trustedCABundle{client: owned(manager, "trusted-ca-bundle"), system: string(systemCA)},
		&pullSecrets{client: owned(manager, "pull-secrets")},
		&registration{client: owned(manager, "registration"), live: manager.GetAPIReader()},
	}
	for _, s := range standIns {
		if err := s.setup(manager); err != nil {
			return fmt.Errorf("stand-ins: can't set up %T: %w", s, err)
		}
	}
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("stand-ins: run: %w", err)
	}
	return nil
}

func newManager(kubeconfig string) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("stand-ins: can't read the kubeconfig file: %w", err)
	}
	config.QPS = -1
	scheme, err := openshift.NewScheme()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, fmt.Errorf("stand-ins: can't create the controller manager: %w", err)
	}
	return manager, nil
}

// owned returns a client for a stand-in. Its writes have the name of the stand-in as their field manager.
func owned(manager ctrl.Manager, name string) client.Client {
	return client.WithFieldOwner(manager.GetClient(), "stand-in-"+name)
}

func loadAuthority(certFile, keyFile string) (*pki.Authority, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("stand-ins: can't read the certificate of the CA for Services: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("stand-ins: can't read the key of the CA for Services: %w", err)
	}
	return pki.LoadAuthority(pki.Pair{Cert: cert, Key: key})
}
