package driver

import (
	configv1 "github.com/openshift/api/config/v1"
)

// HostPort is a port of the nodes that a driver uses, because its pods use the host's network.
type HostPort struct {
	// Platform is where the driver runs. The drivers of a platform share their nodes, those of two platforms never do.
	Platform configv1.PlatformType
	Port     int32
	Driver   string
	Workload Workload
	// Use says what the port is for. Metrics of sidecars have one on loopback, and one in front of it for Prometheus.
	Use string
}

// HostPorts is the registry of all drivers' host ports. Who adds a driver takes ports from 10300 on for health, 8201 and 9201 on for
// metrics, that no other driver of its platform has, and writes them here. A test compares the list with what is rendered.
func HostPorts() []HostPort {
	const (
		efs, ebs, pd = "efs.csi.aws.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io"
		aws, gcp     = configv1.AWSPlatformType, configv1.GCPPlatformType
	)
	return []HostPort{
		{aws, 10300, ebs, Node, "health of the driver"},
		{aws, 10309, ebs, Node, "health of the node-driver-registrar"},

		{aws, 8212, efs, Controller, "metrics of the provisioner, loopback"},
		{aws, 9212, efs, Controller, "metrics of the provisioner"},
		{aws, 10302, efs, Controller, "health of the driver"},
		{aws, 10303, efs, Node, "health of the driver"},
		{aws, 10305, efs, Node, "health of the node-driver-registrar"},

		{gcp, 8202, pd, Controller, "metrics of the provisioner, loopback"},
		{gcp, 9202, pd, Controller, "metrics of the provisioner"},
		{gcp, 8203, pd, Controller, "metrics of the attacher, loopback"},
		{gcp, 9203, pd, Controller, "metrics of the attacher"},
		{gcp, 8204, pd, Controller, "metrics of the resizer, loopback"},
		{gcp, 9204, pd, Controller, "metrics of the resizer"},
		{gcp, 8205, pd, Controller, "metrics of the snapshotter, loopback"},
		{gcp, 9205, pd, Controller, "metrics of the snapshotter"},
		{gcp, 10301, pd, Controller, "health of the driver"},
		{gcp, 10300, pd, Node, "health of the driver"},
		{gcp, 10303, pd, Node, "health of the node-driver-registrar"},
	}
}
