package main

import "strings"

// otherWords returns words that look like a reason of a condition, but are something else. Remove a word when the code no longer has it.
func otherWords() names {
	all := names{}
	for what, words := range map[string]string{
		"kind": `CSIDriver ClusterOperator ClusterRole ClusterRoleBinding ClusterServiceVersion ConfigMap CredentialsRequest
			DaemonSet Deployment Lease List Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget
			ReplicaSet Role RoleBinding Secret SecurityContextConstraints Service ServiceAccount ServiceMonitor SharedVolume Storage StorageClass
			SubscriptionList ValidatingAdmissionPolicy ValidatingWebhookConfiguration VolumeAttributesClass VolumeSnapshotClass`,
		"condition that a predecessor set, and that our operator deletes": `AWSEFSDriverCSIConfigObserverControllerDegraded
			AWSEFSDriverCredentialsRequestControllerAvailable AWSEFSDriverCredentialsRequestControllerDegraded
			AWSEFSDriverCredentialsRequestControllerProgressing AWSEFSDriverServiceMonitorControllerDegraded CSIStaticResourceControllerDegraded
			ConfigSyncDegraded CSIControllerDisabled DriverCSIConfigObserverController DriverStaticResourcesControllerDegraded
			ControllerAvailable ControllerDegraded ControllerDisabled DriverConditionalStaticResourcesControllerDegraded
			DriverFeatureConfigControllerDegraded DriverStorageClassController DriverWebhookController
			VMWareVSphereDriverServiceMonitorControllerDegraded
			ManilaDriverConditionalStaticResourcesControllerDegraded NFSDriverNodeServiceController
			OpenStackCinderDriverConditionalStaticResourcesControllerDegraded ResourceSyncControllerDegraded StorageClassControllerDegraded
			VolumeSnapshotClassControllerDegraded`,
		"header of HTTP":               `Accept Date`,
		"condition of another program": `CredentialsProvisionFailure InsufficientCloudCreds MissingTargetNamespace VSphereProblemDetector`,
		"reason that Kubernetes gives": `CrashLoopBackOff CreateContainerConfigError CreateContainerError ErrImageNeverPull ImagePullBackOff
			InvalidImageName NewReplicaSetAvailable PodInitializing PreCreateHookError ProgressDeadlineExceeded RunContainerError`,
		"word of a message":         `NotFound NotReady Terminating`,
		"prefix of a driver":        `AzureDisk AzureFile Manila OpenStackCinder OpenStackManila VMwareVSphere VSphere`,
		"value of a setting":        `Allow Deny IdleFirst RollingUpdate WhenDrained`,
		"feature gate or its state": `Disabled Enabled MutableCSINodeAllocatableCount VolumeLimitScaling`,
		"object of a vCenter": `ClusterComputeResource ComputeResource Datacenter Datastore Folder HostSystem ResourcePool Resources StoragePod
			VirtualApp VirtualMachine`,
		"section of a configuration":    `BlockStorage Global Labels Snapshot VirtualCenter`,
		"name of OpenShift":             `OpenShift`,
		"parameter of a StorageClass":   `StoragePolicyName`,
		"action of an event":            `CheckVSphere LookAtAWS Reconcile`,
		"end of the reason of an event": `Mended`,
		"states of a process in Linux":  `ZXx`,
	} {
		for word := range strings.FieldsSeq(words) {
			all[word] = what
		}
	}
	return all
}

// otherKeys returns words that look like an annotation, but are something else.
func otherKeys() names {
	return names{
		".spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt": "field",
		"csi.storage.k8s.io/provisioner-secret-name":                            "parameter of a StorageClass",
		"efs.csi.aws.com/agent-not-ready":                                       "taint",
		"ebs.csi.aws.com/agent-not-ready":                                       "taint",
		"disk.csi.azure.com/agent-not-ready":                                    "taint",
		"file.csi.azure.com/agent-not-ready":                                    "taint",
		"pd.csi.storage.gke.io/not-ready":                                       "taint",
		"cinder.csi.openstack.org/agent-not-ready":                              "taint",
		"manila.csi.openstack.org/agent-not-ready":                              "taint",
		"csi.vsphere.vmware.com/agent-not-ready":                                "taint",
		"pv.kubernetes.io/provisioned-by":                                       "annotation of Kubernetes",
		"storage.kubernetes.io/csiProvisionerIdentity":                          "volume attribute",
		"kubernetes.io/vsphere-volume":                                          "provisioner",
		"node.openshift.io/platform-type":                                       "label of OpenShift",
		"openshift.io/required-scc":                                             "annotation of OpenShift",
		"node-role.kubernetes.io/control-plane":                                 "label of Kubernetes",
		"node-role.kubernetes.io/master":                                        "label of Kubernetes",
		"app.kubernetes.io/name":                                                "label of Kubernetes",
		"kubepods-besteffort.slice/kubepods-besteffort-":                        "folder of cgroups",
		"kubepods-burstable.slice/kubepods-burstable-":                          "folder of cgroups",
		".operator.openshift.io/AWSEFSDriverControllerServiceController":        "finalizer of a predecessor",
		".operator.openshift.io/AWSEFSDriverNodeServiceController":              "finalizer of a predecessor",
		".operator.openshift.io/CSIStaticResourceController":                    "finalizer of a predecessor",
	}
}

// besidesEvents returns names under Events on the page that are not whole reasons of events. The code appends these names to reasons.
func besidesEvents() names { return names{"Mended": "the end of a reason"} }
