// Package awsefs is the AWS EFS CSI driver, efs.csi.aws.com.
package awsefs

import (
	"embed"
	"fmt"
	"io/fs"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Name is the CSI name of the driver and the name of its ClusterCSIDriver.
const Name = "efs.csi.aws.com"

// Operator is the name of the program that manages the driver.
const Operator = "aws-efs-csi-driver-operator"

// driverContainer runs the driver itself in both pods.
const driverContainer = "csi-driver"

//go:embed assets
var assets embed.FS

// Driver returns the AWS EFS CSI driver. The DaemonSet keeps the name that the community operator gave it, so that it
// can be adopted in place; the other names are those of OpenShift's operator.
func Driver() (driver.Driver, error) {
	own, err := fs.Sub(assets, "assets")
	if err != nil {
		return driver.Driver{}, fmt.Errorf("assets of %s: %w", Name, err)
	}
	return driver.Driver{
		Name:            Name,
		Operator:        Operator,
		Prefix:          "aws-efs-csi-driver",
		ShortPrefix:     "efs",
		ConditionPrefix: "AWSEFS",
		DaemonSet:       "efs-csi-node",
		Deployment:      "aws-efs-csi-driver-controller",
		StorageClass:    "efs-sc",
		Removable:       true,
		LegacyFinalizers: []string{
			Operator + ".operator.openshift.io/AWSEFSDriverControllerServiceController",
			Operator + ".operator.openshift.io/AWSEFSDriverNodeServiceController",
			Operator + ".operator.openshift.io/CSIStaticResourceController",
		},
		Assets: own,
		Sidecars: []driver.Sidecar{
			{
				Name:     "provisioner",
				Workload: driver.Controller,
				// One worker: the driver and the EFS API lose access points when many are made or deleted at once.
				Args:    []string{"--timeout=5m", "--worker-threads=1"},
				Metrics: &driver.Metrics{Name: "provisioner", Loopback: 8212, Port: 9212},
			},
			{Name: "liveness-probe", Workload: driver.Controller, HealthPort: 10302},
			{Name: "node-driver-registrar", Workload: driver.Node, HealthPort: 10305},
			{Name: "liveness-probe", Workload: driver.Node, HealthPort: 10303},
		},
		Credentials: []driver.Credentials{
			{
				Asset: "controller.yaml", Request: "openshift-aws-efs-csi-driver", Secret: "aws-efs-cloud-credentials",
				Condition: "AWSEFSCredentialsRequestController", RoleARNVariable: "ROLEARN",
			},
			{
				Asset: "node.yaml", Request: "openshift-aws-efs-csi-driver-node", Secret: "node-aws-efs-cloud-credentials",
				Condition: "AWSEFSNodeCredentialsRequestController", RoleARNVariable: "NODE_ROLEARN", Optional: true,
			},
		},
		Mutations: []driver.Mutation{
			driver.Mutate(tagAccessPoints),
		},
	}, nil
}

// tagAccessPoints marks what the driver creates as owned by this cluster, so that it can be found when the cluster is
// destroyed (seed "Container Storage Interface Driver", Cluster Un-installation).
func tagAccessPoints(cfg driver.Config, deployment *appsv1.Deployment) error {
	if cfg.InfrastructureID == "" {
		return nil
	}
	container, err := findDriver(&deployment.Spec.Template.Spec)
	if err != nil {
		return err
	}
	container.Args = append(container.Args, "--tags=kubernetes.io/cluster/"+cfg.InfrastructureID+":owned")
	return nil
}

func findDriver(pod *corev1.PodSpec) (*corev1.Container, error) {
	for i := range pod.Containers {
		if pod.Containers[i].Name == driverContainer {
			return &pod.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("the pod has no container %s", driverContainer)
}
