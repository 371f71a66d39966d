package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
	adopting "github.com/csi-operators/csi-operators/internal/plugin/migrate"
)

type adoptOptions struct {
	manager.Options
	folder, output string
}

// adopt prints what the operator would do to migrate the driver from a predecessor. It only reads.
func adopt(ctx context.Context, out io.Writer, args []string) error {
	options, err := parseAdopt(args)
	if err != nil {
		return err
	}
	efs := awsefs.Driver()
	source, err := sourceOf(ctx, options)
	if err != nil {
		return err
	}
	plan, err := adopting.Plan(ctx, source, efs, options.Namespace, os.Getenv)
	if err != nil {
		return err
	}
	if options.output == "json" {
		return printJSON(out, "plan", plan)
	}
	return adopting.Print(out, efs.Name, plan)
}

// sourceOf is the cluster or the folder that the flags name.
func sourceOf(ctx context.Context, options adoptOptions) (adopting.Source, error) {
	if options.folder != "" {
		return adopting.FromFolder(ctx, options.folder, awsefs.Driver(), func(text string) { fmt.Fprintln(os.Stderr, "warning:", text) })
	}
	found, err := operator.Connect(options.Options)
	if err != nil {
		return adopting.Source{}, err
	}
	return adopting.FromCluster(found.Live, awsefs.Driver())
}

func parseAdopt(args []string) (adoptOptions, error) {
	var options adoptOptions
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator adopt", flag.ContinueOnError)
	dryRun := flags.Bool("dry-run", false, "print what would be done; the operator itself does it when the ClusterCSIDriver is created")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "`file` with the API server and credentials; default: as for start")
	flags.StringVar(&options.Namespace, "namespace", "",
		"`namespace` where the operator is, or will be, installed; default: where it is installed, else that of the predecessor's DaemonSet")
	flags.StringVar(&options.folder, "must-gather", "", "`folder` of \"oc adm must-gather\" or \"oc adm inspect\" to read instead of a cluster")
	flags.StringVar(&options.output, "o", "text", "`format`, text or json")
	if err := flags.Parse(args); err != nil {
		return options, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	switch {
	case flags.NArg() > 0:
		return options, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !*dryRun:
		return options, errors.New("adopt only says what would be done, so it wants --dry-run; the operator does it when ClusterCSIDriver " +
			"efs.csi.aws.com is created")
	case options.output != "text" && options.output != "json":
		return options, fmt.Errorf("-o %s: must be text or json", options.output)
	}
	return options, nil
}
