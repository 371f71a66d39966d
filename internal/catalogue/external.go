package catalogue

import (
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cloudConfig is the ConfigMap with the configuration of the cloud, in openshift-config and as a copy in Namespace.
const cloudConfig = "cloud-provider-config"

// Where the cluster's configuration is.
const (
	configNamespace = "openshift-config"
	// cloudNamespace is that of the cloud-controller-manager. A cluster may lack it.
	cloudNamespace = "openshift-cloud-controller-manager"
)

// configReader lets an operator follow the cluster's configuration. None of them selects objects by name, so that no rule can.
func configReader(further ...rbacv1.PolicyRule) Binding {
	return Binding{Namespace: configNamespace, Role: "config-role", Rules: append([]rbacv1.PolicyRule{
		core("get list watch", "configmaps"),
	}, further...)}
}

// secretWatcher is what an operator needs that makes a ResourceSyncController, whatever it copies: that starts an informer for all Secrets
// of each namespace which the operator follows, and the operator waits for all informers without an end (library-go at csi-operator
// f7f9dc59, operator/resourcesynccontroller/resourcesync_controller.go:87; csi-operator f7f9dc59, pkg/clients/clients.go:138).
func secretWatcher() rbacv1.PolicyRule { return core("list watch", "secrets") }

// core is a rule about the oldest API group; verbs are separated by spaces.
func core(verbs string, resources ...string) rbacv1.PolicyRule { return rule("", verbs, resources...) }

func rule(group, verbs string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(verbs)}
}

func ibmVPCBlock() Entry {
	return Entry{
		Name: "vpc.block.csi.ibm.io", Title: "IBM VPC Block", Condition: "IBMVPCBlock", Platform: configv1.IBMCloudPlatformType,
		Unfit:    notOnManagedIBMCloud,
		Operator: "ibm-vpc-block-csi-driver-operator", Image: "IBM_VPC_BLOCK_DRIVER_OPERATOR_IMAGE",
		Images: images("IBM_VPC_BLOCK_DRIVER_IMAGE", allSidecars()),
		// It copies ConfigMap cloud-conf, and follows all Secrets beside it (ibm-vpc-block-csi-driver-operator e6d299f, pkg/util/const.go:18,
		// pkg/controller/secret/secretsync.go:87). Its caches have ten minutes, or it ends.
		Bindings: own(Binding{Namespace: cloudNamespace, Role: "cloud-role", Rules: []rbacv1.PolicyRule{
			core("get list watch", "configmaps"), secretWatcher(),
		}}), Secrets: secret("ibm-cloud-credentials"),
		Workloads: workloads(Namespace, "ibm-vpc-block-csi-controller", "ibm-vpc-block-csi-node"),
		External:  External{Made: madeByIBMVPCBlock(), Cloud: true},
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
		Workloads: workloads(Namespace, "ibm-powervs-block-csi-driver-controller", "ibm-powervs-block-csi-driver-node"),
		External:  External{Made: madeByPowerVSBlock()},
	}
}

func manila() Entry {
	return Entry{
		Name: "manila.csi.openstack.org", Title: "OpenStack Manila", Condition: "Manila", Platform: configv1.OpenStackPlatformType,
		MayBeDisabled: true,
		Operator:      "manila-csi-driver-operator", Image: "MANILA_DRIVER_OPERATOR_IMAGE",
		Images: with(images("MANILA_DRIVER_IMAGE", allSidecars()), "NFS_DRIVER_IMAGE", "MANILA_NFS_DRIVER_IMAGE"),
		Bindings: own(configReader(secretWatcher()), Binding{Namespace: manilaNamespace, Role: "operands-role"}, Binding{
			// The provisioner, resizer and snapshotter read the Secret that the driver's classes name, which is there (csi-operator f7f9dc59,
			// pkg/driver/openstack-manila/openstack_manila.go:292). OpenShift lets them read those of all namespaces.
			Namespace: manilaNamespace, Role: "sidecars-role", Rules: []rbacv1.PolicyRule{core("get", "secrets")},
			Account: Account{manilaNamespace, "manila-csi-driver-controller-sa"},
		}),
		Secrets: []Secret{{Namespace, "manila-cloud-credentials"}, {manilaNamespace, "manila-cloud-credentials"}},
		Workloads: []Workload{
			{deployment, manilaNamespace, "openstack-manila-csi-controllerplugin"},
			{daemonSet, manilaNamespace, "openstack-manila-csi-nodeplugin"},
			{daemonSet, manilaNamespace, "csi-nodeplugin-nfsplugin"},
		},
		CloudConfig: true,
		External: External{
			Made: madeByManila(), Cloud: true, Assets: "manila",
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
		Workloads:   workloads(Namespace, "openstack-cinder-csi-driver-controller", "openstack-cinder-csi-driver-node"),
		CloudConfig: true,
		External: External{
			Made: madeByCinder(), Cloud: true,
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
		Bindings: own(configReader()), Secrets: secret("vmware-vsphere-cloud-credentials"),
		Workloads: []Workload{
			{deployment, Namespace, "vmware-vsphere-csi-driver-controller"},
			{deployment, Namespace, "vmware-vsphere-csi-driver-webhook"},
			{daemonSet, Namespace, "vmware-vsphere-csi-driver-node"},
		},
		External: External{
			Made: madeByVSphere(), Cloud: true, Assets: "vsphere", Port: 8445, WithoutTmp: true,
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
