// Command csi-driver-operator installs and configures one CSI driver that is part of a cluster, as the ClusterCSIDriver of that name
// says. The cluster-storage-operator starts one for each driver of the platform.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/internal/program"
)

const usage = `Usage: csi-driver-operator start --driver NAME [flags]

start  Installs and configures a CSI driver as the ClusterCSIDriver of its name says. The driver is part of the cluster: nothing
       of it is removed when its ClusterCSIDriver is deleted.

Flags of start:
`

func main() {
	ctx := ctrl.SetupSignalHandler()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	options, operated, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	err = start(ctx, options, operated)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// Whoever ends the operator before it has begun gets what was asked for.
		return nil
	}
	return err
}

// drivers are those that this program knows, by their CSI names.
func drivers() (map[string]driver.Driver, error) {
	known := map[string]driver.Driver{}
	for _, get := range []func() (driver.Driver, error){
		awsebs.Driver,
		gcppd.Driver,
	} {
		d, err := get()
		if err != nil {
			return nil, err
		}
		known[d.Name] = d
	}
	return known, nil
}

// parse reads the command line, and finds the driver.
func parse(args []string) (options program.Options, operated driver.Driver, err error) {
	known, err := drivers()
	if err != nil {
		return options, operated, err
	}
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	flags := flag.NewFlagSet("csi-driver-operator", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	name := flags.String("driver", "", "CSI `name` of the driver, one of "+names)
	options.AddFlags(flags)
	if len(args) == 0 || args[0] != "start" {
		flags.Usage()
		if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
			return options, operated, flag.ErrHelp
		}
		return options, operated, errors.New("the first argument must be start")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return options, operated, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if flags.NArg() > 0 {
		return options, operated, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	operated, found := known[*name]
	switch {
	case *name == "":
		return options, operated, fmt.Errorf("--driver is missing: pass the CSI name of the driver, one of %s", names)
	case !found:
		return options, operated, fmt.Errorf("--driver %s: this program knows no such driver: pass one of %s", *name, names)
	}
	options.LockName = operated.Operator + "-lock"
	return options, operated, nil
}
