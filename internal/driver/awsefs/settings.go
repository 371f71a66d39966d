package awsefs

import (
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// The variables of the operator's environment that change how the driver runs.
const (
	nodeMemoryLimit    = "NODE_MEMORY_LIMIT"
	deleteRootDir      = "DELETE_ACCESS_POINT_ROOT_DIR"
	nodeIAMMounts      = "NODE_IAM_MOUNTS"
	provisionerWorkers = "PROVISIONER_WORKERS"
	provisionerTimeout = "PROVISIONER_TIMEOUT"
	volumeAttachLimit  = "VOLUME_ATTACH_LIMIT"
	// AWS's own programs read a variable of the same name.
	useFIPSEndpoint = "AWS_USE_FIPS_ENDPOINT"
	iamClusterID    = "IAM_CLUSTER_ID"
)

// AccessPointLimit is the variable with the number of access points that a file system can have. The operator warns before they
// run out.
const AccessPointLimit = "ACCESS_POINT_LIMIT"

// CheckAWS is the variable that keeps the operator from checking AWS, where it has credentials but no way there.
const CheckAWS = "LOOK_AT_AWS"

func settings() []driver.Setting {
	return append([]driver.Setting{
		// No limit unless asked for: the TLS tunnels of all mounts of a node live in one container, and all of them stall
		// when it is killed. The least is what the driver needs without a single mount.
		{Variable: nodeMemoryLimit, Check: driver.Memory("128Mi")},
		// An access point whose root is "/" would empty the whole file system. OpenShift's operator has it on in all its versions
		// (openshift/aws-efs-csi-driver-operator release-4.9, assets/controller.yaml, to openshift/csi-operator f7f9dc59).
		{Variable: deleteRootDir, Default: "false", Check: driver.Boolean, Argument: "delete-access-point-root-dir"},
		// Off, mounts with option iam have the role of the instance, as with all operators before: policies of file systems name that one. And
		// no node may mount what it need not.
		{Variable: nodeIAMMounts, Default: "false", Check: driver.Boolean},
		// The driver and the EFS API lose access points when many are made or deleted at once.
		{Variable: provisionerWorkers, Default: "1", Check: driver.Number(1, 100)},
		{Variable: provisionerTimeout, Default: "5m", Check: driver.Duration(10*time.Second, time.Hour)},
		// Kubernetes counts volumes for each node in 32 bits; no node mounts more than it has ports for tunnels.
		{Variable: volumeAttachLimit, Check: driver.Number(1, 1000)},
		// Empty: where the nodes are in FIPS mode and AWS has the endpoints. A private cluster may have a way to the plain ones only.
		{Variable: useFIPSEndpoint, Check: driver.Boolean},
		// Empty, because access points that were made without the cluster's tag could not be deleted any more.
		{Variable: iamClusterID, Check: driver.Matching(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, "must be the infrastructureName of a cluster")},
		// Empty: as the tag of the image says, or else the newest that is known.
		{Variable: driver.VersionVariable, Check: driver.Matching(`^[0-9]+\.[0-9]+\.[0-9]+$`, "must be a version of the driver, such as 3.4.1")},
		{Variable: CheckAWS, Default: "true", Check: driver.Boolean},
		// The default of AWS since February 2025, which it changes on request.
		{Variable: AccessPointLimit, Default: "10000", Check: driver.Number(1, 1000000)},
	}, driver.RolloutSettings()...)
}
