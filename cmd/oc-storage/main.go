// Command oc-storage is a plugin of oc and kubectl. With the user's permissions, it shows, checks and installs the CSI drivers of a cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/collect"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/drivers"
	"github.com/csi-operators/csi-operators/internal/plugin/efs"
	"github.com/csi-operators/csi-operators/internal/plugin/iam"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/internal/plugin/leftovers"
	"github.com/csi-operators/csi-operators/internal/plugin/migrate"
	"github.com/csi-operators/csi-operators/internal/plugin/rollout"
	"github.com/csi-operators/csi-operators/internal/plugin/share"
	"github.com/csi-operators/csi-operators/internal/plugin/volumetest"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stopped := interruptible(context.Background(), signals)
	err := run(ctx, stopped, os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	os.Exit(plugin.Code(err))
}

// interruptible returns a context that the first signal cancels, and a channel that the second signal closes. The third signal kills the program.
func interruptible(ctx context.Context, signals chan os.Signal) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		<-signals
		cancel()
		<-signals
		signal.Stop(signals)
		close(stopped)
	}()
	return ctx, stopped
}

func run(ctx context.Context, stopped <-chan struct{}, args []string, streams genericiooptions.IOStreams) error {
	p := plugin.New(streams)
	p.Stopped = stopped
	p.NoColour, p.Terminal = os.Getenv("NO_COLOR"), os.Getenv("TERM")
	root := rootOf(p, calledAs(args[0]))
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		for line := range strings.Lines("error: " + err.Error()) {
			_, _ = fmt.Fprintln(p.Streams.ErrOut, plugin.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return err //nolint:wrapcheck // Commands wrap their errors.
}

// rootOf returns the root command with all other commands. Argument "name" is what the user types to run the plugin, such as "oc storage".
func rootOf(p *plugin.Plugin, name string) *cobra.Command {
	return p.Root(name, version(),
		drivers.Command(p), doctor.Command(p), install.Command(p), install.UninstallCommand(p), migrate.Command(p), rollout.Command(p),
		volumetest.Command(p), share.Command(p), collect.Command(p, drivers.Command, doctor.Command), leftovers.Command(p), efs.Command(p), iam.Command(p))
}

// calledAs returns what the user types to run the plugin, such as "oc storage" for file oc-storage. oc and kubectl find a plugin by the name of its
// file.
func calledAs(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".exe")
	return strings.Replace(name, "-", " ", 1)
}
