package doctor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// shared makes findings from the conditions of a SharedVolume.
func shared(f *facts) []Finding {
	s := f.subject
	if s == nil || s.shared == nil {
		return nil
	}
	sv := s.shared
	base := Finding{
		Severity: Error, Object: s.object(), Page: string(pageShared), Said: clip(sv.Status.Message), level: ofVolume,
		Command: toCopy("oc -n %s describe sharedvolume %s", s.namespace, s.name),
	}
	if len(sv.Status.Conditions) == 0 {
		base.Cause, base.Do = "No operator has reconciled the SharedVolume.", "Read the events of the SharedVolume and the log of the operator."
		base.topic, base.level = topicOf("report", efs.DriverName, "shared"), ofVolume
		return []Finding{base}
	}
	all := unasked(base, sv)
	for _, one := range sv.Status.Conditions {
		if one.Status != metav1.ConditionFalse {
			continue
		}
		found := base
		if fillShared(&found, sv, one) {
			all = append(all, found)
		}
	}
	return all
}

// unasked returns a finding if the operator has not asked AWS about the SharedVolume. In this case, the SharedVolume has no condition Mountable.
func unasked(base Finding, sv *v1alpha1.SharedVolume) []Finding {
	if !isTrue(sv, v1alpha1.ConditionReady) || meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionMountable) != nil ||
		meta.IsStatusConditionFalse(sv.Status.Conditions, v1alpha1.ConditionAllowed) {
		return nil
	}
	base.Severity, base.Said, base.Page = Info, "", string(pageAWS)
	base.Cause = fmt.Sprintf("The operator has not checked whether file system %s exists in AWS: phase Ready does not mean that it exists.",
		sv.Spec.FileSystemID)
	base.Do = "Check the ID, or ask an administrator whether the operator can reach AWS."
	base.Command = toCopy("aws efs describe-access-points --file-system-id %s", sv.Spec.FileSystemID)
	base.topic = topicOf("shared", sv.Namespace, sv.Name, "unasked")
	return []Finding{base}
}

// fillShared fills in a finding for a condition that is False. It returns false if the condition adds no information.
func fillShared(found *Finding, sv *v1alpha1.SharedVolume, one metav1.Condition) bool {
	found.Said = clip(one.Message)
	at := topicOf("shared", sv.Namespace, sv.Name)
	claim := topicOf("claim", sv.Namespace, sv.Status.ClaimRef.Name)
	switch one.Type {
	case v1alpha1.ConditionDriverInstalled:
		found.Cause = "The EFS driver, which would mount the SharedVolume, is not installed."
		found.Do, found.Page, found.Command = "Ask an administrator to create the ClusterCSIDriver.", string(pageInstall), "oc get clustercsidrivers"
		found.topic = topicOf("csidriver", efs.DriverName)
	case v1alpha1.ConditionAllowed:
		share := sv.Spec.FileSystemID + "/" + sv.Spec.AccessPointID
		found.Cause = fmt.Sprintf("Namespace %s may not use access point %s.", sv.Namespace, sv.Spec.AccessPointID)
		found.Do, found.Page = "Ask an administrator to list the access point for the namespace.", string(pageLimits)
		// The controller of SharedVolumes reads this annotation.
		found.Command = toCopy("oc annotate namespace %s --overwrite aws-efs.managed.openshift.io/allowed-shares=%s", sv.Namespace, share)
		found.topic, found.level, found.effects = at+"/allowed", ofClass, []string{at, claim}
		if isTrue(sv, v1alpha1.ConditionReady) {
			// The namespace was allowed to use the access point before, and the SharedVolume stays bound.
			found.Severity = Warning
		}
	case v1alpha1.ConditionMountable:
		mountable(found, sv, one.Reason)
		found.topic, found.effects = topicOf("event", "mountable", sv.Spec.FileSystemID), []string{"event/mount", "event/target", "event/network"}
	case v1alpha1.ConditionReady:
		found.topic, found.effects = at+"/ready", []string{claim}
		readyCause(found, sv, one)
	default:
		return false
	}
	return true
}

func isTrue(sv *v1alpha1.SharedVolume, kind string) bool {
	return meta.IsStatusConditionTrue(sv.Status.Conditions, kind)
}

