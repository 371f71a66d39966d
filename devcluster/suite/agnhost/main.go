// Program agnhost replaces Kubernetes' own agnhost in tests of storage. It has only the commands that these tests call, because all other commands
// would take minutes to compile.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/test/images/agnhost/mounttest"
	"k8s.io/kubernetes/test/images/agnhost/pause"
)

func main() {
	command := &cobra.Command{Use: "agnhost"}
	command.AddCommand(mounttest.CmdMounttest, pause.CmdPause)
	if command.Execute() != nil {
		os.Exit(1)
	}
}
