package azuredisk

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
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

// Azure's public, government and China clouds differ only in the cloud configuration, which is not rendered.
func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
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

func TestTagsAreReadAsTheDriverReadsThem(t *testing.T) {
	variants.CompareParser(t, accepts().At("1.34.0").List(accept.Tag), "parsed-tags-1.34.0.json")
}

// Azure treats keys as case-insensitive, and creates no disk with duplicates. Drivers before 1.34 create none with a dot in a key.
func TestTagsReachTheDriverOrAreRefused(t *testing.T) {
	tag := func(key, value string) configv1.AzureResourceTag {
		return configv1.AzureResourceTag{Key: key, Value: value}
	}
	for name, tc := range map[string]struct {
		version       string
		tags          []configv1.AzureResourceTag
		want, refused string
	}{
		"all characters":      {"", []configv1.AzureResourceTag{tag("a_.-B", "0_.=+-@,;<>?/:")}, "a_.-B=0_.=+-@,;<>?/:", ""},
		"a dot, 1.34":         {"v1.34.0", []configv1.AzureResourceTag{tag("cost.center", "1")}, "cost.center=1", ""},
		"a dot, 1.33":         {"v1.33.2", []configv1.AzureResourceTag{tag("cost.center", "1"), tag("a", "b")}, "a=b", `"cost.center"="1" of the Infrastructure`},
		"case":                {"", []configv1.AzureResourceTag{tag("Owner", "a"), tag("owner", "b")}, "Owner=a", `"owner"="b" of the Infrastructure`},
		"twice":               {"", []configv1.AzureResourceTag{tag("owner", "a"), tag("owner", "b")}, "owner=a", `"owner"="b" of the Infrastructure`},
		"a key of the driver": {"", []configv1.AzureResourceTag{tag("K8s-azure-created-by", "a")}, "", "the driver sets this key itself"},
		"a delimiter":         {"", []configv1.AzureResourceTag{tag("a", "b|c=d")}, "", "splits tags at |"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range variants.Render(t, Driver(), func(cfg *driver.Config) {
				onAzure(func(azure *configv1.AzurePlatformStatus) { azure.ResourceTags = tc.tags })(cfg)
				cfg.Images["DRIVER_IMAGE"] = "registry.example/driver:" + cmp.Or(tc.version, "v1")
				problems := strings.Join(Driver().Problems(*cfg), " ")
				if (tc.refused == "") != (problems == "") || !strings.Contains(problems, tc.refused) {
					t.Errorf("problems %q, want %q", problems, tc.refused)
				}
			}) {
				if class, ok := object.(*storagev1.StorageClass); ok && class.Parameters["tags"] != tc.want {
					t.Errorf("tags %q, want %q", class.Parameters["tags"], tc.want)
				}
			}
		})
	}
}
