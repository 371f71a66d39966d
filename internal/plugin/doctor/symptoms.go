package doctor

import (
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// symptom recognizes an event by words in its message. doctor uses the first symptom that matches. In its texts, NAMESPACE, NODE, SYSTEM, ZONE,
// DRIVER, CLASS and MODES are placeholders.
type symptom struct {
	// drivers, if set, limits the symptom to events about these drivers. reason, if set, limits the symptom to events with this reason.
	drivers []string
	reason  string
	// words are parts of the message, in lower case except for CLASS. The symptom matches if the message contains one of them.
	words              []string
	cause, do, command string
	page               page
	// topic and effects have the same meaning as in Finding. Each topic begins with "event". A finding about the cluster has effects that begin with
	// "event", too, if it can explain events.
	topic   string
	effects []string
	// creation means that the symptom prevents the creation of an object.
	creation bool
	// over, if set, is a function that reports whether the state of the claim proves that the event is outdated.
	over func(claim) bool
}

// symptoms returns the general symptoms: errors of Kubernetes, AWS, the EFS driver and its mount helper, and of the storage servers of other drivers.
func symptoms() []symptom {
	return slices.Concat(ofCalls(), ofKubernetes(), ofAWS(), ofRefusals(), ofDrivers())
}

// symptomsOf returns the symptoms that events about a driver's volumes can show. doctor uses the first symptom that matches, so the errors of the
// driver's cloud come before the errors of Kubernetes. In the other order, an exceeded quota of OpenStack would look like an exceeded quota of
// Kubernetes.
func symptomsOf(driver string) []symptom {
	isOfAnother := func(one symptom) bool { return len(one.drivers) > 0 && !slices.Contains(one.drivers, driver) }
	if spoken := slices.DeleteFunc(append(ofOpenStack(), ofVSphere()...), isOfAnother); len(spoken) > 0 {
		return slices.DeleteFunc(slices.Concat(ofOneDriver(), spoken, ofCalls(), ofKubernetes(), ofDrivers()), isOfAnother)
	}
	return slices.DeleteFunc(append(ofOneDriver(), symptoms()...), isOfAnother)
}

// matches reports whether an event shows the symptom.
func (s symptom) matches(reason, message string, fill *strings.Replacer) bool {
	return (s.reason == "" || s.reason == reason) &&
		slices.ContainsFunc(s.words, func(word string) bool { return strings.Contains(message, fill.Replace(word)) })
}

// ofDrivers returns symptoms for errors that drivers report about their storage servers. The more specific symptoms come first, because doctor uses
// the first symptom that matches.
func ofDrivers() []symptom {
	return []symptom{{
		// No server answers the mount request, because a firewall drops packets (kubernetes-sigs/aws-efs-csi-driver#34, #262, #629).
		drivers: []string{efs.DriverName}, reason: "FailedMount", words: []string{"deadlineexceeded", "context deadline exceeded"},
		cause:   "Node NODE gets no answer from the mount target of file system SYSTEM.",
		do:      "Allow TCP port 2049 from the nodes to the mount target, in the security groups of both.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageReach, topic: "event/network/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		// mount.nfs4 repeats the error of the server.
		drivers: []string{efs.DriverName}, reason: "FailedMount", words: []string{"reason given by server: no such file or directory"},
		cause:   "File system SYSTEM does not have the directory that the volume mounts.",
		do:      "Create the directory, or a PersistentVolume whose volumeHandle has a path that exists.",
		command: "oc get pv -o yaml", page: pageUse, topic: "event/directory/SYSTEM", effects: []string{"event/mount"},
	}, {
		words:   []string{"deadlineexceeded", "context deadline exceeded"},
		cause:   "Driver DRIVER did not finish a request in time. Kubernetes tries again.",
		do:      "Find the last step in the log of the driver's pods: this step waits for a server that does not answer.",
		command: "oc storage status", page: pageTrouble, topic: "event/late/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}}
}

// ofCalls returns errors that all CSI drivers can return, and errors of Kubernetes about attachments.
func ofCalls() []symptom {
	return []symptom{{
		words: []string{"multi-attach error"},
		cause: "The volume is attached to another node, and its access mode allows only one node.",
		do:    "End the pod that uses the volume on that node, or wait until Kubernetes has detached the volume.", command: "oc get volumeattachments",
		page: pageTrouble, topic: "event/multiattach", effects: []string{"event/attach", "event/mount"},
	}, {
		words: []string{"volume attachment is being deleted"},
		cause: "Kubernetes has not finished removing an earlier attachment of the volume.",
		do:    "Look for errors of the detachment in the VolumeAttachment.", command: "oc get volumeattachments -o yaml",
		page: pageTrouble, topic: "event/detach", effects: []string{"event/attach", "event/mount"},
	}, {
		words: []string{"error reading from server: eof"},
		cause: "Driver DRIVER stopped during the request.", do: "Read the log of the container's last run, with oc logs --previous.",
		command: "oc storage status", page: pageTrouble, topic: "event/crash/DRIVER", effects: []string{"provision", "event/attach", "event/mount"},
	}, {
		words: []string{"failed to expand the volume"}, reason: "FailedMount",
		cause: "Node NODE can't expand the file system of the volume.", do: "Do what the message says.",
		command: "oc get pods -A -o wide --field-selector spec.nodeName=NODE", page: pageTrouble, topic: "event/expand", effects: []string{"event/mount"},
	}}
}

func ofKubernetes() []symptom {
	return []symptom{{
		words:   []string{"unable to validate against any security context constraint"},
		cause:   "No SecurityContextConstraints of the pod's ServiceAccount allows the pod.",
		do:      "Remove the forbidden settings from the pod, or ask an administrator for a SecurityContextConstraints.",
		command: "oc -n NAMESPACE get events --field-selector reason=FailedCreate",
		page:    pageTrouble, topic: "event/scc", effects: []string{"subject", "event/create"}, creation: true,
	}, {
		words:   []string{"violates podsecurity"},
		cause:   "The pod security level of namespace NAMESPACE forbids the pod.",
		do:      "Remove the forbidden settings from the pod, or ask an administrator for another level.",
		command: "oc get namespace NAMESPACE -o yaml",
		page:    pageTrouble, topic: "event/podsecurity", effects: []string{"subject", "event/create"}, creation: true,
	}, {
		words:   []string{"exceeded quota"},
		cause:   "The quota of namespace NAMESPACE is exhausted.",
		do:      "Delete unused objects, or ask for a larger quota.",
		command: "oc -n NAMESPACE describe quota",
		page:    pageTrouble, topic: "event/quota", effects: []string{"subject", "claim", "event/schedule", "event/create"}, creation: true,
	}, {
		words:   []string{"not found in the list of registered csi drivers"},
		cause:   "The driver is not registered on node NODE.",
		do:      "Read the log of container node-driver-registrar in the driver's pod on that node.",
		command: "oc get csinode NODE -o yaml", page: pageNodePods, topic: "event/registration", effects: []string{"event/mount", "event/attach"},
	}, {
		words:   []string{"csi.sock"},
		cause:   "The node pod of driver DRIVER on node NODE does not answer.",
		do:      "Read the events and the log of the pod.",
		command: "oc get pods -A -o wide --field-selector spec.nodeName=NODE",
		page:    pageNodePods, topic: "node/NODE/plugin/DRIVER", effects: []string{"event/mount", "event/attach"},
	}, {
		// Other components repeat this error of the API server.
		words:   []string{`storageclass.storage.k8s.io "CLASS" not found`},
		cause:   "StorageClass CLASS does not exist.",
		do:      "Name another class in a new PersistentVolumeClaim, or ask an administrator to create this class.",
		command: "oc get storageclasses", page: pageUse, topic: "event/provision/DRIVER", effects: []string{"event/schedule", "event/mount"},
		over: func(one claim) bool { return one.class != nil },
	}, {
		words:   []string{"is forbidden: user \"system:serviceaccount"},
		cause:   "The driver's ServiceAccount may not read an object that the StorageClass names.",
		do:      "Grant the ServiceAccount access to that object.",
		command: "oc get storageclasses -o yaml", page: pageClassRights, topic: "event/forbidden", effects: []string{"provision"},
	}, {
		words:   []string{"no topology key found"},
		cause:   "The node pod of driver DRIVER on the chosen node has not registered a topology. The pod may be of an older version.",
		do:      "Wait until the node has the newest node pod. In a migration, drain the node.",
		command: "oc storage rollout status", page: pageOther, topic: "event/topology/DRIVER", effects: []string{"event/provision", "event/schedule"},
	}, {
		words:   []string{"volume node affinity conflict", "no available topology"},
		cause:   "No node that the pod may run on is in the zone of its volumes.",
		do:      "Add a node in that zone, or remove the pod's node selector.",
		command: "oc get nodes -L topology.kubernetes.io/zone", page: pageOneZone, topic: "event/zone", effects: []string{"event/schedule"},
	}}
}

// ofAWS returns errors of AWS that the EFS driver and the mount helper repeat.
func ofAWS() []symptom {
	return []symptom{{
		words:   []string{"access denied by server while mounting"},
		cause:   "The policy of file system SYSTEM does not let node NODE mount it.",
		do:      "Mount with option iam, and grant ClientMount and ClientWrite to the IAM identity with which the node mounts.",
		command: "aws efs describe-file-system-policy --file-system-id SYSTEM", page: pageMountIAM,
		topic: "event/policy/SYSTEM", effects: []string{"event/mount"},
	}, {
		words: []string{
			"accessdenied", "access denied", "not authorized to perform", "unauthorizedoperation", "failed to refresh cached credentials",
			"assumerolewithwebidentity",
		},
		cause:   "AWS refuses a request of the driver: its IAM role lacks a permission.",
		do:      "Compare the role with the policy that this command prints.",
		command: "oc storage iam policy controller", page: pageIAM, topic: "event/iam", effects: []string{"provision", "event/mount"},
	}, {
		words:   []string{"accesspointlimitexceeded"},
		cause:   "File system SYSTEM has reached its limit of access points.",
		do:      "Delete unused access points, or ask AWS for a higher limit.",
		command: "oc get pv", page: pagePoints, topic: "event/limit/SYSTEM", effects: []string{"provision"},
	}, {
		words:   []string{"file system does not exist", "filesystemnotfound"},
		cause:   "AWS has no file system SYSTEM in the region and the account of the cluster.",
		do:      "Correct the ID in the StorageClass or in the PersistentVolume.",
		command: "aws efs describe-file-systems --query 'FileSystems[].FileSystemId'",
		page:    pageFileSystem, topic: "event/filesystem/SYSTEM/ZONE", effects: []string{"provision", "event/mount"},
	}, {
		words:   []string{"accesspointnotfound", "access point does not exist", "access point not found"},
		cause:   "File system SYSTEM does not have the access point of the volume.",
		do:      "Create another access point with the same path, and a volume that names the new access point.",
		command: "aws efs describe-access-points --file-system-id SYSTEM",
		page:    pagePoint, topic: "event/point/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		// DNS has no name for a file system without a mount target, and none for a file system that does not exist. So the error is the same.
		words:   []string{"failed to resolve"},
		cause:   "File system SYSTEM does not exist, or has no mount target that node NODE can resolve.",
		do:      "Check the ID first. If it is correct, create a mount target in a subnet of the node's zone.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/target/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		words:   []string{"mount target"},
		cause:   "File system SYSTEM has no mount target that node NODE can resolve.",
		do:      "Create a mount target in a subnet of the node's zone.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/target/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		words:   []string{"connection timed out", "connection refused", "no route to host", "connection reset"},
		cause:   "Node NODE can't reach the mount target of file system SYSTEM.",
		do:      "Allow TCP port 2049 from the nodes in the security group of the mount target.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageReach, topic: "event/network/SYSTEM/ZONE", effects: []string{"event/mount"},
	}}
}

// ofRefusals returns errors for requests that the EFS driver refuses without asking AWS.
func ofRefusals() []symptom {
	return []symptom{{
		words: []string{"volume capabilities", "volume capability not supported", "access mode is not supported"},
		cause: "Driver DRIVER refuses the access modes (MODES) or the volume mode of the PersistentVolumeClaim.",
		do:    "Create a PersistentVolumeClaim with an access mode and a volume mode that the driver supports.", command: "oc -n NAMESPACE get pvc",
		page: pageUse, topic: "event/modes/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}, {
		// Events with this reason are about CreateVolume. In events with another reason, the same error means that the driver refuses the volume or the
		// node, and not the parameters.
		reason:  "ProvisioningFailed",
		words:   []string{"invalidargument", "invalid argument", "provisioning mode", "missing provisioningmode", "missing filesystemid"},
		cause:   "The driver refuses the parameters of the StorageClass.",
		do:      "Create a class with correct parameters: the parameters of an existing class can't be changed.",
		command: "oc get storageclasses -o yaml", page: pageUse, topic: "event/provision/DRIVER", effects: []string{"provision"},
	}}
}
