package command

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/node"
)

func newLoadImages(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "load-images [NAME=]FILE...",
		Short: "Load image archives into the real nodes; with NAME, the image gets this name instead of its name in the archive",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			archives, err := node.ParseArchives(args)
			if err != nil {
				return err
			}
			return cluster.LoadImages(command.Context(), *dir, archives)
		},
	}
}

func newCheckNodes(dir *string, streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "real-nodes-check",
		Short: "Try whether this machine can run nodes with a kubelet; the exit code is 1 if it can't",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			absolute, err := filepath.Abs(*dir)
			if err != nil {
				return fmt.Errorf("find the absolute path of --dir %s: %w", *dir, err)
			}
			machine, err := node.Check(absolute)
			if err != nil {
				return err
			}
			if err := node.Try(command.Context(), machine, absolute); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "this machine can run nodes with a kubelet; the kernel has %s\n", strings.Join(machine.Kernel, ", "))
			return err
		},
	}
}
