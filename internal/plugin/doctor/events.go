package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/efs"
)

// symptom is what texts of events and logs tell of. The first that fits counts.
type symptom struct {
	// words are pieces of a text in lower case; one of them is enough.
	words []string
	cause string
	do    string
	// command may name the namespace as NAMESPACE, the node as NODE.
	command string
	page    page
	// topic begins with "event" where something that the operator sees explains it.
	topic   string
	effects []string
}

// symptoms are what Kubernetes, the EFS driver and its mount helper say. CAUSE's parts in capitals are replaced.
func symptoms() []symptom {
	return []symptom{
		{[]string{"unable to validate against any security context constraint"}, "No SecurityContextConstraints of the pod's ServiceAccount allows the pod.",
			"Drop what the pod may not have, or ask an administrator for a SecurityContextConstraints.", "oc -n NAMESPACE get events --field-selector reason=FailedCreate",
			pageTrouble, "event/scc", []string{"subject", "event/mount"}},
		{[]string{"violates podsecurity"}, "The pod security level of the namespace forbids the pod.",
			"Drop what the pod may not have, or ask an administrator for another level.", "oc get namespace NAMESPACE -o yaml", pageTrouble, "event/podsecurity",
			[]string{"subject"}},
		{[]string{"exceeded quota"}, "The quota of namespace NAMESPACE has no room.", "Delete what nobody needs, or ask for a larger quota.",
			"oc -n NAMESPACE describe quota", pageTrouble, "event/quota", []string{"subject", "claim", "event/schedule"}},
		{[]string{"not found in the list of registered csi drivers"}, "The driver is not registered on node NODE.",
			"Look at container node-driver-registrar of the driver's pod on that node.", "oc get csinode NODE -o yaml", pageNodePods, "event/registration",
			[]string{"event/mount"}},
		{[]string{"accessdenied", "access denied", "not authorized to perform", "unauthorizedoperation", "is not authorized", "nocredentialproviders",
			"failed to refresh cached credentials", "assumerolewithwebidentity", "access denied by server while mounting"},
			"AWS refuses a request of the driver: its IAM role lacks a right.", "Compare the role with the policy that the operator prints.",
			"aws-efs-csi-driver-operator iam-policy controller", pageIAM, "event/iam", []string{"provision"}},
		{[]string{"is forbidden: user \"system:serviceaccount", "cannot get resource \"secrets\""}, "The driver's ServiceAccount may not read what the StorageClass names.",
			"Give it the right to that one object.", "oc get storageclasses -o yaml", pageClassRights, "event/forbidden", []string{"provision"}},
		{[]string{"volume node affinity conflict", "no available topology"}, "No node that the pod may run on is in the zone of its volumes.",
			"Add a node in that zone, or drop the pod's node selector.", "oc get nodes -L topology.kubernetes.io/zone", pageOneZone, "event/zone",
			[]string{"event/schedule"}},
		{[]string{"accesspointlimitexceeded", "access point limit"}, "The file system has no access points left.",
			"Delete access points that nobody uses, or ask AWS for more.", "oc get pv", pagePoints, "event/limit/SYSTEM", []string{"provision"}},
		{[]string{"file system does not exist", "filesystemnotfound", "failed to resolve file system"}, "AWS has no file system SYSTEM in the region and the account of the cluster.",
			"Correct the ID in the StorageClass or in the PersistentVolume.", "aws efs describe-file-systems --query 'FileSystems[].FileSystemId'", pageFileSystem,
			"event/filesystem/SYSTEM/ZONE", []string{"provision"}},
		{[]string{"accesspointnotfound", "access point does not exist", "access point not found"}, "File system SYSTEM does not have the access point of the volume.",
			"Make another access point with the same path, and a volume for it.", "aws efs describe-access-points --file-system-id SYSTEM", pagePoint,
			"event/point/SYSTEM/ZONE", nil},
		{[]string{"no mount target", "mount target", "failed to resolve"}, "File system SYSTEM has no mount target that node NODE reaches.",
			"Make a mount target in a subnet of the node's zone.", "aws efs describe-mount-targets --file-system-id SYSTEM", pageTarget,
			"event/target/SYSTEM/ZONE", []string{"event/network", "event/mount"}},
		{[]string{"connection timed out", "connection refused", "no route to host", "mount.nfs4: connection reset"},
			"Node NODE does not reach the mount target of file system SYSTEM.", "Let TCP port 2049 from the nodes into the security group of the mount target.",
			"aws efs describe-mount-targets --file-system-id SYSTEM", pageTarget, "event/network/SYSTEM/ZONE", []string{"event/mount"}},
		{[]string{"invalidargument", "invalid argument", "provisioning mode", "missing provisioningmode", "missing filesystemid"},
			"The driver refuses the parameters of the StorageClass.", "Make a class with the right parameters: those of a class cannot be changed.",
			"oc get storageclasses -o yaml", pageUse, "event/provision/DRIVER", []string{"provision"}},
	}
}

