// Package azurefile describes the Azure File CSI driver, file.csi.azure.com.
package azurefile

import (
	"embed"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
)

//go:embed assets
var assets embed.FS

const credentials = "azure-file-credentials"

// Driver returns the Azure File CSI driver. Names, ports and limits come from openshift/csi-operator f7f9dc59, pkg/driver/azure-file/azure_file.go.
func Driver() driver.Driver {
	return driver.Driver{
		Name: "file.csi.azure.com", Operator: "azure-file-csi-driver-operator", Platform: configv1.AzurePlatformType,
		Prefix: "azure-file-csi-driver", ShortPrefix: "azure-file", ConditionPrefix: "AzureFile",
		DaemonSet: "azure-file-csi-driver-node", Deployment: "azure-file-csi-driver-controller",
		Payload: &driver.Payload{Title: "Azure File", Variable: "AZURE_FILE_DRIVER", Unfit: notOnStackHub},
		Assets:  assets,
		Metrics: map[driver.Workload]driver.Metrics{
			driver.Controller: {Name: "driver", Loopback: 8211, Port: 9211, Flag: "--metrics-address"},
			driver.Node:       {Name: "driver", Loopback: 8216, Port: 9216, Flag: "--metrics-address"},
		},
		// Nodes reach shares without attaching them (CSIDriver.spec.attachRequired is false), and from all zones.
		Sidecars: driver.FileSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10303, Node: 10302, Registrar: 10305, Metrics: 8212},
			Provisioner: []string{"--timeout=300s", "--kube-api-qps=50", "--kube-api-burst=100"},
			Resizer:     []string{"--timeout=120s", "--handle-volume-inuse-error=false"},
			Snapshotter: []string{"--timeout=600s"},
		}),
		Disabled: func(cfg driver.Config) string {
			return notOnStackHub(configv1.InfrastructureStatus{PlatformStatus: cfg.Platform})
		},
		Credentials: azure.Credentials("azure-file-csi-driver-operator", credentials, "AzureFileCloudCredentials"),
		Derived:     azure.CloudConfig("azure-file-csi-driver-cloud-config", credentials),
		// The driver itself knows no such taint (kubernetes-sigs/azurefile-csi-driver 7b5ae18e7).
		StartupTaint: "file.csi.azure.com/agent-not-ready",
		Accepts:      accepts(),
		Mutations:    []driver.Mutation{driver.Mutate(addTags)},
		KeptSecrets: &driver.KeptSecrets{Namespace: keysIn, Advice: `Use a StorageClass with storeAccountKey: "false", or bind a Role that may get and ` +
			"create Secrets there to ServiceAccount azure-file-csi-driver-controller-sa: docs/guide/driver-azure-file.md"},
		NamedSecrets: &driver.NamedSecrets{
			Advice: "Bind a Role for exactly these Secrets to its ServiceAccount: docs/guide/driver-azure-file.md#secrets-that-a-storageclass-names",
		},
		LongWait: privateEndpoint,
		// This role of a predecessor allowed the controller to read and write all Secrets of the cluster. Our controller does not need this role.
		Obsolete: driver.Obsolete{
			ClusterRoleBindings: []string{"azure-file-csi-driver-binding", "azure-file-csi-main-attacher-binding"},
			ClusterRoles:        []string{"azure-file-csi-driver-role"},
			ConfigMaps:          []string{azure.PredecessorCloudConfig},
		},
		LegacyConditions: append(driver.PredecessorConditions("AzureFile"), azure.PredecessorCondition),
	}
}

func addTags(cfg driver.Config, class *storagev1.StorageClass) error {
	class.Parameters = azure.AddTags(cfg, class.Parameters)
	return nil
}

// notOnStackHub returns why a cluster on Azure Stack Hub does not get the driver. It returns an empty text for all other clusters.
func notOnStackHub(infrastructure configv1.InfrastructureStatus) string {
	if !azure.OnStackHub(infrastructure.PlatformStatus) {
		return ""
	}
	return "Azure Stack Hub has no Azure File"
}

// privateEndpoint returns the advice to check the permissions that the driver needs to create private endpoints. It returns an empty text if the
// StorageClass asks for no private endpoints. An identity that was made for an older release can lack these permissions. Without them, the driver
// creates a new storage account again and again (azurefile-csi-driver issues 823 and 2512).
func privateEndpoint(parameters map[string]string) string {
	for name, text := range parameters {
		if strings.EqualFold(name, "networkEndpointType") && strings.EqualFold(text, "privateEndpoint") {
			return "With private endpoints, the identity of the driver needs permissions on virtual networks and private DNS zones: compare them with " +
				"CredentialsRequest azure-file-csi-driver-operator, and see docs/guide/driver-azure-file.md"
		}
	}
	return ""
}

// keysIn returns the namespace in which the driver stores the key of a storage account for a StorageClass. Result "keeps" reports whether the driver
// stores a key. The driver stores no key for NFS, with an identity, with storeAccountKey "false", or with a given Secret (azurefile-csi-driver
// 7b5ae18, pkg/azurefile/controllerserver.go:165, :356, :457, :817). The driver ignores the case of parameter names.
func keysIn(parameters map[string]string) (namespace string, keeps bool) {
	value := map[string]string{}
	for name, text := range parameters {
		value[strings.ToLower(name)] = text
	}
	without := strings.EqualFold(value["storeaccountkey"], "false")
	for _, identity := range []string{"mountwithmanagedidentity", "mountwithworkloadidentitytoken", "mountwithoauthtoken"} {
		without = without || strings.EqualFold(value[identity], "true")
	}
	isNFS := strings.EqualFold(value["protocol"], "nfs") || strings.EqualFold(value["fstype"], "nfs")
	return value["secretnamespace"], !without && !isNFS && value["csi.storage.k8s.io/provisioner-secret-name"] == ""
}
