// Package awsebs describes the AWS EBS CSI driver, ebs.csi.aws.com.
package awsebs

import (
	"embed"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

//go:embed assets
var assets embed.FS

// Driver returns the AWS EBS CSI driver.
func Driver() driver.Driver {
	// All clients share the capacity of the API server, so each sidecar gets a limit. The driver batches the requests for 100 volumes into one call to
	// AWS.
	limits := []string{"--timeout=60s", "--kube-api-qps=20", "--kube-api-burst=100"}
	return driver.Driver{
		Name: "ebs.csi.aws.com", Operator: "aws-ebs-csi-driver-operator", Platform: configv1.AWSPlatformType,
		Prefix: "aws-ebs-csi-driver", ShortPrefix: "ebs", ConditionPrefix: "AWSEBS",
		DaemonSet: "aws-ebs-csi-driver-node", Deployment: "aws-ebs-csi-driver-controller", CloudCAVariable: "AWS_CA_BUNDLE",
		Payload: &driver.Payload{Title: "AWS EBS", Variable: "AWS_EBS_DRIVER"},
		Assets:  assets,
		Metrics: map[driver.Workload]driver.Metrics{
			driver.Controller: {Name: "driver", Loopback: 8201, Port: 9201}, driver.Node: {Name: "driver", Loopback: 8206, Port: 9206},
		},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10301, Node: 10300, Registrar: 10309, Metrics: 8202},
			Provisioner: append(slices.Clone(limits), "--worker-threads=100"),
			Attacher:    append(slices.Clone(limits), "--worker-threads=100"),
			Resizer:     append(slices.Clone(limits), "--workers=100"),
			Snapshotter: append(slices.Clone(limits), "--worker-threads=100", "--extra-create-metadata"),
		}),
		Credentials: []driver.Credentials{{
			Asset: "controller.yaml", Request: "aws-ebs-csi-driver-operator", Secret: "ebs-cloud-credentials", Workload: driver.Controller,
			Condition: "AWSEBSCloudCredentials", Payload: true, Keys: [][]string{{"credentials"}, {"aws_access_key_id", "aws_secret_access_key"}},
		}},
		// The driver defines this key (kubernetes-sigs/aws-ebs-csi-driver v1.47.0, pkg/driver/driver.go AgentNotReadyNodeTaintKey).
		StartupTaint: "ebs.csi.aws.com/agent-not-ready",
		Accepts:      accepts(),
		FeatureGates: []driver.FeatureGate{driver.AllocatableGate()},
		// Network interfaces that are attached later reduce the limit of volumes, so the kubelet asks again after 600 seconds. OpenShift uses the same
		// period (csi-operator f7f9dc59, aws_ebs.go).
		Mutations: append(driver.RefreshAllocatable(600), driver.MutatePods(addTags), driver.MutatePods(addRegion), driver.Mutate(encrypt),
			// The plugin also watches its Node for ten minutes, to remove a taint that OpenShift does not use (kubernetes-sigs/aws-ebs-csi-driver v1.47.0,
			// pkg/driver/node.go, startNotReadyTaintWatcher).
			driver.ReadNodes("get", "list", "watch")),
		LegacyConditions: driver.PredecessorConditions("AWSEBS"),
		Predecessors: []driver.Predecessor{{
			Title: "the operator that OLM installed in OpenShift 4.5", Operator: "aws-ebs-csi-driver-operator", Package: "aws-ebs-csi-driver-operator",
			DaemonSet: "aws-ebs-csi-driver-node", Namespace: "openshift-aws-ebs-csi-driver",
		}},
	}
}
