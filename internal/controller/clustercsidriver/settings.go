package clustercsidriver

import (
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// unused says that settings for a cloud are not those of a driver, or lack what makes them count: the API server accepts them, and
// without a word they would be thought to be followed. It is empty if there are none. A driver of no cloud may have any.
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
		// The one type that is written otherwise than its platform is that of vSphere.
		if strings.EqualFold(string(member.kind), string(d.Platform)) {
			own = member.kind
		}
	}
	if own == "" {
		return ""
	}
	if config.DriverType != "" && config.DriverType != own {
		return fmt.Sprintf("spec.driverConfig is not used: its driverType is %s, that of %s is %s", config.DriverType, d.Name, own)
	}
	for _, member := range members {
		switch {
		case !member.set:
		case member.kind != own:
			return fmt.Sprintf("spec.driverConfig.%s is not used: %s has settings of type %s only", member.name, d.Name, own)
		case config.DriverType == "":
			return fmt.Sprintf("spec.driverConfig.%s is not used: that takes driverType: %s", member.name, own)
		}
	}
	return ""
}
