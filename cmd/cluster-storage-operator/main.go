// Command cluster-storage-operator starts the operators of the CSI drivers that a cluster's platform needs, and reports their state in
// Storage cluster and ClusterOperator storage.
package main

import (
	"context"
	"flag"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/operator"
)

const usage = `Usage: cluster-storage-operator start [flags]

start  Starts the operators of the CSI drivers that the cluster's platform needs, and reports their state in Storage cluster and
       ClusterOperator storage. The Infrastructure names the platform.

Flags of start:
`

func main() {
	operator.Main(run)
}

func run(ctx context.Context, args []string) error {
	options, err := parse(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	return operator.IgnoreCanceled(ctx, start(ctx, options))
}

func parse(args []string) (operator.Options, error) {
	options := operator.Options{}
	options.Fallback = catalogue.OperatorNamespace
	options.LockName = catalogue.Operator + "-lock"
	flags := flag.NewFlagSet(catalogue.Operator, flag.ContinueOnError)
	options.AddFlags(flags)
	err := operator.Parse(flags, usage, args, "start")
	return options, err
}
