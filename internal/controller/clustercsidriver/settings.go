package clustercsidriver

import (
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// unused reports settings in driverConfig that the operator ignores: settings for another cloud, or settings without driverType. The API server
// accepts such settings. The result is empty if driverConfig has no settings for the driver's platform.
func unused(d driver.Driver, config operatorv1.CSIDriverConfigSpec) string {
	members := []struct {
		kind operatorv1.CSIDriverType
		name string
		set  bool
	}{
		{operatorv1.AWSDriverType, "aws", config.AWS != nil},
		{operatorv1.AzureDriverType, "azure", config.Azure != nil},
		{operatorv1.GCPDriverType, "gcp", config.GCP != nil},
		{operatorv1.IBMCloudDriverType, "ibmcloud", config.IBMCloud != nil},
		{operatorv1.VSphereDriverType, "vSphere", config.VSphere != nil},
	}
	var own operatorv1.CSIDriverType
	for _, member := range members {
		// For vSphere, driverType in driverConfig and the type of the platform differ in case, so ignore the case.
		if strings.EqualFold(string(member.kind), string(d.Platform)) {
			own = member.kind
		}
	}
	if own == "" {
		return ""
	}
	if config.DriverType != "" && config.DriverType != own {
		return fmt.Sprintf("spec.driverConfig is ignored: its driverType is %s, but driver %s needs driverType %s", config.DriverType, d.Name, own)
	}
	for _, member := range members {
		switch {
		case !member.set:
		case member.kind != own:
			return fmt.Sprintf("spec.driverConfig.%s is ignored: it belongs to driverType %s, but driver %s has driverType %s",
				member.name, member.kind, d.Name, own)
		case config.DriverType == "":
			return fmt.Sprintf("spec.driverConfig.%s is ignored, because spec.driverConfig.driverType is missing: set it to %s", member.name, own)
		}
	}
	return ""
}
