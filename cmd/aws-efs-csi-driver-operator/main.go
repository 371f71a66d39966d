// Command aws-efs-csi-driver-operator installs, configures and removes the AWS EFS CSI driver, as ClusterCSIDriver
// efs.csi.aws.com specifies.
package main

import (
	"context"
	"flag"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

const usage = `Usage: aws-efs-csi-driver-operator start [flags]

start  Installs, configures and removes the AWS EFS CSI driver as ClusterCSIDriver efs.csi.aws.com specifies.

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
	options := operator.Options{Options: manager.Options{LockName: "aws-efs-csi-driver-operator-lock"}}
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator", flag.ContinueOnError)
	options.AddFlags(flags)
	err := operator.Parse(flags, usage, args, "start")
	return options, err
}
