package azurefile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
)

// accepts returns the values that the driver accepts. These values come from the driver's source, kubernetes-sigs/azurefile-csi-driver 7b5ae18e7.
func accepts() accept.Table {
	const create = "pkg/azurefile/controllerserver.go CreateVolume"
	table := append(azure.AcceptTags(azure.Tags{Source: "pkg/azurefile/utils.go ConvertTagsToMap"}),
		accept.Row{Of: accept.Tag, Name: accept.Key, Except: `^(?i:storageClassName)$`,
			Why: "the StorageClass of the driver already has a tag with this key", Source: "assets/storageclass.yaml"},
		accept.Row{Of: accept.Expansion, Source: "pkg/azurefile/controllerserver.go ControllerExpandVolume"},
	)
	table = append(table, accept.VolumeModes("pkg/azurefile/azurefile.go isValidVolumeCapabilities", corev1.PersistentVolumeFilesystem)...)
	// The driver ignores the case of names.
	return append(table, accept.Named(accept.Parameter, create, "skuName", "storageAccountType", "location", "storageAccount", "subscriptionID",
		"resourceGroup", "shareName", "diskName", "fsType", "storeAccountKey", "selectRandomMatchingAccount", "secretName", "secretNamespace", "protocol",
		"matchTags", "tags", "createAccount", "useSecretCache", "enableLargeFileShares", "useDataPlaneAPI", "disableDeleteRetentionPolicy",
		"storageEndpointSuffix", "networkEndpointType", "privateDNSZoneResourceGroup", "accessTier", "shareAccessTier", "accountAccessTier",
		"rootSquashType", "allowBlobPublicAccess", "publicNetworkAccess", "allowSharedKeyAccess", "allowCrossTenantReplication", "server", "folderName",
		"clientID", "tenantID", "confidentialContainerLabel", "runtimeClassHandler", "createFolderIfNotExist", "fsGroupChangePolicy", "mountPermissions",
		"vnetResourceGroup", "vnetName", "vnetLinkName", "subnetName", "shareNamePrefix", "requireInfraEncryption", "enableMultichannel",
		"getLatestAccountKey", "accountQuota", "tagValueDelimiter", "encryptInTransit", "provisionedBandwidth", "provisionedIops",
		"mountWithManagedIdentity", "mountWithWorkloadIdentityToken", "mountWithOAuthToken")...)
}
