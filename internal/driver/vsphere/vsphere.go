// Package vsphere describes the vSphere CSI driver, csi.vsphere.vmware.com.
package vsphere

import (
	"cmp"
	"embed"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

//go:embed assets
var assets embed.FS

const (
	driverName = "csi.vsphere.vmware.com"
	// prefix is the beginning of the driver's condition types.
	prefix = "VMwareVSphere"
	// credentials is the Secret with user and password of each vCenter.
	credentials = "vmware-vsphere-cloud-credentials"
	// webhook is the name of the Deployment that checks StorageClasses. syncer is the name of the container that runs beside the driver in the
	// controller pods.
	webhook, syncer = "vmware-vsphere-csi-driver-webhook", "vsphere-syncer"
)

// Driver returns the vSphere CSI driver. Names, ports and limits come from openshift/vmware-vsphere-csi-driver-operator 030ff0e3, assets and
// pkg/operator/vspherecontroller/driver_starter.go.
func Driver() driver.Driver {
	return driver.Driver{
		Name: driverName, Operator: "vmware-vsphere-csi-driver-operator", Platform: configv1.VSpherePlatformType,
		Prefix: "vmware-vsphere-csi-driver", ShortPrefix: "vmware-vsphere", ConditionPrefix: prefix,
		DaemonSet: "vmware-vsphere-csi-driver-node", Deployment: "vmware-vsphere-csi-driver-controller",
		Deployments: []string{webhook}, Webhook: "validation.csi.vsphere.vmware.com",
		Payload: &driver.Payload{Title: "vSphere", Variable: "VMWARE_VSPHERE_DRIVER", Condition: "VSphere", Image: "vsphere-csi-driver"},
		Assets:  assets,
		// The driver and the syncer have no flag for these ports (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service/vanilla/controller.go,
		// cmd/syncer/main.go).
		Metrics:        map[driver.Workload]driver.Metrics{driver.Controller: {Name: "driver", Loopback: 2112, Port: 9201, Fixed: true}},
		FurtherMetrics: map[driver.Workload][]driver.Metrics{driver.Controller: {{Name: "syncer", Loopback: 2113, Port: 9206, Fixed: true}}},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10301, Node: 10300, Registrar: 10302, Metrics: 8202},
			Provisioner: []string{"--timeout=300s"},
			Attacher:    []string{"--timeout=300s", "--reconcile-sync=10m"},
			Resizer:     []string{"--timeout=300s"},
			Snapshotter: []string{"--timeout=300s"},
		}),
		// The syncer's Lease has this name (kubernetes-sigs/vsphere-csi-driver 016a65806, cmd/syncer/main.go, lockName).
		FurtherLeases:  []string{"vsphere-syncer"},
		RemovedByState: true,
		Credentials: []driver.Credentials{{
			Asset: "controller.yaml", Request: "openshift-vmware-vsphere-csi-driver-operator", Secret: credentials,
			Condition: "VMwareVSphereCloudCredentials", Payload: true, Keys: [][]string{{}},
		}},
		Derived:  cloudConfig(),
		Cloud:    &driver.Cloud{Secret: credentials, VCenters: true, Config: installersConfig().ObjectKey},
		Disabled: func(cfg driver.Config) string { return cfg.Cloud.Refused },
		// The driver itself knows no such taint (kubernetes-sigs/vsphere-csi-driver bf8090256).
		StartupTaint: "csi.vsphere.vmware.com/agent-not-ready",
		Accepts:      accepts(),
		Check:        check,
		Wanted:       wanted,
		Mutations: []driver.Mutation{
			driver.MutatePods(provision), driver.MutatePods(limitVolumes), driver.MutatePods(restartNodes), driver.MutatePods(setLogLevel),
			driver.Mutate(setFeatures), driver.Mutate(setPolicy),
		},
		// The controller no longer needs privileges or a ConfigMap (openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
		// pkg/operator/vspherecontroller/vspherecontroller.go legacyConfigMapName).
		Obsolete: driver.Obsolete{
			ClusterRoleBindings: []string{"vmware-vsphere-controller-privileged-binding"}, ConfigMaps: []string{"vsphere-csi-config"},
		},
		LegacyConditions: legacyConditions(),
	}
}

// legacyConditions returns obsolete conditions of OpenShift's operator.
func legacyConditions() []string {
	types := append(driver.PredecessorConditions(prefix),
		prefix+"ControllerDegraded", prefix+"ControllerAvailable", prefix+"ControllerDisabled", prefix+"DriverFeatureConfigControllerDegraded",
		prefix+"DriverConditionalStaticResourcesControllerDegraded", "VMWareVSphereDriverServiceMonitorControllerDegraded",
	)
	for _, controller := range []string{"DriverWebhookController", "DriverStorageClassController"} {
		for _, kind := range []string{"Available", "Progressing", "Degraded"} {
			types = append(types, prefix+controller+kind)
		}
	}
	return types
}

// wanted reports whether the cluster gets an object. It returns false for the StorageClass until the storage policy is known. It returns false for
// the objects of the webhook if the cluster signs no certificate for the webhook. Without a certificate, the webhook would reject all StorageClasses.
func wanted(cfg driver.Config, object client.Object) bool {
	switch {
	case object.GetName() == className:
		return policyOf(cfg) != ""
	case cfg.ServingCertificates:
		return true
	}
	_, isConfiguration := object.(*admissionv1.ValidatingWebhookConfiguration)
	return !isConfiguration && !slices.Contains(webhookObjects(), object.GetName())
}

// webhookObjects returns the names of all objects that only the webhook needs.
func webhookObjects() []string {
	return []string{
		webhook, webhook + "-sa", webhook + "-role", webhook + "-svc", webhook + "-pdb", "vsphere-csi-webhook-role-binding", "vsphere-csi-webhook-config",
	}
}

// categories returns the tag categories of the topology. Without a topology, it returns none. The categories of the Infrastructure's failure domains
// take precedence over the categories in the ClusterCSIDriver (openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/utils/topology.go).
func categories(spec *configv1.VSpherePlatformSpec, config driverConfig) []string {
	if spec != nil && len(spec.FailureDomains) > 1 {
		return []string{"openshift-zone", "openshift-region"}
	}
	return config.TopologyCategories
}

// maximum returns the maximum number of volumes of a node. Result "tooMany" is true if the administrator wants more volumes than vSphere allows.
// vSphere 7 allows 59 volumes.
func maximum(cfg driver.Config) (volumes int32, tooMany bool) {
	const always = 59
	wanted := cmp.Or(configOf(cfg.Spec.DriverConfig).MaxAllowedBlockVolumesPerNode, always)
	if wanted > always && cfg.Cloud.Known && !cfg.Cloud.ManyVolumes {
		return always, true
	}
	return wanted, false
}
