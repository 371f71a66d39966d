package clustercsidriver

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestSettingsThatAreNotUsedAreReported(t *testing.T) {
	aws, gcp := &operatorv1.AWSCSIDriverConfigSpec{}, &operatorv1.GCPCSIDriverConfigSpec{}
	for name, one := range map[string]struct {
		platform configv1.PlatformType
		config   operatorv1.CSIDriverConfigSpec
		want     string
	}{
		"none":                       {configv1.AWSPlatformType, operatorv1.CSIDriverConfigSpec{}, ""},
		"its own":                    {configv1.AWSPlatformType, operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: aws}, ""},
		"vSphere is written so":      {configv1.VSpherePlatformType, operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.VSphereDriverType}, ""},
		"a driver of no cloud":       {configv1.NonePlatformType, operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: aws}, ""},
		"a driver that says nothing": {"", operatorv1.CSIDriverConfigSpec{DriverType: "SecretsStore"}, ""},
		"of another cloud": {
			configv1.GCPPlatformType, operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: aws},
			"spec.driverConfig is ignored: its driverType is AWS, but driver d needs driverType GCP",
		},
		"a member of another cloud": {
			configv1.AWSPlatformType, operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: aws, GCP: gcp},
			"spec.driverConfig.gcp is ignored: it belongs to driverType GCP, but driver d has driverType AWS",
		},
		"without a type": {
			configv1.AWSPlatformType, operatorv1.CSIDriverConfigSpec{AWS: aws}, "spec.driverConfig.aws is ignored, because spec.driverConfig.driverType is missing: set it to AWS",
		},
	} {
		if got := unused(driver.Driver{Name: "d", Platform: one.platform}, one.config); got != one.want {
			t.Errorf("%s: %q, want %q", name, got, one.want)
		}
	}
}
