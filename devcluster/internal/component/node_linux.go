package component

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/node"
)

// nodeComponents returns the programs of nodes with a kubelet.
func nodeComponents() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		cluster.Kubelet:   command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		cluster.KubeProxy: command(kubeproxy.NewProxyCommand),
		cluster.Network:   untilSignal(node.RunNetwork),
		cluster.Node: func(args []string) int {
			if err := node.Run(os.Args[0], args); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		},
	}
}
