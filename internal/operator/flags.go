// Package operator has the code that all operators share: it parses the command line, connects to the cluster, and starts and stops the program. For
// operators of a single CSI driver, it also runs the checks at start, and connects the ClusterCSIDriver controller to the manager.
package operator

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// Options are the options of command start.
type Options struct {
	manager.Options
	Verbosity *Verbosity
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; default: $KUBECONFIG, else ~/.kube/config, else the pod's ServiceAccount")
	flags.StringVar(&o.Namespace, "namespace", "",
		"`namespace` of the operator and its operands; default: the pod's namespace, or "+o.DefaultNamespace())
	flags.BoolVar(&o.LeaderElect, "leader-elect", true, "elect a leader, so that only one replica works at a time")
	flags.DurationVar(&o.LeaderElectRetry, "leader-elect-retry-period", 0,
		"how often the leader renews its lease, which expires after five times as long; default: OpenShift's times")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "`address` of /metrics; 0 disables it")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"serve metrics over HTTPS to clients that RBAC allows to get /metrics; if false, over HTTP to any client")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "",
		"`folder` with tls.crt and tls.key for /metrics; default: the operator generates a certificate")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 disables them")
	logs := flag.NewFlagSet("logs", flag.ContinueOnError)
	klog.InitFlags(logs)
	o.Verbosity = &Verbosity{Value: logs.Lookup("v").Value}
	flags.Var(o.Verbosity, "v", "log `level`, 0 to 7; spec.operatorLogLevel of the operator's resource can raise it")
}

// Parse parses a command line that begins with one of the commands, followed by flags. The help text is argument "usage", followed by the list of
// flags.
func Parse(flags *flag.FlagSet, usage string, args []string, commands ...string) error {
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) == 0 || !slices.Contains(commands, args[0]) {
		flags.Usage()
		if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
			return flag.ErrHelp
		}
		names := strings.Join(commands, ", ")
		if last := strings.LastIndex(names, ", "); last >= 0 {
			names = names[:last] + " or " + names[last+len(", "):]
		}
		return fmt.Errorf("the first argument must be %s", names)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}
