package azurefile

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"government": onAzure(func(azure *configv1.AzurePlatformStatus) { azure.CloudName = configv1.AzureUSGovernmentCloud }),
		"china":      onAzure(func(azure *configv1.AzurePlatformStatus) { azure.CloudName = configv1.AzureChinaCloud }),
		"fips":       func(cfg *driver.Config) { cfg.FIPS = true },
		"tags": onAzure(func(azure *configv1.AzurePlatformStatus) {
			azure.ResourceTags = []configv1.AzureResourceTag{{Key: "owners", Value: "a,b"}, {Key: "cost", Value: "42"}}
		}),
	})
}

// The driver attaches no volumes, so the pods need no attacher.
func TestThereIsNoAttacher(t *testing.T) {
	want := "DRIVER KUBE_RBAC_PROXY LIVENESS_PROBE NODE_DRIVER_REGISTRAR PROVISIONER RESIZER SNAPSHOTTER"
	if got := strings.ReplaceAll(strings.Join(slices.Sorted(slices.Values(Driver().Images())), " "), "_IMAGE", ""); got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}

func TestAStackHubHasNoAzureFile(t *testing.T) {
	for cloud, want := range map[configv1.AzureCloudEnvironment]string{
		"": "", configv1.AzurePublicCloud: "", configv1.AzureStackCloud: "Azure Stack Hub has no Azure File",
	} {
		status := configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Azure: &configv1.AzurePlatformStatus{CloudName: cloud}}}
		if got := Driver().Payload.Unfit(status); got != want {
			t.Errorf("%s: %q, want %q", cloud, got, want)
		}
	}
	if got := Driver().Payload.Unfit(configv1.InfrastructureStatus{}); got != "" {
		t.Errorf("without a platform: %q", got)
	}
}

func TestWhereTheDriverKeepsKeysOfStorageAccounts(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		namespace  string
		keeps      bool
	}{
		"nothing is said":    {nil, "", true},
		"one namespace":      {map[string]string{"secretNamespace": "keys"}, "keys", true},
		"nowhere":            {map[string]string{"StoreAccountKey": "False"}, "", false},
		"somewhere":          {map[string]string{"storeAccountKey": "true"}, "", true},
		"NFS":                {map[string]string{"protocol": "nfs"}, "", false},
		"NFS, the older way": {map[string]string{"fsType": "NFS"}, "", false},
		"an identity":        {map[string]string{"mountWithWorkloadIdentityToken": "true"}, "", false},
		"a Secret is given":  {map[string]string{"csi.storage.k8s.io/provisioner-secret-name": "mine"}, "", false},
		"the driver's own":   {variants.Render(t, Driver(), nil)[classAt(t)].(*storagev1.StorageClass).Parameters, "", false},
	} {
		if namespace, keeps := Driver().KeptSecrets.Namespace(tc.parameters); namespace != tc.namespace || keeps != tc.keeps {
			t.Errorf("%s: %q, %t", name, namespace, keeps)
		}
	}
}

// classAt returns the index of the StorageClass in the objects.
func classAt(t *testing.T) int {
	t.Helper()
	return slices.IndexFunc(variants.Render(t, Driver(), nil), func(object client.Object) bool {
		_, isClass := object.(*storagev1.StorageClass)
		return isClass
	})
}

// Names and values of parameters are case-insensitive, as in the driver.
func TestPrivateEndpointsNeedRights(t *testing.T) {
	for text, want := range map[string]bool{"networkEndpointType privateEndpoint": true, "NETWORKENDPOINTTYPE PrivateEndpoint": true, "networkEndpointType ": false, "protocol nfs": false} {
		name, value, _ := strings.Cut(text, " ")
		if got := Driver().LongWait(map[string]string{name: value}); (got != "") != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestTagsAreReadAsTheDriverReadsThem(t *testing.T) {
	variants.CompareParser(t, accepts().List(accept.Tag), "parsed-tags.json")
}
