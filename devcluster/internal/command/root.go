// Package command is the command line of devcluster.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
)

// defaultDir is the default of --dir.
const defaultDir = ".devcluster"

// Streams are the outputs of a command.
type Streams struct {
	Out io.Writer
	Err io.Writer
}

// Kubectl runs kubectl in this process, and returns kubectl's exit code.
type Kubectl func(args []string) int

// exitCodeError is an error that only has an exit code, and no message.
type exitCodeError int

func (e exitCodeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run runs the command that the arguments name. It returns the exit code of the command.
func Run(args []string, streams Streams, kubectl Kubectl) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(streams, kubectl)
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	var code exitCodeError
	if errors.As(err, &code) {
		return int(code)
	}
	if err != nil {
		_, _ = fmt.Fprintln(streams.Err, "devcluster:", err)
		return 1
	}
	return 0
}

func newRoot(streams Streams, kubectl Kubectl) *cobra.Command {
	dir := defaultDir
	root := &cobra.Command{
		Use:           "devcluster",
		Short:         "A whole Kubernetes control plane on one machine, dressed up as OpenShift, with fake or real nodes",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", defaultDir, "directory that holds all state of the cluster")
	// Kubernetes registers flag --version in every program that is linked with Kubernetes. Without this hidden flag, every help text would list
	// --version.
	root.PersistentFlags().Bool("version", false, "")
	_ = root.PersistentFlags().MarkHidden("version")
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newUp(&dir, streams),
		newDown(&dir),
		newStatus(&dir, streams),
		newKubectl(&dir, kubectl),
		newStop(&dir),
		newStart(&dir),
		newSnapshot(&dir),
		newLoadImages(&dir),
		newCheckNodes(&dir, streams),
		newSupervisor(),
	)
	return root
}

func newDown(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove its directory",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := cluster.Down(command.Context(), *dir); err != nil {
				return err
			}
			command.Printf("No cluster runs in %s, and no files of a cluster are left there.\n", *dir)
			return nil
		},
	}
}

func newKubectl(dir *string, kubectl Kubectl) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--dir DIR] [--] ARGUMENTS...",
		Short: "Run kubectl on the cluster",
		// All flags except --dir are flags of kubectl.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			args, err := takeDir(args, dir)
			if err != nil {
				return err
			}
			kubeconfig, err := cluster.Kubeconfig(*dir)
			if err != nil {
				return err
			}
			// Each cluster has its own cache, which `down` removes. So if another cluster gets the same port, kubectl does not use the old cache.
			for name, value := range map[string]string{"KUBECONFIG": kubeconfig, "KUBECACHEDIR": cluster.KubectlCache(kubeconfig)} {
				if err := os.Setenv(name, value); err != nil {
					return fmt.Errorf("set %s for kubectl: %w", name, err)
				}
			}
			// Run catches signals to end its context, but kubectl does not use this context. After the reset, a signal ends kubectl itself.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			if code := kubectl(args); code != 0 {
				return exitCodeError(code)
			}
			return nil
		},
	}
}

// takeDir removes --dir and an optional "--" from the beginning of kubectl's arguments. It returns the directory and the other arguments.
func takeDir(args []string, dir *string) ([]string, error) {
	for len(args) > 0 {
		value, inline := strings.CutPrefix(args[0], "--dir=")
		switch {
		case inline:
			*dir, args = value, args[1:]
		case args[0] == "--dir" && len(args) == 1:
			return nil, errors.New("--dir needs a directory")
		case args[0] == "--dir":
			*dir, args = args[1], args[2:]
		case args[0] == "--":
			return args[1:], nil
		default:
			return args, nil
		}
	}
	return args, nil
}

func newStop(dir *string) *cobra.Command {
	return newChange("stop COMPONENT", "Stop one component and leave the others running, to see what follows", dir, cluster.StopComponent)
}

func newStart(dir *string) *cobra.Command {
	return newChange("start COMPONENT", "Start a component again that was stopped or has died", dir, cluster.StartComponent)
}

func newSnapshot(dir *string) *cobra.Command {
	command := &cobra.Command{Use: "snapshot", Short: "Save the data of etcd, or restore it"}
	command.AddCommand(
		newChange("save FILE", "Write the data of etcd into a new file", dir, cluster.SaveSnapshot),
		newChange("restore FILE", "Restore a snapshot; all programs but etcd and the API server keep running", dir, cluster.RestoreSnapshot),
	)
	return command
}

// newChange returns a command with one argument. The command changes the cluster that runs in a directory.
func newChange(use, short string, dir *string, change func(ctx context.Context, dir, argument string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return change(command.Context(), *dir, args[0])
		},
	}
}

func newSupervisor() *cobra.Command {
	return &cobra.Command{
		Use:    cluster.Supervisor + " DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return cluster.Supervise(args[0]) },
	}
}