// events finds what Kubernetes says of a subject that does not work, and that nothing else explains.
func events(f *facts) []Finding {
	s := f.subject
	if s.works() {
		return nil
	}
	var all []Finding
	for i := range s.events {
		if found := f.event(&s.events[i]); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// event is what one event says; nil if it says nothing of its own.
func (f *facts) event(one *corev1.Event) *Finding {
	s := f.subject
	if one.Type != corev1.EventTypeWarning || one.InvolvedObject.Kind == "Pod" && one.Reason == "FailedScheduling" && s.nodeOf() != "" {
		return nil
	}
	share, driver := f.shareOf(one)
	zone := ""
	if node := f.findNode(s.nodeOf()); node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	fill := strings.NewReplacer("NAMESPACE", s.namespace, "NODE", s.nodeOf(), "SYSTEM", share.FileSystem, "ZONE", zone, "DRIVER", driver)
	object := one.InvolvedObject.Kind + " " + one.InvolvedObject.Namespace + "/" + one.InvolvedObject.Name
	found := &Finding{Severity: Error, Object: object, Said: clip(one.Reason + ": " + one.Message), level: ofEvent}
	lower := strings.ToLower(one.Message)
	for _, symptom := range symptoms() {
		if !slices.ContainsFunc(symptom.words, func(word string) bool { return strings.Contains(lower, word) }) {
			continue
		}
		if strings.Contains(symptom.topic, "SYSTEM") && share.FileSystem == "" {
			continue
		}
		found.Cause, found.Do, found.Command, found.Page = fill.Replace(symptom.cause), symptom.do, fill.Replace(symptom.command), string(symptom.page)
		found.topic = fill.Replace(symptom.topic)
		found.effects = symptom.effects
		return found
	}
	return f.rawEvent(one, found, fill)
}

// rawEvent is an event of which nothing more is known than its reason.
func (f *facts) rawEvent(one *corev1.Event, found *Finding, fill *strings.Replacer) *Finding {
	topics := map[string]string{
		"FailedMount": "event/mount/SYSTEM/ZONE", "FailedAttachVolume": "event/attach", "ProvisioningFailed": "event/provision/DRIVER",
		"FailedScheduling": "event/schedule", "FailedCreate": "event/create", "FailedBinding": "event/provision/DRIVER", "FailedMapVolume": "event/mount",
	}
	topic, is := topics[one.Reason]
	if !is {
		return nil
	}
	causes := map[string]string{
		"FailedMount": "Kubernetes cannot mount a volume of the pod.", "FailedAttachVolume": "Kubernetes cannot attach a volume of the pod to its node.",
		"ProvisioningFailed": "The driver cannot make a volume for the PersistentVolumeClaim.", "FailedScheduling": "Kubernetes finds no node for the pod.",
		"FailedCreate": "Kubernetes cannot create the pod or its PersistentVolumeClaim.", "FailedBinding": "Kubernetes cannot bind the PersistentVolumeClaim.",
		"FailedMapVolume": "Kubernetes cannot map a volume of the pod.",
	}
	found.Cause, found.Page, found.level = causes[one.Reason], string(pageTrouble), ofUnexplained
	found.Do = "Do what the message says; the lines of the driver's log below may say more."
	found.Command = fmt.Sprintf("oc -n %s get events", one.InvolvedObject.Namespace)
	found.topic, found.effects = fill.Replace(topic), nil
	return found
}

// shareOf is the share and the driver of the claim that an event speaks of, or else of the first claim.
func (f *facts) shareOf(one *corev1.Event) (efs.Share, string) {
	var share efs.Share
	driver := ""
	for i, claim := range f.subject.claims {
		named := strings.Contains(one.Message, claim.name) || one.InvolvedObject.Name == claim.name ||
			claim.volume != nil && strings.Contains(one.Message, claim.volume.Name)
		if named || i == 0 {
			share, driver = claim.share(), claim.driver
		}
		if named {
			break
		}
	}
	return share, driver
}

// unexplained finds a pod that waits for its volumes without anybody having said why.
func unexplained(f *facts) []Finding {
	s := f.subject
	if s == nil || s.pod == nil || s.works() || s.pod.Spec.NodeName == "" || len(s.claims) == 0 || !isCreating(s.pod) {
		return nil
	}
	share, zone := s.claims[0].share(), ""
	if node := f.findNode(s.pod.Spec.NodeName); node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	return []Finding{{
		Severity: Error, Object: s.object(), Page: string(pageTrouble), level: ofUnexplained, topic: topicOf("event", "mount", share.FileSystem, zone),
		Cause: "The pod waits for its volumes, and nobody has said why.", Do: "Wait a minute, and run the command again.",
		Command: fmt.Sprintf("oc -n %s describe pod %s", s.namespace, s.name),
	}}
}

// isCreating reports whether no container of a pod has started.
func isCreating(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(one corev1.ContainerStatus) bool {
		return one.State.Waiting == nil || one.State.Waiting.Reason != "ContainerCreating"
	})
}
