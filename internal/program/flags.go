// Package program holds what the programs that operate one CSI driver have in common: flags, environment, the first look at the
// cluster, and the controller of the ClusterCSIDriver.
package program

import (
	"flag"

	"k8s.io/klog/v2"

	"github.com/csi-operators/csi-operators/internal/manager"
)

// Options are the command line of start.
type Options struct {
	manager.Options
	Verbosity *Verbosity
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"`file` with the API server and credentials; default: $KUBECONFIG, else ~/.kube/config, else those of the pod")
	flags.StringVar(&o.Namespace, "namespace", "",
		"`namespace` of the operator and the driver; default: that of the pod, or "+manager.DefaultNamespace)
	flags.BoolVar(&o.LeaderElect, "leader-elect", true, "let one of several operators work at a time")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "`address` of /metrics, 0 for none")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"serve metrics over HTTPS, to those whom the API server allows to get /metrics; without it plain HTTP, to everybody")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "",
		"`folder` with tls.crt and tls.key for the metrics; default: a certificate that is made up")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz, 0 for none")
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	o.Verbosity = &Verbosity{Value: logs.Lookup("v").Value}
	flags.Var(o.Verbosity, "v", "log `level`, 0 to 7; spec.operatorLogLevel of the ClusterCSIDriver can raise it")
}
