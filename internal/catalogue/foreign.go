package catalogue

import (
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cloudConfig is the ConfigMap with the configuration of the cloud, in openshift-config and as a copy in Namespace.
const cloudConfig = "cloud-provider-config"

// Roles of operators in the namespaces of the cluster's configuration.
func configReader() Binding { return Binding{Namespace: "openshift-config", Role: "config-role"} }
func managedReader() Binding {
	return Binding{Namespace: "openshift-config-managed", Role: "config-managed-role"}
}

func azureDisk() Entry {
	return Entry{
		Name: "disk.csi.azure.com", Title: "Azure Disk", Condition: "AzureDisk", Platform: configv1.AzurePlatformType,
		Operator: "azure-disk-csi-driver-operator", Image: "AZURE_DISK_DRIVER_OPERATOR_IMAGE",
		Images:   azureImages("AZURE_DISK_DRIVER_IMAGE"),
		Bindings: own(configReader(), managedReader()), Secrets: secret("azure-disk-credentials"),
		Workloads: workloads("azure-disk-csi-driver-controller", "azure-disk-csi-driver-node"),
		Foreign:   Foreign{Prefix: "azure-disk-csi-driver", ShortPrefix: "azure-disk"},
	}
}

func azureFile() Entry {
	return Entry{
		Name: "file.csi.azure.com", Title: "Azure File", Condition: "AzureFile", Platform: configv1.AzurePlatformType,
		Unfit:    notOnStackHub,
		Operator: "azure-file-csi-driver-operator", Image: "AZURE_FILE_DRIVER_OPERATOR_IMAGE",
		Images:   azureImages("AZURE_FILE_DRIVER_IMAGE"),
		Bindings: own(configReader(), managedReader()), Secrets: secret("azure-file-credentials"),
		Workloads: workloads("azure-file-csi-driver-controller", "azure-file-csi-driver-node"),
		Foreign:   Foreign{Prefix: "azure-file-csi-driver", ShortPrefix: "azure-file"},
	}
}

// azureImages have one with a program that writes the credentials into the configuration of the cloud.
func azureImages(driver string) map[string]string {
	return images(driver, append(allSidecars(), "CLUSTER_CLOUD_CONTROLLER_MANAGER_OPERATOR_IMAGE"))
}

// notOnStackHub says why a cluster on Azure Stack Hub does not get the driver of Azure File.
func notOnStackHub(infrastructure configv1.InfrastructureStatus) string {
	platform := infrastructure.PlatformStatus
	if platform == nil || platform.Azure == nil || platform.Azure.CloudName != configv1.AzureStackCloud {
		return ""
	}
	return "Azure Stack Hub has no Azure File"
}

func ibmVPCBlock() Entry {
	return Entry{
		Name: "vpc.block.csi.ibm.io", Title: "IBM VPC Block", Condition: "IBMVPCBlock", Platform: configv1.IBMCloudPlatformType,
		Unfit:    notOnManagedIBMCloud,
		Operator: "ibm-vpc-block-csi-driver-operator", Image: "IBM_VPC_BLOCK_DRIVER_OPERATOR_IMAGE",
		Images:   images("IBM_VPC_BLOCK_DRIVER_IMAGE", allSidecars()),
		Bindings: own(managedReader()), Secrets: secret("ibm-cloud-credentials"),
		Workloads: workloads("ibm-vpc-block-csi-controller", "ibm-vpc-block-csi-node"),
		Foreign:   Foreign{Prefix: "ibm-vpc-block-csi", ShortPrefix: "ibm-vpc-block", Cloud: true},
	}
}

// notOnManagedIBMCloud says why a cluster whose control plane IBM runs does not get the driver.
func notOnManagedIBMCloud(infrastructure configv1.InfrastructureStatus) string {
	if infrastructure.ControlPlaneTopology != configv1.ExternalTopologyMode {
		return ""
	}
	return "IBM Cloud installs the driver itself where it runs the control plane"
}

func powerVSBlock() Entry {
	return Entry{
		Name: "powervs.csi.ibm.com", Title: "IBM PowerVS Block", Condition: "PowerVSBlock", Platform: configv1.PowerVSPlatformType,
		Operator: "powervs-block-csi-driver-operator", Image: "POWERVS_BLOCK_CSI_DRIVER_OPERATOR_IMAGE",
		Images:   images("POWERVS_BLOCK_CSI_DRIVER_IMAGE", allSidecars()),
		Bindings: own(), Secrets: secret("ibm-powervs-cloud-credentials"),
		Workloads: workloads("ibm-powervs-block-csi-driver-controller", "ibm-powervs-block-csi-driver-node"),
		Foreign:   Foreign{Prefix: "ibm-powervs-block-csi-driver", ShortPrefix: "ibm-powervs-block"},
	}
}

func manila() Entry {
	return Entry{
		Name: "manila.csi.openstack.org", Title: "OpenStack Manila", Condition: "Manila", Platform: configv1.OpenStackPlatformType,
		MayBeDisabled: true,
		Operator:      "manila-csi-driver-operator", Image: "MANILA_DRIVER_OPERATOR_IMAGE",
		Images:   with(images("MANILA_DRIVER_IMAGE", allSidecars()), "NFS_DRIVER_IMAGE", "MANILA_NFS_DRIVER_IMAGE"),
		Bindings: own(configReader(), Binding{Namespace: manilaNamespace, Role: "operands-role"}),
		Secrets:  []Secret{{Namespace, "manila-cloud-credentials"}, {manilaNamespace, "manila-cloud-credentials"}},
		Workloads: []Workload{
			{deployment, manilaNamespace, "openstack-manila-csi-controllerplugin"},
			{daemonSet, manilaNamespace, "openstack-manila-csi-nodeplugin"},
			{daemonSet, manilaNamespace, "csi-nodeplugin-nfsplugin"},
		},
		CloudConfig: true,
		Foreign: Foreign{
			Prefix: "openstack-manila-csi", ShortPrefix: "manila", Cloud: true, Assets: "manila",
			Files: []Files{
				openStackCredentials(),
				{Name: "cloud-provider-config", Path: "/etc/openstack-ca", Sources: []corev1.VolumeProjection{openStackCA()}},
			},
		},
		Predecessor: &Predecessor{
			Package: "manila-csi-driver-operator", Deployment: "csi-driver-manila-operator",
			Configuration: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "ManilaDriver"},
			Resource:      "maniladrivers", Namespace: manilaNamespace,
		},
	}
}

