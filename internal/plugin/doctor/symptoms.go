package doctor

import (
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// symptom is what texts of events tell of. The first that fits counts. NAMESPACE, NODE, SYSTEM, ZONE, DRIVER and CLASS are replaced.
type symptom struct {
	// drivers, if set, are the CSI names of those that say it, and reason that of the event.
	drivers []string
	reason  string
	// words are pieces of a text in lower case, but for CLASS; one of them is enough.
	words              []string
	cause, do, command string
	page               page
	// topic begins with "event": what an operator or the cluster says about the same explains it.
	topic   string
	effects []string
	// creation means that an object does not exist because of it.
	creation bool
	// over, if set, reports whether the claim of an event shows that the event is true no more.
	over func(claim) bool
}

// symptoms are what Kubernetes, the EFS driver and its mount helper say.
func symptoms() []symptom { return slices.Concat(ofKubernetes(), ofAWS(), ofDrivers()) }

// symptomsOf are those that events about volumes of a driver may have. What its cloud says comes first: OpenStack has quotas as well.
func symptomsOf(driver string) []symptom {
	isOfAnother := func(one symptom) bool { return len(one.drivers) > 0 && !slices.Contains(one.drivers, driver) }
	if spoken := slices.DeleteFunc(append(ofOpenStack(), ofVSphere()...), isOfAnother); len(spoken) > 0 {
		return slices.DeleteFunc(slices.Concat(spoken, ofKubernetes(), ofDrivers()), isOfAnother)
	}
	return slices.DeleteFunc(symptoms(), isOfAnother)
}

// says reports whether an event tells of a symptom.
func (s symptom) says(reason, message string, fill *strings.Replacer) bool {
	return (s.reason == "" || s.reason == reason) &&
		slices.ContainsFunc(s.words, func(word string) bool { return strings.Contains(message, fill.Replace(word)) })
}

// ofDrivers are what drivers say of a server that does not answer, or not as they want. What one driver says comes first.
func ofDrivers() []symptom {
	return []symptom{{
		// Nothing answers the mount: a firewall drops packets (kubernetes-sigs/aws-efs-csi-driver#34, #262, #629).
		drivers: []string{efs.DriverName}, reason: "FailedMount", words: []string{"deadlineexceeded", "context deadline exceeded"},
		cause:   "Node NODE gets no answer from the mount target of file system SYSTEM.",
		do:      "Let TCP port 2049 from the nodes into the security group of the mount target, and out of that of the nodes.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/network/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		// What mount.nfs4 repeats of a server that does not have the path; a line may end before the reason.
		drivers: []string{efs.DriverName}, reason: "FailedMount", words: []string{"reason given by server: no such file or directory"},
		cause:   "File system SYSTEM does not have the directory that the volume mounts.",
		do:      "Make the directory, or write a PersistentVolume with a path that exists in its volumeHandle.",
		command: "oc get pv -o yaml", page: pageUse, topic: "event/directory/SYSTEM", effects: []string{"event/mount"},
	}, {
		words:   []string{"deadlineexceeded", "context deadline exceeded"},
		cause:   "Driver DRIVER did not finish in time. Kubernetes tries again.",
		do:      "Look for the last step in the log of the driver's pods: what it waits for does not answer.",
		command: "oc storage status", page: pageTrouble, topic: "event/late/DRIVER", effects: []string{"provision", "event/mount", "event/attach"},
	}}
}

func ofKubernetes() []symptom {
	return []symptom{{
		words:   []string{"unable to validate against any security context constraint"},
		cause:   "No SecurityContextConstraints of the pod's ServiceAccount allows the pod.",
		do:      "Drop what the pod may not have, or ask an administrator for a SecurityContextConstraints.",
		command: "oc -n NAMESPACE get events --field-selector reason=FailedCreate",
		page:    pageTrouble, topic: "event/scc", effects: []string{"subject", "event/create"}, creation: true,
	}, {
		words:   []string{"violates podsecurity"},
		cause:   "The pod security level of namespace NAMESPACE forbids the pod.",
		do:      "Drop what the pod may not have, or ask an administrator for another level.",
		command: "oc get namespace NAMESPACE -o yaml",
		page:    pageTrouble, topic: "event/podsecurity", effects: []string{"subject", "event/create"}, creation: true,
	}, {
		words:   []string{"exceeded quota"},
		cause:   "The quota of namespace NAMESPACE has no room.",
		do:      "Delete what nobody needs, or ask for a larger quota.",
		command: "oc -n NAMESPACE describe quota",
		page:    pageTrouble, topic: "event/quota", effects: []string{"subject", "claim", "event/schedule", "event/create"}, creation: true,
	}, {
		words:   []string{"not found in the list of registered csi drivers"},
		cause:   "The driver is not registered on node NODE.",
		do:      "Look at container node-driver-registrar of the driver's pod on that node.",
		command: "oc get csinode NODE -o yaml", page: pageNodePods, topic: "event/registration", effects: []string{"event/mount", "event/attach"},
	}, {
		words:   []string{"csi.sock"},
		cause:   "The node pod of driver DRIVER on node NODE does not answer.",
		do:      "Look at the pod's events and its log.",
		command: "oc get pods -A -o wide --field-selector spec.nodeName=NODE",
		page:    pageNodePods, topic: "node/NODE/plugin/DRIVER", effects: []string{"event/mount", "event/attach"},
	}, {
		// The API server says it to whoever looks for the class, and these repeat it.
		words:   []string{`storageclass.storage.k8s.io "CLASS" not found`},
		cause:   "StorageClass CLASS does not exist.",
		do:      "Name another class in a new PersistentVolumeClaim, or ask an administrator to create this one.",
		command: "oc get storageclasses", page: pageUse, topic: "event/provision/DRIVER", effects: []string{"event/schedule", "event/mount"},
		over: func(one claim) bool { return one.class != nil },
	}, {
		words:   []string{"is forbidden: user \"system:serviceaccount"},
		cause:   "The driver's ServiceAccount may not read what the StorageClass names.",
		do:      "Give it the right to that one object.",
		command: "oc get storageclasses -o yaml", page: pageClassRights, topic: "event/forbidden", effects: []string{"provision"},
	}, {
		words:   []string{"no topology key found"},
		cause:   "The node pod of driver DRIVER on the chosen node has not registered a topology. It may be of an older version.",
		do:      "Wait until the node has the newest node pod. In a migration, drain the node.",
		command: "oc storage rollout status", page: pageOther, topic: "event/topology/DRIVER", effects: []string{"event/provision", "event/schedule"},
	}, {
		words:   []string{"volume node affinity conflict", "no available topology"},
		cause:   "No node that the pod may run on is in the zone of its volumes.",
		do:      "Add a node in that zone, or drop the pod's node selector.",
		command: "oc get nodes -L topology.kubernetes.io/zone", page: pageOneZone, topic: "event/zone", effects: []string{"event/schedule"},
	}}
}

// ofAWS are what the driver and the mount helper repeat of what AWS says.
func ofAWS() []symptom {
	return []symptom{{
		words:   []string{"access denied by server while mounting"},
		cause:   "The policy of file system SYSTEM does not let node NODE mount it.",
		do:      "Mount with option iam, and give ClientMount and ClientWrite to the identity of the node's mounts.",
		command: "aws efs describe-file-system-policy --file-system-id SYSTEM", page: pageMountIAM,
		topic: "event/policy/SYSTEM", effects: []string{"event/mount"},
	}, {
		words: []string{
			"accessdenied", "access denied", "not authorized to perform", "unauthorizedoperation", "failed to refresh cached credentials",
			"assumerolewithwebidentity",
		},
		cause:   "AWS refuses a request of the driver: its IAM role lacks a right.",
		do:      "Compare the role with the policy that this command prints.",
		command: "oc storage iam policy controller", page: pageIAM, topic: "event/iam", effects: []string{"provision", "event/mount"},
	}, {
		words:   []string{"accesspointlimitexceeded"},
		cause:   "File system SYSTEM has no access points left.",
		do:      "Delete access points that nobody uses, or ask AWS for more.",
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
		do:      "Make another access point with the same path, and a volume for it.",
		command: "aws efs describe-access-points --file-system-id SYSTEM",
		page:    pagePoint, topic: "event/point/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		// The mount helper says it of a file system that does not exist as well: its name is not in DNS either.
		words:   []string{"failed to resolve"},
		cause:   "File system SYSTEM does not exist, or has no mount target that node NODE can resolve.",
		do:      "Compare the ID first. If it is right, make a mount target in a subnet of the node's zone.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/target/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		words:   []string{"mount target"},
		cause:   "File system SYSTEM has no mount target that node NODE can resolve.",
		do:      "Make a mount target in a subnet of the node's zone.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/target/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		words:   []string{"connection timed out", "connection refused", "no route to host", "connection reset"},
		cause:   "Node NODE does not reach the mount target of file system SYSTEM.",
		do:      "Let TCP port 2049 from the nodes into the security group of the mount target.",
		command: "aws efs describe-mount-targets --file-system-id SYSTEM",
		page:    pageTarget, topic: "event/network/SYSTEM/ZONE", effects: []string{"event/mount"},
	}, {
		words:   []string{"invalidargument", "invalid argument", "provisioning mode", "missing provisioningmode", "missing filesystemid"},
		cause:   "The driver refuses the parameters of the StorageClass.",
		do:      "Make a class with the right parameters: those of a class cannot be changed.",
		command: "oc get storageclasses -o yaml", page: pageUse, topic: "event/provision/DRIVER", effects: []string{"provision"},
	}}
}
