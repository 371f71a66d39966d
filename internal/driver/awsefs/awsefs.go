// Package awsefs describes the AWS EFS CSI driver, efs.csi.aws.com.
package awsefs

import (
	"embed"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Name is the CSI name of the driver and the name of its ClusterCSIDriver.
const Name = "efs.csi.aws.com"

// Operator is the name of the program that manages the driver.
const Operator = "aws-efs-csi-driver-operator"

// driverContainer runs the driver itself in both pods.
const driverContainer = "csi-driver"

// The Secrets with the credentials of the two pods.
const (
	controllerSecret = "aws-efs-cloud-credentials"
	nodeSecret       = "node-aws-efs-cloud-credentials"
)

// The variables of the operator's environment with the IAM roles of the two pods.
const (
	controllerRole = "ROLEARN"
	nodeRole       = "NODE_ROLEARN"
)

//go:embed assets
var assets embed.FS

// Driver returns the AWS EFS CSI driver. The DaemonSet has the name that the community's operator gave it, so that our operator can adopt it in
// place. All other names come from OpenShift's operator.
func Driver() driver.Driver {
	return driver.Driver{
		Name:            Name,
		Operator:        Operator,
		Prefix:          "aws-efs-csi-driver",
		ShortPrefix:     "efs",
		ConditionPrefix: "AWSEFS",
		Platform:        configv1.AWSPlatformType,
		DaemonSet:       "efs-csi-node",
		DaemonSets:      []string{nodeHealth},
		Deployment:      "aws-efs-csi-driver-controller",
		StorageClass:    "efs-sc",
		Removable:       true,
		// Each mount with TLS needs a process: efs-proxy or stunnel (efs-utils 2.4, src/proxy, and mount_efs/__init__.py bootstrap_proxy).
		MountsInPods: true,
		// The controller runs as root. If setting deleteRootDir is "true", the controller mounts file systems to delete directories.
		PrivilegedController: true,
		LegacyFinalizers: []string{
			Operator + ".operator.openshift.io/AWSEFSDriverControllerServiceController",
			Operator + ".operator.openshift.io/AWSEFSDriverNodeServiceController",
			Operator + ".operator.openshift.io/CSIStaticResourceController",
		},
		Assets: assets,
		// These metrics count the controller's calls to AWS. The driver serves them at /metrics (v3.4.0, pkg/driver/options.go:74, and pkg/metrics). The
		// versions 1.7.7, 2.1.15, 2.3.1, 3.0.0, 3.0.1, 3.1.0, 3.2.0 and 3.3.0 lack the flag for the address.
		Metrics: map[driver.Workload]driver.Metrics{driver.Controller: {Name: "driver", Loopback: 8213, Port: 9213, Since: "3.4.0"}},
		Sidecars: []driver.Sidecar{
			{
				Name:     "provisioner",
				Workload: driver.Controller,
				// Pods in all zones can reach an access point. With a topology (drivers from 3.0 on), a volume of an Immediate class would wait for a node that
				// has registered a topology. A volume of a class with WaitForFirstConsumer waits for the chosen node in any case (external-provisioner v6.3.0,
				// controller/topology.go).
				Args:    []string{"--immediate-topology=false"},
				Options: provisionerOptions,
				Metrics: &driver.Metrics{Name: "provisioner", Loopback: 8212, Port: 9212},
			},
			{Name: "liveness-probe", Workload: driver.Controller, HealthPort: 10302},
			{Name: "node-driver-registrar", Workload: driver.Node, HealthPort: 10305},
			{Name: "liveness-probe", Workload: driver.Node, HealthPort: 10303},
		},
		Credentials: []driver.Credentials{
			{
				Asset: "controller.yaml", Request: "openshift-aws-efs-csi-driver", Secret: controllerSecret, FileSetting: deleteRootDir,
				Workload: driver.Controller, Condition: "AWSEFSCredentialsRequestController", RoleARNVariable: controllerRole, Keys: secretKeys(),
			},
			{
				Asset: "node.yaml", Request: "openshift-aws-efs-csi-driver-node", Secret: nodeSecret, FileSetting: nodeIAMMounts,
				Workload: driver.Node, Condition: "AWSEFSNodeCredentialsRequestController", RoleARNVariable: nodeRole, Optional: true, Keys: secretKeys(),
			},
		},
		Settings:     settings(),
		Mutations:    mutations(),
		Predecessors: predecessors(),
		// The driver defines this key (kubernetes-sigs/aws-efs-csi-driver v3.4.1, pkg/driver/driver.go AgentNotReadyNodeTaintKey).
		StartupTaint: "efs.csi.aws.com/agent-not-ready",
		Accepts:      accepts(),
		Changes:      changes(),
		Installers:   installers(),
		Zones:        zones(),
		Check:        check,
		Wanted:       wanted,
		// Deployments from before this image lack the variable.
		OptionalImages: map[string]string{"NODE_HEALTH_IMAGE": WatchMounts},
		LegacyConditions: []string{
			"AWSEFSDriverCredentialsRequestControllerAvailable", "AWSEFSDriverCredentialsRequestControllerProgressing",
			"AWSEFSDriverCredentialsRequestControllerDegraded", "AWSEFSDriverServiceMonitorControllerDegraded",
			"CSIStaticResourceControllerDegraded", "AWSEFSDriverCSIConfigObserverControllerDegraded",
		},
	}
}

// zones returns the DNS domains of mount targets: in most regions, in China, in the European Sovereign Cloud, and in isolated regions (aws-sdk-go-v2
// v1.47.7 internal/endpoints/awsrulesfn/partitions.json; aws/efs-utils v3.2.0 dist/efs-utils.conf, dns_name_suffix).
func zones() []string {
	return []string{"amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "c2s.ic.gov", "sc2s.sgov.gov", "cloud.adc-e.uk", "csp.hci.ic.gov"}
}

// secretKeys returns the keys from which the AWS SDK can get credentials: a configuration file, or an access key.
func secretKeys() [][]string {
	return [][]string{{driver.CredentialsFile}, {"aws_access_key_id", "aws_secret_access_key"}}
}
