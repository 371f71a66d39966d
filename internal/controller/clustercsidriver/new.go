package clustercsidriver

import (
	"fmt"
	"os"
	"strings"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/pendingpvc"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// New configures the controller of a driver from the environment, and rejects invalid values.
func New(d driver.Driver, lookup func(variable string) string) (*Reconciler, error) {
	environment := Environment{
		Images:  values(d.Images(), lookup),
		Version: lookup("OPERAND_IMAGE_VERSION"),
	}
	var err error
	if environment.Settings, err = d.ReadSettings(lookup); err != nil {
		return nil, err
	}
	if err := d.CheckImages(environment.Images, environment.Settings); err != nil {
		return nil, err
	}
	if environment.RoleARNs, err = d.ReadRoles(lookup); err != nil {
		return nil, err
	}
	environment.FIPS, err = fipsMode(lookup("FIPS_ENABLED"))
	return &Reconciler{
		Driver: d, Environment: environment, Migration: &migration.Migration{
			Driver: d, Inheritable: d.Inheritable(lookup), Accepts: d.Accepted(driver.Config{Settings: environment.Settings, Images: environment.Images}),
		},
		Credentials: &credential.Source{Driver: d}, Derived: &derived.Source{Driver: d, Version: environment.Version},
		Pending: &pendingpvc.PVCs{Driver: d}, Nodes: &nodes.Updater{Driver: d.Name},
	}, err
}

// fipsMode reports whether the nodes run in FIPS mode. Argument "variable" is the value of FIPS_ENABLED. If it is empty, the kernel of the operator's
// node decides, because all nodes of a cluster have the same mode.
func fipsMode(variable string) (bool, error) {
	switch variable {
	case "true", "false":
		return variable == "true", nil
	case "":
		kernel, err := os.ReadFile("/proc/sys/crypto/fips_enabled")
		return err == nil && strings.TrimSpace(string(kernel)) == "1", nil
	default:
		return false, fmt.Errorf("environment variable FIPS_ENABLED=%q must be true or false: correct it, or remove it to use the FIPS mode of "+
			"the operator's node", variable)
	}
}

func values(variables []string, lookup func(string) string) map[string]string {
	found := map[string]string{}
	for _, name := range variables {
		found[name] = lookup(name)
	}
	return found
}
