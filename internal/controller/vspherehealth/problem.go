package vspherehealth

// problem is the name of a check. It is the reason of conditions and events, and the value of a label of a metric. docs/guide/vsphere-checks.md
// explains each check.
type problem string

const (
	connection           problem = "VCenterConnection"
	unverified           problem = "VCenterCertificateNotVerified"
	userDomain           problem = "VCenterUserWithoutDomain"
	vCenterVersion       problem = "VCenterVersion"
	existingDriver       problem = "ExistingDriver"
	severalVCenters      problem = "SeveralVCenters"
	infrastructureConfig problem = "InfrastructureConfig"
	datacenterConfig     problem = "DatacenterConsistency"
	nodePlatform         problem = "NodePlatform"
	nodeProviderID       problem = "NodeProviderID"
	nodeVM               problem = "NodeVM"
	nodeHardware         problem = "NodeHardwareVersion"
	nodeDiskUUID         problem = "NodeDiskUUID"
	nodeChangeTracking   problem = "NodeChangeTracking"
	hostVersion          problem = "HostVersion"
	hostConnection       problem = "HostConnection"
	volumeLimit          problem = "VolumeLimit"
	defaultDatastore     problem = "DefaultDatastore"
	failureDomain        problem = "FailureDomain"
	datastoreState       problem = "DatastoreState"
	classPlace           problem = "StorageClassPlacement"
	volumePlace          problem = "VolumePlacement"
	zoneTags             problem = "ZoneTags"
	hostGroups           problem = "HostGroups"
	accountPermissions   problem = "AccountPermissions"
	clusterPermissions   problem = "ComputeClusterPermissions"
	poolPermissions      problem = "ResourcePoolPermissions"
	taskPermissions      problem = "TaskPermissions"
)

// existingReason is the name of the check existingDriver in the metric of OpenShift's operator.
const existingReason = "existing_driver_found"
