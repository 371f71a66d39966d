package create

import "fmt"

// StorageClassName returns the name of the class that StorageClass describes.
func (s Share) StorageClassName() string { return "efs-" + s.Name }

// StorageClass returns the YAML of a StorageClass whose volumes are access points of the share.
func (s Share) StorageClass() string {
	options := ""
	if s.Zone != "" {
		// With this option, the mount helper on nodes of other zones finds the only mount target without a request to AWS.
		options = "mountOptions:\n  - az=" + s.Zone + "\n"
	}
	return fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: %s
provisioner: efs.csi.aws.com
parameters:
  provisioningMode: efs-ap
  fileSystemId: %s
  directoryPerms: "700"
  basePath: /dynamic_provisioning
%sreclaimPolicy: Delete
volumeBindingMode: Immediate
`, s.StorageClassName(), s.FileSystem, options)
}

// DriverManifest returns YAML that describes the driver to Kubernetes' tests of external storage.
func (s Share) DriverManifest() string {
	options := ""
	if s.Zone == "" {
		// Do not enable the test of mount options for a One Zone file system. The test replaces the mount options of the class, and such a file system
		// needs them.
		options = "  SupportedMountOption:\n    noatime: {}\n"
	}
	return fmt.Sprintf(`# For the flag -storage.testdriver of Kubernetes' e2e.test, and for TEST_CSI_DRIVER_FILES of openshift-tests.
StorageClass:
  FromExistingClassName: %s
DriverInfo:
  Name: efs.csi.aws.com
  SupportedSizeRange:
    Min: 1Gi
    Max: 64Ti
%s  Capabilities:
    persistence: true
    exec: true
    RWX: true
    multipods: true
    # Several volumes may name the same access point.
    multiplePVsSameID: true
    # The access point decides which user owns the files.
    fsGroup: false
    # EFS has neither sizes, nor devices, nor snapshots.
    block: false
    controllerExpansion: false
    nodeExpansion: false
    snapshotDataSource: false
    volumeLimits: false
    # A regional file system is in all zones.
    topology: false
`, s.StorageClassName(), options)
}
