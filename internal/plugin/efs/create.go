package efs

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

type createFlags struct {
	create.Options
	storageClass, manifest string
	remove, wait           bool
}

const createLong = `Create a file system for tests in the VPC of a cluster, with mount targets, a security group and all tags.

With --delete, delete these again, and nothing else.`

func createCommand(p *plugin.Plugin) *cobra.Command {
	var options createFlags
	command := &cobra.Command{
		Use: "create --infra-id ID --account NUMBER --region REGION", Short: "Create a share for tests, or delete it", Long: createLong,
		Args: plugin.NoArgs,
		Example: "  # Create a file system with mount targets, and a StorageClass for it.\n" +
			"  oc storage efs create --infra-id ci-abc12 --account 123456789012 --region us-east-1 --storage-class class.yaml\n" +
			"  # Delete the share.\n" +
			"  oc storage efs create --infra-id ci-abc12 --account 123456789012 --region us-east-1 --delete --wait",
	}
	flags := command.Flags()
	shared := common{
		&options.InfraID, &options.Account, &options.Region, &options.RequestsPerMinute, &options.Patience, &options.Poll, &options.MaxBackoff,
	}
	shared.add(flags, "how long to wait for AWS", "how long to pause between two polls of AWS")
	flags.StringVar(&options.Name, "name", "ci", "`name` of the share; a cluster can have several")
	flags.StringVar(&options.Zone, "zone", "", "create a One Zone file system in this `zone`; default: a regional file system")
	flags.StringVar(&options.VPC, "vpc", "", "`ID` of the VPC; default: the VPC with the cluster's tag")
	flags.StringSliceVar(&options.Subnets, "subnets", nil, "comma-separated `IDs` of the subnets of the mount targets; default: in each zone, "+
		"one subnet with the cluster's tag")
	flags.StringVar(&options.storageClass, "storage-class", "", "`file` to write a StorageClass for the share to")
	flags.StringVar(&options.manifest, "manifest", "", "`file` to write the manifest for Kubernetes' external storage tests to")
	flags.BoolVar(&options.remove, "delete", false, "delete the share of this name and everything that this command created for it")
	flags.BoolVar(&options.wait, "wait", false,
		"with --delete, wait until everything is deleted; without --wait, --delete exits with 4 if something is left")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := shared.check(); err != nil {
			return err
		}
		if err := options.check(); err != nil {
			return exit(err)
		}
		return exit(makeShare(command.Context(), p, options))
	}
	return command
}

// makeShare creates a share. With --delete, it deletes the share instead.
func makeShare(ctx context.Context, p *plugin.Plugin, options createFlags) error {
	if options.remove {
		return clean(ctx, p, efscleanup.Options{
			InfraID: options.InfraID, Account: options.Account, Region: options.Region, Share: options.Name, Yes: true, Wait: options.wait,
			Patience: options.Patience, Poll: options.Poll, RequestsPerMinute: options.RequestsPerMinute, MaxBackoff: options.MaxBackoff,
		})
	}
	options.Progress = func(line string) { _, _ = fmt.Fprintln(p.Streams.ErrOut, line) }
	share, err := create.Run(ctx, options.Options)
	if err != nil {
		return err
	}
	for file, content := range map[string]string{options.storageClass: share.StorageClass(), options.manifest: share.DriverManifest()} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil { //nolint:gosec // Others may read it; there is no secret in it.
			return fmt.Errorf("write an output file: %w", err)
		}
	}
	return p.Print(share, [][]string{{sentence(share)}})
}

// check validates combinations of flags. Package create validates the value of each flag.
func (o *createFlags) check() error {
	forCreation := []string{o.Zone, o.VPC, strings.Join(o.Subnets, ","), o.storageClass, o.manifest}
	switch {
	case o.wait && !o.remove:
		return plugin.Usage("--wait is for --delete; create always waits")
	case o.remove && strings.Join(forCreation, "") != "":
		return plugin.Usage("--delete finds the share by its name: --zone, --vpc, --subnets, --storage-class and --manifest are for creation")
	case o.storageClass != "" && o.storageClass == o.manifest:
		return plugin.Usage("--storage-class and --manifest name the same file")
	}
	return create.CheckName(o.Name)
}

// sentence returns a sentence that describes a finished share and its place.
func sentence(share create.Share) string {
	where := "regional"
	if share.Zone != "" {
		where = "in zone " + share.Zone
	}
	return fmt.Sprintf("File system %s, %s, is ready in %s, with %d mount targets and security group %s.",
		share.FileSystem, where, share.VPC, len(share.MountTargets), share.SecurityGroup)
}
