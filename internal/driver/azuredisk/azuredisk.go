// Package azuredisk describes the Azure Disk CSI driver, disk.csi.azure.com.
package azuredisk

import (
	"embed"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

//go:embed assets
var assets embed.FS

const credentials = "azure-disk-credentials"

// Driver returns the Azure Disk CSI driver. Names, ports and limits come from openshift/csi-operator f7f9dc59, pkg/driver/azure-disk/azure_disk.go.
func Driver() driver.Driver {
	return driver.Driver{
		Name: "disk.csi.azure.com", Operator: "azure-disk-csi-driver-operator", Platform: configv1.AzurePlatformType,
		Prefix: "azure-disk-csi-driver", ShortPrefix: "azure-disk", ConditionPrefix: "AzureDisk",
		DaemonSet: "azure-disk-csi-driver-node", Deployment: "azure-disk-csi-driver-controller",
		Payload: &driver.Payload{Title: "Azure Disk", Variable: "AZURE_DISK_DRIVER"},
		Assets:  assets,
		Metrics: map[driver.Workload]driver.Metrics{
			driver.Controller: {Name: "driver", Loopback: 8201, Port: 9201, Flag: "--metrics-address"},
			driver.Node:       {Name: "driver", Loopback: 8206, Port: 9206, Flag: "--metrics-address"},
		},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{
			Ports: driver.BlockPorts{Controller: 10301, Node: 10300, Registrar: 10304, Metrics: 8202},
			Provisioner: []string{
				"--strict-topology=true", "--timeout=30s", "--worker-threads=100", "--kube-api-qps=50", "--kube-api-burst=100",
			},
			// Azure needs many minutes to attach a disk to a node with many disks.
			Attacher:    []string{"--timeout=1200s", "--worker-threads=1000", "--kube-api-qps=200", "--kube-api-burst=400"},
			Resizer:     []string{"--timeout=240s", "--handle-volume-inuse-error=false"},
			Snapshotter: []string{"--timeout=600s"},
		}),
		Credentials: azure.Credentials("azure-disk-csi-driver-operator", credentials, "AzureDiskCloudCredentials"),
		Derived:     azure.CloudConfig("azure-disk-csi-driver-cloud-config", credentials),
		// The driver defines this key (kubernetes-sigs/azuredisk-csi-driver v1.33.2, pkg/azureconstants/azure_constants.go
		// AgentNotReadyNodeTaintKeySuffix).
		StartupTaint: "disk.csi.azure.com/agent-not-ready",
		Accepts:      accepts(),
		Mutations: []driver.Mutation{
			driver.MutatePods(azure.FindEndpoints), driver.Mutate(configureClass), driver.Mutate(configureSnapshots),
		},
		Obsolete:         driver.Obsolete{ConfigMaps: []string{azure.PredecessorCloudConfig}},
		LegacyConditions: append(driver.PredecessorConditions("AzureDisk"), azure.PredecessorCondition),
	}
}

// configureClass sets the tags of the cluster, and the encryption set of the ClusterCSIDriver.
func configureClass(cfg driver.Config, class *storagev1.StorageClass) error {
	class.Parameters = azure.AddTags(cfg, class.Parameters)
	config := cfg.Spec.DriverConfig
	if config.DriverType != operatorv1.AzureDriverType || config.Azure == nil || config.Azure.DiskEncryptionSet == nil {
		return nil
	}
	set := config.Azure.DiskEncryptionSet
	class.Parameters["diskEncryptionSetID"] = fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/diskEncryptionSets/%s",
		set.SubscriptionID, set.ResourceGroup, set.Name)
	return nil
}

// configureSnapshots sets the tags of the cluster. Azure Stack Hub only supports full snapshots.
func configureSnapshots(cfg driver.Config, class *snapshotv1.VolumeSnapshotClass) error {
	class.Parameters = azure.AddTags(cfg, class.Parameters)
	if azure.OnStackHub(cfg.Platform) {
		class.Parameters["incremental"] = "false"
	}
	return nil
}
