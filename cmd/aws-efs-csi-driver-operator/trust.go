package main

import (
	"errors"
	"flag"
	"io"
	"os"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/iam"
)

// printTrustPolicy prints who may assume the role of the controller or the nodes.
func printTrustPolicy(out io.Writer, args []string) error {
	options, err := parseTrust(args)
	if err != nil {
		return err
	}
	document, err := iam.TrustOf(options, os.Getenv)
	if err != nil {
		return err
	}
	return printJSON(out, "IAM document", document)
}

func parseTrust(args []string) (iam.TrustOptions, error) {
	var options iam.TrustOptions
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator iam-trust-policy controller|node", flag.ContinueOnError)
	flags.StringVar(&options.Account, "account", "", "`ID` of the AWS account with the role, 12 digits")
	flags.StringVar(&options.Provider, "oidc-provider", "",
		"`issuer` of the cluster's tokens, host and path: spec.serviceAccountIssuer of Authentication cluster, with or without https://")
	flags.StringVar(&options.Partition, "partition", "aws", "`partition` of AWS: aws, aws-us-gov or aws-cn")
	flags.StringVar(&options.Namespace, "namespace", kube.DefaultNamespace, "`namespace` of the operator and the driver")
	if len(args) > 0 && iam.HasCredentials(args[0]) {
		options.Workload, args = driver.Workload(args[0]), args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return options, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if options.Workload == "" || flags.NArg() > 0 {
		return options, errors.New("iam-trust-policy takes one argument, controller or node, and then flags: iam-trust-policy -h lists them")
	}
	return options, nil
}
