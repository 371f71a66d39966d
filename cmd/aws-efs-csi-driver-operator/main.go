// Command aws-efs-csi-driver-operator installs, configures and removes the AWS EFS CSI driver, as the ClusterCSIDriver
// efs.csi.aws.com says.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

const usage = `Usage: aws-efs-csi-driver-operator start [flags]
       aws-efs-csi-driver-operator iam-policy controller|node
       aws-efs-csi-driver-operator iam-trust-policy controller|node --account ID --oidc-provider ISSUER [flags]
       aws-efs-csi-driver-operator adopt --dry-run [flags]

start             Installs, configures and removes the AWS EFS CSI driver as ClusterCSIDriver efs.csi.aws.com says.
iam-policy        Prints the IAM policy that the role or user of the controller or the nodes needs, as JSON.
iam-trust-policy  Prints who may assume that role on a cluster with STS: iam-trust-policy -h lists its flags.
adopt             Prints what it takes to migrate the driver from another operator: adopt -h lists its flags.

Flags of start:
`

func main() {
	operator.Main(run)
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "iam-policy" {
		return printPolicy(os.Stdout, args[1:])
	}
	if len(args) > 0 && args[0] == "iam-trust-policy" {
		return printTrustPolicy(os.Stdout, args[1:])
	}
	if len(args) > 0 && args[0] == "adopt" {
		return adopt(ctx, os.Stdout, args[1:])
	}
	options, err := parse(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	return operator.Ended(ctx, start(ctx, options))
}

func parse(args []string) (operator.Options, error) {
	options := operator.Options{Options: manager.Options{LockName: "aws-efs-csi-driver-operator-lock"}}
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator", flag.ContinueOnError)
	options.AddFlags(flags)
	err := operator.Parse(flags, usage, args, "start", "iam-policy", "iam-trust-policy", "adopt")
	return options, err
}