func cinder() Entry {
	return Entry{
		Name: "cinder.csi.openstack.org", Title: "OpenStack Cinder", Condition: "OpenStackCinder", Platform: configv1.OpenStackPlatformType,
		Operator: "openstack-cinder-csi-driver-operator", Image: "OPENSTACK_CINDER_DRIVER_OPERATOR_IMAGE",
		Images:   images("OPENSTACK_CINDER_DRIVER_IMAGE", allSidecars()),
		Bindings: own(configReader()), Secrets: secret("openstack-cloud-credentials"),
		Workloads:   workloads("openstack-cinder-csi-driver-controller", "openstack-cinder-csi-driver-node"),
		CloudConfig: true,
		Foreign: Foreign{
			Prefix: "openstack-cinder-csi-driver", ShortPrefix: "openstack-cinder", Cloud: true,
			Files: []Files{openStackCredentials(), {
				Name: "cloud-provider-config", Path: "/etc/kubernetes/static-pod-resources/configmaps/cloud-config",
				Sources: []corev1.VolumeProjection{openStackCA()},
			}},
		},
	}
}

// openStackCredentials are those of Cinder, with which both operators ask OpenStack. The certificate of its CA is among them if the
// cluster was installed with one.
func openStackCredentials() Files {
	reference := corev1.LocalObjectReference{Name: "openstack-cloud-credentials"}
	return Files{Name: "cloud-credentials", Path: "/etc/openstack", Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: reference, Items: []corev1.KeyToPath{{Key: "clouds.yaml", Path: "clouds.yaml"}}}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: reference, Items: []corev1.KeyToPath{{Key: "cacert", Path: "ca.crt"}}, Optional: new(true),
		}},
	}}
}

// openStackCA is the certificate of OpenStack's CA, if it has one of its own.
func openStackCA() corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: cloudConfig},
		Items:                []corev1.KeyToPath{{Key: "ca-bundle.pem", Path: "ca-bundle.pem"}},
		Optional:             new(true),
	}}
}

func vSphere() Entry {
	return Entry{
		Name: "csi.vsphere.vmware.com", Title: "vSphere", Condition: "VSphere", Platform: configv1.VSpherePlatformType,
		MayBeDisabled: true,
		Operator:      "vmware-vsphere-csi-driver-operator", Image: "VMWARE_VSPHERE_DRIVER_OPERATOR_IMAGE",
		Images:   images("VMWARE_VSPHERE_DRIVER_IMAGE", append(allSidecars(), "VMWARE_VSPHERE_SYNCER_IMAGE")),
		Bindings: own(configReader(), managedReader()), Secrets: secret("vmware-vsphere-cloud-credentials"),
		Workloads: []Workload{
			{deployment, Namespace, "vmware-vsphere-csi-driver-controller"},
			{deployment, Namespace, "vmware-vsphere-csi-driver-webhook"},
			{daemonSet, Namespace, "vmware-vsphere-csi-driver-node"},
		},
		Foreign: Foreign{
			Prefix: "vmware-vsphere-csi-driver", ShortPrefix: "vmware-vsphere", Cloud: true, Assets: "vsphere", Port: 8445, WithoutTmp: true,
			Certificate: "vmware-vsphere-csi-driver-operator-metrics-serving-cert",
			Env:         []corev1.EnvVar{{Name: "OPERATOR_NAME", Value: "vmware-vsphere-csi-driver-operator"}},
			Files: []Files{{
				Name: "trusted-ca-bundle", Path: "/etc/pki/ca-trust/extracted/pem",
				Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "vsphere-csi-driver-operator-trusted-ca-bundle"},
					Items:                []corev1.KeyToPath{{Key: "ca-bundle.crt", Path: "tls-ca-bundle.pem"}},
				}}},
			}},
		},
	}
}
