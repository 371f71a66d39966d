package awsefs

import (
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Variables of the operator's environment that configure the driver.
const (
	nodeMemoryLimit    = "NODE_MEMORY_LIMIT"
	deleteRootDir      = "DELETE_ACCESS_POINT_ROOT_DIR"
	nodeIAMMounts      = "NODE_IAM_MOUNTS"
	provisionerWorkers = "PROVISIONER_WORKERS"
	provisionerTimeout = "PROVISIONER_TIMEOUT"
	volumeAttachLimit  = "VOLUME_ATTACH_LIMIT"
	// AWS's own programs also read a variable with this name.
	useFIPSEndpoint = "AWS_USE_FIPS_ENDPOINT"
	iamClusterID    = "IAM_CLUSTER_ID"
)

// AccessPointLimit is the variable with the maximum number of access points of a file system. The operator warns before a file system reaches this
// number.
const AccessPointLimit = "ACCESS_POINT_LIMIT"

// CheckAWS is the variable for the operator's checks of AWS. Value "false" disables the checks, for clusters that can't reach AWS.
const CheckAWS = "LOOK_AT_AWS"

// WatchMounts is the variable that makes nodes report stalled mounts.
const WatchMounts = "WATCH_MOUNTS"

func settings() []driver.Setting {
	return append([]driver.Setting{
		// The default is no limit. One container has the TLS tunnels of all mounts of a node. If Kubernetes kills this container because of a limit, all
		// mounts of the node stall. The minimum is the memory that the driver needs without any mount.
		{Variable: nodeMemoryLimit, Check: driver.Memory("128Mi")},
		// The default is "false", because the deletion of an access point whose root is "/" would empty the whole file system. OpenShift's operator always
		// sets "true" (openshift/aws-efs-csi-driver-operator release-4.9, assets/controller.yaml, to openshift/csi-operator f7f9dc59).
		{Variable: deleteRootDir, Default: "false", Check: driver.Boolean, Argument: "delete-access-point-root-dir"},
		// The default is "false". Mounts with option iam then use the instance's role, as with all predecessors. Policies of file systems name that role.
		// The default also gives nodes no further access.
		{Variable: nodeIAMMounts, Default: "false", Check: driver.Boolean},
		// With many parallel requests, the driver leaves access points that no volume uses (aws-efs-csi-driver issues 1467 and 1504).
		{Variable: provisionerWorkers, Default: "1", Check: driver.Number(1, 100)},
		{Variable: provisionerTimeout, Default: "5m", Check: driver.Duration(10*time.Second, time.Hour)},
		// Each mount needs ports for its tunnel, so the number of these ports limits the mounts of a node.
		{Variable: volumeAttachLimit, Check: driver.Number(1, 1000)},
		// Empty means that the driver uses FIPS endpoints if the nodes are in FIPS mode and AWS has the endpoints. Some private clusters can reach only the
		// plain endpoints.
		{Variable: useFIPSEndpoint, Check: driver.Boolean},
		// The default is empty. If an ID were set, the driver could not delete access points that lack the cluster's tag.
		{Variable: iamClusterID, Check: driver.Matching(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, "must be the infrastructureName of a cluster")},
		// Empty means the version in the tag of the image, or else the newest known version.
		{Variable: driver.VersionVariable, Check: driver.Matching(`^[0-9]+\.[0-9]+\.[0-9]+$`, "must be a version of the driver, such as 3.4.1")},
		{Variable: WatchMounts, Default: "false", Check: driver.Boolean},
		{Variable: CheckAWS, Default: "true", Check: driver.Boolean},
		// AWS's own limit has been 10000 since February 2025. AWS raises the limit on request.
		{Variable: AccessPointLimit, Default: "10000", Check: driver.Number(1, 1000000)},
	}, driver.RolloutSettings()...)
}

// provisionerOptions returns the arguments that the administrator can set.
func provisionerOptions(cfg driver.Config) []string {
	return []string{"--timeout=" + cfg.Settings[provisionerTimeout], "--worker-threads=" + cfg.Settings[provisionerWorkers]}
}
