// Command new-driver writes the code of a driver, which builds and passes its tests. The code is a folder in internal/driver with the Driver value,
// assets and golden files. Outside of this folder, new-driver edits only the list of drivers. For a driver of the release, it then regenerates the
// manifests and the golden files of the catalogue. For a driver that OLM installs, it writes the OLM package. It does not overwrite an existing
// driver.
//
//	new-driver NAME [flags]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/release/olm"
)

const usage = `Usage: go run ./hack/new-driver NAME [flags]

Writes the CSI driver NAME into internal/driver/NAME and makes it known to csi-driver-operator, and to the release with its manifests.
With --delivery olm it is no part of the release: what OLM installs it from is in packages/NAME.

Flags:
`

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	wanted, repository, list, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case list:
		return printPorts(out, os.DirFS(repository))
	}
	made, err := prepare(repository, wanted)
	if err != nil {
		return err
	}
	if !wanted.Unlisted {
		if err := olm.CheckDriverName(ctx, repository, wanted.CSIName); err != nil {
			return fmt.Errorf("--csi-name %w; to generate the driver anyway, for clusters whose ClusterCSIDriver CRD you change, pass --unlisted-name", err)
		}
	}
	if err := made.write(ctx, repository); err != nil {
		return err
	}
	_, err = fmt.Fprint(out, made.next()+made.warning())
	return err //nolint:wrapcheck // Nobody reads what cannot be written.
}

// next prints the names of the written files, and the next steps.
func (s *scaffold) next() string {
	tests := "./internal/driver/all"
	if !s.names.OLM() {
		tests = "./internal/driver/catalogue ./internal/release/payload"
	}
	text := fmt.Sprintf(`%[1]s has the driver %[2]s, with ports %[3]d, %[4]d and %[5]d for health, and from %[6]d on for metrics. Next:
  go test ./%[1]s %[7]s ./cmd/csi-driver-operator ./test/rules
  docs/add-a-driver.md says what to change.
`, folder(s.names.Package), s.names.CSIName, s.names.ControllerPort, s.names.NodePort, s.names.RegistrarPort, s.names.MetricsPort, tests)
	if s.names.OLM() {
		text += fmt.Sprintf(`%[1]s has its package for OLM. After each change:
  make package NAME=%[2]s
  docs/contribute/third-party-drivers.md says how to ship it.
`, packageFolder(s.names.Package), s.names.Package)
	}
	return text
}

// warning returns a warning if another operator in the same namespace has one of the names. Otherwise, the result is empty.
func (s *scaffold) warning() string {
	if clash := olm.Clash(s.names.Operator(), s.names.CSIName); clash != "" && s.names.OLM() {
		return "warning: " + clash + "\n"
	}
	return ""
}

// parse reads the command line. Flags can stand before and after the name.
func parse(args []string) (wanted names, repository string, list bool, err error) {
	flags := flag.NewFlagSet("new-driver", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&repository, "repository", ".", "`folder` of the repository")
	flags.StringVar(&wanted.CSIName, "csi-name", "", "CSI name of the driver (default NAME.csi.example.com)")
	flags.StringVar(&wanted.Platform, "platform", "", "the only platform on which the driver runs, as in status.platformStatus.type of the\n"+
		"Infrastructure (default None with --delivery payload, every platform with olm)")
	flags.StringVar(&wanted.Kind, "kind", "", "block for disks, which are attached to a node, or file for file systems in the network (default block)")
	flags.StringVar(&wanted.Sidecars, "sidecars", "", "`list` of the controller's sidecars; allowed are "+strings.Join(allSidecars(), ",")+
		" (default all for\nblock, provisioner,resizer for file)")
	flags.BoolVar(&wanted.Privileged, "privileged-controller", false, "the controller mounts volumes itself, and so needs a privileged container")
	flags.StringVar(&wanted.Prefix, "prefix", "", "prefix of the names of namespaced objects (default NAME-csi-driver)")
	flags.StringVar(&wanted.ShortPrefix, "short-prefix", "", "prefix of the names of cluster-scoped objects (default NAME)")
	flags.StringVar(&wanted.ConditionPrefix, "condition-prefix", "", "prefix of the types of conditions (default NAME in capitals)")
	flags.StringVar(&wanted.Title, "title", "", "display name of the driver (default the value of --condition-prefix)")
	flags.StringVar(&wanted.Variable, "image-variable", "", "prefix of the names of the environment variables with the driver's images "+
		"(default\nNAME_DRIVER in capitals)")
	flags.IntVar(&wanted.NodePort, "node-port", 0, "port on the nodes for the driver's health check (default a port that no driver uses)")
	flags.IntVar(&wanted.RegistrarPort, "registrar-port", 0, "port on the nodes for the registrar's health check (default a port that no driver uses)")
	flags.BoolVar(&wanted.Unlisted, "unlisted-name", false, "accept a CSI name that the CRD of ClusterCSIDrivers does not allow yet")
	flags.StringVar(&wanted.Delivery, "delivery", "", "payload for a driver that is always part of OpenShift, or olm for a driver that "+
		"administrators\ninstall and remove (default payload)")
	flags.BoolVar(&list, "ports", false, "only list the ports on the nodes that drivers use")
	if err := flags.Parse(args); err != nil {
		return wanted, "", false, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if list && flags.NArg() == 0 {
		return wanted, repository, true, nil
	}
	if flags.NArg() == 0 {
		return wanted, "", false, errors.New("the name is missing: go run ./hack/new-driver NAME")
	}
	wanted.Package = flags.Arg(0)
	if err := flags.Parse(flags.Args()[1:]); err != nil {
		return wanted, "", false, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if flags.NArg() > 0 {
		return wanted, "", false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return wanted.complete(), repository, false, wanted.complete().check()
}
