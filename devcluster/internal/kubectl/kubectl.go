// Package kubectl runs kubectl in this process.
package kubectl

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "github.com/csi-operators/csi-operators/devcluster/internal/kubectl/english" // Before the packages above: see there.
)

// Run runs kubectl for the cluster of the kubeconfig file, and returns its exit code. Under the name "oc", kubectl finds and completes plugins in the
// same way as oc, because oc also uses kubectl's library with this list of prefixes (github.com/openshift/oc 6b8e30c5, pkg/cli/shim_kubectl.go and
// cli.go).
func Run(name string, args []string) int {
	if name == "oc" {
		plugin.ValidPluginFilenamePrefixes = []string{"oc", "kubectl"}
	}
	os.Args = append([]string{name}, args...)
	root := cmd.NewDefaultKubectlCommand()
	root.Use = name
	if err := cli.RunNoErrOutput(root); err != nil {
		// CheckErr prints the error in a readable form, and ends the process with kubectl's exit code.
		util.CheckErr(err)
	}
	return 0
}