// mountable fills in a finding for a reason of condition Mountable.
func mountable(found *Finding, sv *v1alpha1.SharedVolume, reason string) {
	system := sv.Spec.FileSystemID
	found.Do, found.Page = "Create a SharedVolume with correct IDs, and delete this one.", string(pageShared)
	switch reason {
	case efs.ReasonFileSystemNotFound:
		found.Cause = fmt.Sprintf("AWS has no file system %s in the region and the account of the cluster.", system)
	case efs.ReasonAccessPointNotFound:
		found.Cause = fmt.Sprintf("File system %s does not have access point %s.", system, sv.Spec.AccessPointID)
	case efs.ReasonMountTargetMissing:
		found.Cause = fmt.Sprintf("A zone with nodes of the cluster has no mount target of file system %s.", system)
		found.Do, found.Page = "Create a mount target in a subnet of that zone, and allow inbound TCP port 2049.", string(pageTarget)
	case efs.ReasonNoNodeInZone:
		found.Cause = fmt.Sprintf("File system %s is One Zone, and no node is in its zone.", system)
		found.Do, found.Page = "Add a node in that zone.", string(pageOneZone)
	default:
		found.Cause = fmt.Sprintf("Pods cannot mount file system %s. The reason is %s.", system, reason)
		found.Do = "Do what the message says."
	}
}

// readyCause fills in why a SharedVolume is not Ready.
func readyCause(found *Finding, sv *v1alpha1.SharedVolume, one metav1.Condition) {
	text, is := readyTexts()[one.Reason]
	if !is {
		text = [2]string{fmt.Sprintf("The SharedVolume is %s, with reason %s.", sv.Status.Phase, one.Reason), "Do what the message says."}
	}
	found.Cause, found.Do = text[0], text[1]
	if one.Reason == "QuotaExceeded" {
		found.Command = toCopy("oc -n %s describe quota", sv.Namespace)
	}
}

// readyTexts returns a cause and advice for each reason of condition Ready of a SharedVolume. The reason is the key.
func readyTexts() map[string][2]string {
	const (
		wait     = "Wait a minute, and run the command again."
		admin    = "Show the message to an administrator."
		stranger = "Find out who created the PVC, and delete it when no pod uses it."
		end      = "Stop the pods that use the PVC; the operator then creates the PVC again."
	)
	return map[string][2]string{
		"InvalidIDs": {"An ID of the SharedVolume does not have the form of AWS's IDs.",
			"Delete the SharedVolume, and create another one with correct IDs."},
		"NameTaken":        {"A PVC or PersistentVolume with a name that the SharedVolume needs has another owner.", "Choose another name."},
		"VolumeTaken":      {"The PersistentVolume of the SharedVolume is bound to another PVC.", stranger},
		"QuotaExceeded":    {"The PVC of the SharedVolume would exceed the quota of the namespace.", "Delete unused PVCs, or ask for a larger quota."},
		"ClaimDeleting":    {"The PVC of the SharedVolume was deleted while pods use it.", end},
		"VolumeDeleting":   {"The PersistentVolume of the SharedVolume was deleted while pods use it.", end},
		"ClaimChanged":     {"The PVC of the SharedVolume was replaced by a PVC for another volume.", "Delete the PVC when it is no longer needed."},
		"VolumeChanged":    {"The PersistentVolume of the SharedVolume was replaced.", "Ask an administrator to restore the PersistentVolume."},
		"Forbidden":        {"The API server forbids the PVC or the PersistentVolume of the SharedVolume.", admin},
		"Refused":          {"The API server refuses the PVC or the PersistentVolume of the SharedVolume.", admin},
		"WaitingForFormer": {"The PVC of a deleted SharedVolume with the same name still exists.", end},
		"Deleting":         {"Finalizers of other programs block the deletion of the SharedVolume.", "Find out which program added the finalizers."},
		"NotAllowed": {"The namespace may not use the access point of the SharedVolume.",
			"Ask an administrator to list the access point for the namespace."},
		"Binding":              {"Kubernetes has not bound the PVC of the SharedVolume yet.", wait},
		"Rebuilding":           {"The PVC or the PersistentVolume was deleted, and the operator is creating it again.", wait},
		"Creating":             {"The operator is creating the PVC and the PersistentVolume of the SharedVolume.", wait},
		"WaitingForFileSystem": {"AWS does not list the file system of the SharedVolume yet.", wait},
	}
}
