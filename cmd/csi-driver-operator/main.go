// Command csi-driver-operator installs and configures one CSI driver that is part of a cluster, as its ClusterCSIDriver specifies. The
// cluster-storage-operator starts one for each driver of the platform.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

const usage = `Usage: csi-driver-operator start --driver NAME [flags]
       csi-driver-operator rights --driver NAME [--namespace NAMESPACE]
       csi-driver-operator images --driver NAME

start   Installs and configures a CSI driver as its ClusterCSIDriver specifies. A driver that is part of the cluster stays when its
        ClusterCSIDriver is deleted.
rights  Prints the roles that the operator of a driver needs: a ClusterRole, and a Role in its namespace.
images  Prints the environment variables that must name the images of a driver's pods, one per line.

Flags:
`

func main() {
	operator.Main(run)
}

func run(ctx context.Context, args []string) error {
	options, operated, err := parse(args)
	if err != nil {
		return err
	}
	switch args[0] {
	case rights:
		return printRoles(os.Stdout, operated, manager.Namespace(options.Options))
	case images:
		return printImages(os.Stdout, operated)
	}
	ctrl.SetLogger(klog.Background())
	return operator.IgnoreCanceled(ctx, start(ctx, options, operated))
}

// operable returns the drivers that this program can operate, by their CSI names. EFS has its own program, which also serves SharedVolumes, so the
// result does not contain EFS.
func operable() map[string]driver.Driver {
	found := map[string]driver.Driver{}
	for _, d := range all.Drivers() {
		if d.Name != efs.DriverName {
			found[d.Name] = d
		}
	}
	return found
}

// parse reads the command line, and finds the driver that the command line names.
func parse(args []string) (options operator.Options, operated driver.Driver, err error) {
	known := operable()
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	flags := flag.NewFlagSet("csi-driver-operator", flag.ContinueOnError)
	name := flags.String("driver", "", "CSI `name` of the driver, one of "+names)
	options.AddFlags(flags)
	if err := operator.Parse(flags, usage, args, "start", rights, images); err != nil {
		return options, operated, err
	}
	operated, found := known[*name]
	switch {
	case *name == "":
		return options, operated, fmt.Errorf("--driver is missing: pass the CSI name of the driver, one of %s", names)
	case !found:
		return options, operated, fmt.Errorf("--driver %s: unknown driver: pass one of %s", *name, names)
	}
	options.LockName = operated.Operator + "-lock"
	return options, operated, nil
}
