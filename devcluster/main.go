// Program devcluster runs a whole Kubernetes control plane on one machine. The same binary contains every program of this control plane. The first
// argument says which program to run.
package main

import (
	"os"

	"github.com/csi-operators/csi-operators/devcluster/internal/command"
	"github.com/csi-operators/csi-operators/devcluster/internal/component"
	"github.com/csi-operators/csi-operators/devcluster/internal/kubectl"
)

func runKubectl(args []string) int { return kubectl.Run("kubectl", args) }

func main() {
	args := os.Args[1:]
	if len(args) > 0 {
		if code, known := component.Run(args[0], args[1:]); known {
			os.Exit(code)
		}
	}
	os.Exit(command.Run(args, command.Streams{Out: os.Stdout, Err: os.Stderr}, runKubectl))
}
