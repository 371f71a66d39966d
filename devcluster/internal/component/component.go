// Package component runs the programs of a control plane that are linked into the devcluster binary. Each program runs in a process of its own,
// because the programs share global variables, which only one program in a process can use.
package component

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	// These packages register their metrics when they are imported. Without the metrics, the components write warnings into their logs.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
	"github.com/csi-operators/csi-operators/devcluster/internal/standin"
)

// Run runs the named component until the component ends, and returns its exit code. The second result is false if no component has this name.
func Run(name string, args []string) (code int, known bool) {
	run, known := find(name)
	if !known {
		return 0, false
	}
	// Some components read os.Args.
	os.Args = append([]string{name}, args...)
	return run(args), true
}

func find(name string) (run func(args []string) int, known bool) {
	for _, all := range []map[string]func([]string) int{components(), nodeComponents()} {
		if run, known := all[name]; known {
			return run, true
		}
	}
	// The component of a node with a kubelet has the name of the node in its own name.
	if strings.HasPrefix(name, cluster.Node) {
		run, known := nodeComponents()[cluster.Node]
		return run, known
	}
	return nil, false
}

func components() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		cluster.Etcd: func([]string) int {
			etcdmain.Main(os.Args)
			return 0
		},
		cluster.APIServer:         command(apiserver.NewAPIServerCommand),
		cluster.ControllerManager: command(controllermanager.NewControllerManagerCommand),
		cluster.Scheduler:         command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		cluster.Kwok:              runKwok,
		cluster.StandIns:          untilSignal(standin.Run),
		cluster.Programs:          untilSignal(program.Run),
	}
}

func command(create func() *cobra.Command) func(args []string) int {
	return func([]string) int { return cli.Run(create()) }
}

func untilSignal(run func(ctx context.Context, args []string) error) func(args []string) int {
	return func(args []string) int {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		if err := run(ctx, args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
}
