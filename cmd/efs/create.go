package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/csi-operators/csi-operators/internal/efscreate"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

type createFlags struct {
	efscreate.Options
	storageClass, manifest, output string
	remove, wait                   bool
}

// create makes a share, or deletes it.
func create(ctx context.Context, args []string, out, problems io.Writer) (int, error) {
	options, err := parseCreate(args, problems)
	if err != nil {
		return 0, err
	}
	if options.remove {
		return clean(ctx, cleanupFlags{output: options.output, Options: efscleanup.Options{
			InfraID: options.InfraID, Account: options.Account, Region: options.Region, Share: options.Name, Yes: true, Wait: options.wait,
			Patience: options.Patience, Poll: options.Poll, RequestsPerMinute: options.RequestsPerMinute, MaxBackoff: options.MaxBackoff,
		}}, out, problems)
	}
	options.Progress = func(line string) { _, _ = fmt.Fprintln(problems, line) }
	share, err := efscreate.Run(ctx, options.Options)
	if err != nil {
		return exitFailed, err
	}
	for file, content := range map[string]string{options.storageClass: share.StorageClass(), options.manifest: share.DriverManifest()} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil { //nolint:gosec // Others may read it; there is no secret in it.
			return exitFailed, fmt.Errorf("write what was asked for: %w", err)
		}
	}
	return 0, printShare(out, options.output, share)
}

func parseCreate(args []string, problems io.Writer) (createFlags, error) {
	var options createFlags
	var subnets string
	flags := flag.NewFlagSet("efs create", flag.ContinueOnError)
	shared := common{
		&options.InfraID, &options.Account, &options.Region, &options.output, &options.RequestsPerMinute,
		&options.Patience, &options.Poll, &options.MaxBackoff,
	}
	shared.add(flags, "result", "how `long` to wait for AWS", "how `long` to pause between two looks at AWS")
	flags.StringVar(&options.Name, "name", "ci", "`name` of the share; a cluster can have several")
	flags.StringVar(&options.Zone, "zone", "", "make a One Zone file system in this `zone`; default: a regional one")
	flags.StringVar(&options.VPC, "vpc", "", "`ID` of the VPC; default: the one with the cluster's tag")
	flags.StringVar(&subnets, "subnets", "", "`IDs` of the subnets of the mount targets, separated by commas; default: those with the cluster's tag, "+
		"one for each zone")
	flags.StringVar(&options.storageClass, "storage-class", "", "`file` to write a StorageClass to, which provisions from the share")
	flags.StringVar(&options.manifest, "manifest", "", "`file` to write the manifest for Kubernetes' external storage tests to")
	flags.BoolVar(&options.remove, "delete", false, "delete the share, and only what this program has made under its name")
	flags.BoolVar(&options.wait, "wait", false, "with --delete, wait until all is gone; else exit with 4 if something is left to do")
	if err := parse(flags, args, problems); err != nil {
		return options, err
	}
	if subnets != "" {
		options.Subnets = strings.Split(subnets, ",")
	}
	if err := shared.check(); err != nil {
		return options, err
	}
	return options, options.check()
}

// check looks at how the flags go together; efscreate checks each of its own.
func (o *createFlags) check() error {
	forCreation := []string{o.Zone, o.VPC, strings.Join(o.Subnets, ","), o.storageClass, o.manifest}
	switch {
	case o.wait && !o.remove:
		return wrongUsage("--wait is for --delete; create always waits")
	case o.remove && strings.Join(forCreation, "") != "":
		return wrongUsage("--delete finds the share by its name: --zone, --vpc, --subnets, --storage-class and --manifest are for creation")
	case o.storageClass != "" && o.storageClass == o.manifest:
		return wrongUsage("--storage-class and --manifest name the same file")
	}
	return efscreate.CheckName(o.Name)
}

func printShare(out io.Writer, format string, share efscreate.Share) error {
	if format == "json" {
		return printJSON(out, "share", share)
	}
	where := "regional"
	if share.Zone != "" {
		where = "in zone " + share.Zone
	}
	_, err := fmt.Fprintf(out, "File system %s, %s, can be used in %s, through %d mount targets and security group %s.\n",
		share.FileSystem, where, share.VPC, len(share.MountTargets), share.SecurityGroup)
	if err != nil {
		return fmt.Errorf("print the share: %w", err)
	}
	return nil
}
