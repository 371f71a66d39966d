// Command bundle writes the bundles, the catalog and the lists for mirrors. It refuses files that OLM would refuse, would ignore without a message,
// or would fail on later. It works on the repository in the current folder, or on the tree of one driver.
//
//	bundle                               writes the files of the version in the file VERSION
//	bundle check-release                 refuses a version whose images have no digests
//	bundle release 5.3.1                 makes this the version, and adds it to the catalog
//	bundle -root packages/sample         writes the files of a driver that hack/new-driver made for OLM
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/release/olm"
)

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bundle", flag.ContinueOnError)
	root := flags.String("root", ".", "`folder` of the tree with config/, images/ and VERSION")
	if err := flags.Parse(args); err != nil {
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	args = flags.Args()
	if err := checkDriver(ctx, *root, len(args) > 0, os.Stderr); err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return olm.Make(*root)
	case len(args) == 1 && args[0] == "check-release":
		return olm.CheckRelease(*root)
	case len(args) == 2 && args[0] == "release":
		return olm.Release(*root, args[1])
	default:
		return fmt.Errorf("usage: bundle [-root FOLDER] [check-release | release VERSION], not %q", args)
	}
}
