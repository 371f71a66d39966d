package azuredisk

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/golden"
)

func onAzure(change func(*configv1.AzurePlatformStatus)) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Platform.Azure = &configv1.AzurePlatformStatus{ResourceGroupName: "dev-x7k2p-rg"}
		change(cfg.Platform.Azure)
	}
}

func cloud(name configv1.AzureCloudEnvironment) func(*driver.Config) {
	return onAzure(func(azure *configv1.AzurePlatformStatus) { azure.CloudName = name })
}

// Public Azure, the government's and China's differ in the configuration of the cloud only, which is not rendered.
func TestRenderMatchesReviewedFiles(t *testing.T) {
	golden.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"government": cloud(configv1.AzureUSGovernmentCloud),
		"china":      cloud(configv1.AzureChinaCloud),
		"stack-hub":  cloud(configv1.AzureStackCloud),
		"fips":       func(cfg *driver.Config) { cfg.FIPS = true },
		"tags": onAzure(func(azure *configv1.AzurePlatformStatus) {
			azure.ResourceTags = []configv1.AzureResourceTag{{Key: "owners", Value: "a,b"}, {Key: "cost", Value: "42"}}
		}),
		"encryption-set": func(cfg *driver.Config) {
			cfg.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
				DriverType: operatorv1.AzureDriverType, Azure: &operatorv1.AzureCSIDriverConfigSpec{DiskEncryptionSet: &operatorv1.AzureDiskEncryptionSet{
					SubscriptionID: "f2007bbf-f802-4a47-9336-cf7c6b89b378", ResourceGroup: "keys", Name: "set",
				}},
			}
		},
	})
}

func TestTheListOfImagesIsComplete(t *testing.T) {
	want := "ATTACHER DRIVER KUBE_RBAC_PROXY LIVENESS_PROBE NODE_DRIVER_REGISTRAR PROVISIONER RESIZER SNAPSHOTTER"
	if got := strings.ReplaceAll(strings.Join(slices.Sorted(slices.Values(Driver().Images())), " "), "_IMAGE", ""); got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}
