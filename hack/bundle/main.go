// Command bundle writes what OLM installs from: the bundles, the catalog and the lists for mirrors. It refuses what OLM would
// refuse, drop without a word, or fail on later. It works on the repository in the current folder.
//
//	bundle                  writes those of the version in the file VERSION
//	bundle release 5.1.1    makes that the version, and adds it to the catalog
package main

import (
	"fmt"
	"os"

	"github.com/csi-operators/csi-operators/internal/olm"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		return olm.Make(".")
	case len(args) == 2 && args[0] == "release":
		return olm.Release(".", args[1])
	default:
		return fmt.Errorf("usage: bundle [release VERSION], not %q", args)
	}
}
