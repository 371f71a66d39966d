package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

// operator is the Go package of the operator that all third-party drivers use. roleFile is the file in a driver's tree that has the roles of this
// operator.
const (
	operator = "./cmd/csi-driver-operator"
	roleFile = "config/rbac/role.yaml"
	// namespace is the name of the operator's namespace in config/.
	namespace = "openshift-cluster-csi-drivers"
)

// checkDriver compares the tree of a third-party driver with the operator of this repository. The tree must have the roles of the operator, and the
// images of the pods that the operator creates. The CRD must allow a ClusterCSIDriver with the driver's name. If the package is marked as unlisted,
// and isRelease is false, a forbidden name is only a warning. In this repository's own tree, checkDriver does nothing.
func checkDriver(ctx context.Context, root string, isRelease bool, warnings io.Writer) error {
	tree := os.DirFS(root)
	found, err := olm.PackageOf(tree)
	if err != nil || found.Driver == "" {
		return err
	}
	if err := olm.CheckDriverName(ctx, ".", found.Driver); err != nil {
		err = fmt.Errorf("%s: driver: %w", olm.PackageFile, err)
		if !found.Unlisted || isRelease {
			return err
		}
		warn(warnings, err.Error()+". No cluster can install this package yet")
	}
	if clash := olm.Clash(found.Name, found.Driver); clash != "" {
		warn(warnings, clash)
	}
	current, err := release.Load(tree)
	if err != nil {
		return err
	}
	return errors.Join(checkRoles(ctx, root, found.Driver), checkImages(ctx, found.Driver, current))
}

func warn(out io.Writer, text string) { _, _ = fmt.Fprintln(out, "warning:", text) }

// checkRoles refuses roles that differ from the operator's output.
func checkRoles(ctx context.Context, root, driver string) error {
	wanted, err := ask(ctx, "rights", "--driver", driver, "--namespace", namespace)
	if err != nil {
		return err
	}
	//nolint:gosec // The folder is that of the package which the developer names.
	found, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(roleFile)))
	if err != nil {
		return fmt.Errorf("roles of the operator: %w: run make package", err)
	}
	if !bytes.Equal(wanted, found) {
		return fmt.Errorf("%s is not what the operator of %s needs: do not edit it, run make package NAME=%s", roleFile, driver, filepath.Base(root))
	}
	return nil
}

// checkImages refuses a list of images that lacks an image of the pods that the operator creates. It also refuses a list with an unused image.
func checkImages(ctx context.Context, driver string, current release.Release) error {
	output, err := ask(ctx, "images", "--driver", driver)
	if err != nil {
		return err
	}
	wanted := strings.Fields(string(output))
	var listed []string
	for _, image := range current.Images {
		if image.Variable != "" {
			listed = append(listed, image.Variable)
		}
	}
	var problems []error
	for _, variable := range wanted {
		if !slices.Contains(listed, variable) {
			problems = append(problems, fmt.Errorf("%s: no image has the variable %s, without which the operator of %s does not start",
				release.ImagesFile, variable, driver))
		}
	}
	for _, variable := range listed {
		if !slices.Contains(wanted, variable) {
			problems = append(problems, fmt.Errorf("%s: no container of %s uses the image of variable %s: remove the variable",
				release.ImagesFile, driver, variable))
		}
	}
	return errors.Join(problems...)
}

// ask runs the operator program of third-party drivers, and returns what the program prints.
func ask(ctx context.Context, args ...string) ([]byte, error) {
	problems := &bytes.Buffer{}
	//nolint:gosec // The arguments are ours, and a name that has been checked.
	command := exec.CommandContext(ctx, "go", append([]string{"run", operator}, args...)...)
	command.Stderr = problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s, in the folder of this repository: %w: %s", command, err, problems)
	}
	return output, nil
}
