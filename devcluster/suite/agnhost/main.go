// Program agnhost has those commands of Kubernetes' own agnhost that tests of storage call. All others would take minutes to compile.
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
