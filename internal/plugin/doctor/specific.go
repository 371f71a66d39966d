package doctor

// ofOneDriver returns symptoms that are specific to one driver: errors of its cloud or its storage server. The texts of these errors come from public
// reports (testdata/reports). doctor tries these symptoms before the general symptoms.
func ofOneDriver() []symptom { return append(ofAzure(), ofOthers()...) }

func ofAzure() []symptom {
	disk, file := []string{"disk.csi.azure.com"}, []string{"file.csi.azure.com"}
	const classes = "oc get storageclass CLASS -o yaml"
	mount, attach, provision := []string{"event/mount"}, []string{"event/attach", "event/mount"}, []string{"provision"}
	return []symptom{{
		drivers: disk, reason: "FailedAttachVolume", words: []string{"because it is not in zone"},
		cause:   "The disk of the volume is not in the zone of node NODE.",
		do:      "Use a StorageClass with volumeBindingMode WaitForFirstConsumer.",
		command: "oc get nodes -L topology.kubernetes.io/zone", page: pageStorage,
		topic: "event/diskzone", effects: attach,
	}, {
		drivers: file, reason: "FailedMount", words: []string{"mount error(2)"},
		cause:   "The storage account has no share with the name that the volume gives.",
		do:      "Correct the name of the share in the PersistentVolume.",
		command: "oc get pv -o yaml", page: pageStorage,
		topic: "event/share", effects: mount,
	}, {
		drivers: file, reason: "FailedMount", words: []string{"mount error(13)"},
		cause:   "The storage account refuses node NODE, or the key of the volume.",
		do:      "Check the firewall of the storage account, and the key in the Secret.",
		command: "oc get pv -o yaml", page: pageStorage,
		topic: "event/account", effects: mount,
	}, {
		drivers: []string{disk[0], file[0]}, words: []string{"authorizationfailed"},
		cause:   "Azure refuses a request of driver DRIVER: its identity lacks a permission.",
		do:      "Compare its role with the CredentialsRequest of the release.",
		command: "oc -n openshift-cloud-credential-operator get credentialsrequests -o yaml",
		page:    pageStorage,
		topic:   "event/azure/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}, {
		drivers: file, reason: "ProvisioningFailed", words: []string{"invalidheadervalue"},
		cause: "The size is too small for the storage account: a share in a premium account needs at least 100 GiB, " +
			"and a StorageClass with a premium skuName.",
		do: "Ask for 100 GiB or more, and set skuName to the SKU of the account.", command: classes, page: pageStorage,
		topic: "event/sharesize", effects: provision,
	}}
}

func ofOthers() []symptom {
	ebs, vsphere, pd := []string{"ebs.csi.aws.com"}, []string{vSphereName}, []string{"pd.csi.storage.gke.io"}
	const pods, classes = "oc get pods -A -o wide --field-selector spec.nodeName=NODE", "oc get storageclass CLASS -o yaml"
	mount, attach, provision := []string{"event/mount"}, []string{"event/attach", "event/mount"}, []string{"provision"}
	return []symptom{{
		drivers: ebs, reason: "ProvisioningFailed", words: []string{"resulting iops", "parameter iops", "iops to volume size", "maximum iops"},
		cause: "The IOPS that StorageClass CLASS asks for do not fit the type and the size of the volume.",
		do:    "Create a StorageClass with type and iops that AWS allows.", command: classes, page: pageUse,
		topic: "event/iops", effects: provision,
	}, {
		// AWS checks the key after its answer to CreateVolume, and deletes the volume if the key can't be used (EC2 API reference, CreateVolume, KmsKeyId;
		// kubernetes-sigs/aws-ebs-csi-driver#3010, #935). AWS gives no other sign of the cause.
		drivers: ebs, reason: "ProvisioningFailed", words: []string{"invalidvolume.notfound"},
		cause: "AWS discarded the new volume, most likely because the driver's role may not use the KMS key that encrypts it, " +
			"or because the key does not exist.",
		do: "Allow the role of the driver kms:CreateGrant, kms:Decrypt and kms:GenerateDataKeyWithoutPlaintext for the key of the class, " +
			"or for the default key of the account.",
		command: classes, page: pageStorage, topic: "event/kms", effects: provision,
	}, {
		drivers: vsphere, words: []string{"empty list of node vms"},
		cause:   "The driver finds no virtual machine for the nodes in the vCenters.",
		do:      "Compare the provider IDs of the nodes with the vCenters.",
		command: "oc get nodes -o yaml", page: pageVSphereChecks,
		topic: "event/nodevms", effects: provision,
	}, {
		drivers: vsphere, reason: "FailedMount", words: []string{"not attached to node"},
		cause:   "The virtual machine of node NODE does not show the disk; it may lack the setting disk.EnableUUID.",
		do:      "Set disk.EnableUUID to TRUE for the VM.",
		command: pods, page: pageVSphereChecks,
		topic: "event/diskuuid", effects: mount,
	}, {
		drivers: vsphere, words: []string{"not accessible to all nodes"},
		cause:   "The datastore of StorageClass CLASS is not mounted on the hosts of all nodes.",
		do:      "Mount the datastore on these hosts, or use another class.",
		command: classes, page: pageVSphereChecks,
		topic: "event/datastore", effects: provision,
	}, {
		drivers: pd, reason: "FailedAttachVolume", words: []string{"disk type cannot be used by", "is not a compatible disk type with the machine type"},
		cause: "The machine type of node NODE does not support the disk type of the volume.",
		do:    "Use a StorageClass with another type, or a node of another machine type.", command: pods, page: pageStorage,
		topic: "event/disktype", effects: attach,
	}, {
		drivers: pd, words: []string{"resourcenotready"},
		cause:   "The disk is not ready in the cloud yet. Kubernetes tries again.",
		do:      "Wait some minutes, for instance while the cloud restores a snapshot.",
		command: pods, page: pageStorage,
		topic: "event/diskwait", effects: attach,
	}}
}
