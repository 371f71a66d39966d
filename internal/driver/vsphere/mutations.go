package vsphere

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

const (
	// className is the driver's StorageClass. policyParameter is the parameter with its storage policy.
	className, policyParameter = "thin-csi", "StoragePolicyName"
	// features is the ConfigMap with the programs' feature switches.
	features = "internal-feature-states.csi.vsphere.vmware.com"
	// topologyAnnotation on node pods has the categories of the topology. A change restarts the pods, because the kubelet reads the topology only when
	// the driver registers.
	topologyAnnotation = "operator.openshift.io/topology-categories"
)

// driverConfig is vSphere's part of a ClusterCSIDriver.
type driverConfig = operatorv1.VSphereCSIDriverConfigSpec

// configOf returns vSphere's part of a ClusterCSIDriver. It returns an empty part if the ClusterCSIDriver configures another cloud.
func configOf(spec operatorv1.CSIDriverConfigSpec) driverConfig {
	if spec.DriverType != operatorv1.VSphereDriverType || spec.VSphere == nil {
		return driverConfig{}
	}
	return *spec.VSphere
}

// provision configures the topology of the provisioner. It also removes --extra-create-metadata, because the driver rejects the parameters that this
// flag adds (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service/common/util.go ParseStorageClassParams).
func provision(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	provisioner, err := pods.Container("csi-provisioner")
	if err != nil {
		return err
	}
	hasTopology := len(categories(cfg.VSphere, configOf(cfg.Spec.DriverConfig))) > 0
	provisioner.Args = slices.DeleteFunc(provisioner.Args, func(argument string) bool { return strings.HasPrefix(argument, "--extra-create-metadata") })
	for i, argument := range provisioner.Args {
		if strings.HasPrefix(argument, "--feature-gates=") {
			provisioner.Args[i] += ",Topology=" + strconv.FormatBool(hasTopology)
		}
	}
	if hasTopology {
		provisioner.Args = append(provisioner.Args, "--strict-topology")
	}
	return nil
}

func limitVolumes(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Node {
		return nil
	}
	container, err := pods.Container(driver.Container)
	if err != nil {
		return err
	}
	volumes, _ := maximum(cfg)
	container.Env = append(container.Env, corev1.EnvVar{Name: "MAX_VOLUMES_PER_NODE", Value: strconv.Itoa(int(volumes))})
	return nil
}

// restartNodes makes the node pods register again when the categories of the topology change.
func restartNodes(cfg driver.Config, pods driver.Pods) error {
	if all := categories(cfg.VSphere, configOf(cfg.Spec.DriverConfig)); pods.Workload == driver.Node && len(all) > 0 {
		metav1.SetMetaDataAnnotation(pods.Meta, topologyAnnotation, strings.Join(all, ","))
	}
	return nil
}

// setLogLevel sets the log level of the programs. These programs have only two levels (kubernetes-sigs/vsphere-csi-driver bf8090256,
// pkg/csi/service/logger/logger.go).
func setLogLevel(cfg driver.Config, pods driver.Pods) error {
	if driver.LogVerbosity(cfg.Spec.LogLevel) < driver.LogVerbosity(operatorv1.Debug) {
		return nil
	}
	for i := range pods.Spec.Containers {
		container := &pods.Spec.Containers[i]
		if slices.Contains([]string{driver.Container, syncer, "vsphere-webhook"}, container.Name) {
			container.Env = append(container.Env, corev1.EnvVar{Name: "LOGGER_LEVEL", Value: "DEVELOPMENT"})
		}
	}
	return nil
}

// setFeatures sets the features that depend on the cluster.
func setFeatures(cfg driver.Config, config *corev1.ConfigMap) error {
	if config.Name != features {
		return nil
	}
	volumes, _ := maximum(cfg)
	several := cfg.VSphere != nil && len(cfg.VSphere.VCenters) > 1
	for name, on := range map[string]bool{
		"improved-volume-topology": len(categories(cfg.VSphere, configOf(cfg.Spec.DriverConfig))) > 0,
		"csi-migration":            !several,
		// Newer drivers ignore MAX_VOLUMES_PER_NODE, and allow 59 or 255 volumes (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service/node.go
		// NodeGetInfo).
		"high-pv-node-density": volumes >= 255,
	} {
		config.Data[name] = strconv.FormatBool(on)
	}
	return nil
}

func setPolicy(cfg driver.Config, class *storagev1.StorageClass) error {
	class.Parameters = map[string]string{policyParameter: policyOf(cfg)}
	return nil
}

// policyOf returns the storage policy in the vCenters. While this policy is unknown, policyOf returns the policy of the existing StorageClass, which
// then stays unchanged.
func policyOf(cfg driver.Config) string {
	if cfg.Cloud.StoragePolicy != "" {
		return cfg.Cloud.StoragePolicy
	}
	for _, class := range cfg.Classes {
		if class.Kind == "StorageClass" && class.Name == className && class.Provisioner == driverName {
			return class.Parameters[policyParameter]
		}
	}
	return ""
}

// check reports settings without effect.
func check(cfg driver.Config) []string {
	var problems []string
	if volumes, tooMany := maximum(cfg); tooMany {
		problems = append(problems, fmt.Sprintf("spec.driverConfig.vSphere.maxAllowedBlockVolumesPerNode is %d, but not every ESXi host of the nodes "+
			"is of version 8 or newer, so a node can have at most %d volumes: upgrade the hosts, or lower the number",
			configOf(cfg.Spec.DriverConfig).MaxAllowedBlockVolumesPerNode, volumes))
	}
	return problems
}
