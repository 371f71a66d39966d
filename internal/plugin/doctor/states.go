package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Kubernetes adds these finalizers to all PersistentVolumeClaims and PersistentVolumes. It removes them from a deleted PersistentVolumeClaim that no
// pod uses, and from a deleted PersistentVolume that is not bound.
const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
)

// claimStates finds a PersistentVolumeClaim that is Terminating, and a PersistentVolumeClaim that waits for its first pod.
func claimStates(f *facts) []Finding {
	return f.eachClaim(func(one claim, object, topic string) *Finding {
		switch {
		case one.pvc == nil:
			return nil
		case one.pvc.DeletionTimestamp != nil:
			return f.terminating(one, object, topic)
		case f.subject.kind != kindClaim || one.class == nil || !one.waits() || one.pvc.Spec.VolumeName != "" || !one.waitsForPod(f.subject):
			return nil
		}
		found := &Finding{
			Severity: Warning, Object: object, Page: string(pageUse), Command: f.subject.describe(), state: true, symptom: true,
			topic: topic + "/waits", level: ofUnexplained,
			Cause: "The PersistentVolumeClaim waits for its first pod, because its StorageClass has WaitForFirstConsumer.",
			Do:    "Create a pod that uses the PersistentVolumeClaim; the driver then provisions a volume in the zone of the pod.",
		}
		if users := f.subject.users; len(users) > 0 {
			found.Cause = "The PersistentVolumeClaim waits until Kubernetes has chosen a node for its first pod."
			found.Do, found.Said = "Find out why the pod has no node.", listed("pods", users)
			found.Command = toCopy("oc storage doctor pod %s -n %s", users[0], f.subject.namespace)
		}
		return found
	})
}

// terminating returns a finding about a PersistentVolumeClaim that is being deleted. The finding says what the deletion waits for.
func (f *facts) terminating(one claim, object, topic string) *Finding {
	s := f.subject
	finalizers := one.pvc.Finalizers
	found := &Finding{
		Severity: Warning, Object: object, Page: string(pageTrouble), Command: toCopy("oc -n %s describe pvc %s", s.namespace, one.name),
		Said: listed("finalizers", finalizers), topic: topic + "/terminating", level: ofVolume, state: s.kind == kindClaim || s.kind == kindVolume,
	}
	if s.pod != nil {
		found.Cause = fmt.Sprintf("PersistentVolumeClaim %s is Terminating: Kubernetes deletes it when the last pod that uses it has ended.", one.name)
		found.Do = "Back up the data if you need it: with the reclaim policy Delete, the volume is deleted too."
		if s.pod.Spec.NodeName == "" {
			// The scheduler refuses such a pod (Kubernetes v1.36, pkg/scheduler/framework/plugins/volumebinding).
			found.Severity, found.effects = Error, []string{"event/schedule"}
			found.Cause = fmt.Sprintf("PersistentVolumeClaim %s is Terminating, so Kubernetes starts no new pod with it.", one.name)
			found.Do = "Create a PersistentVolumeClaim of another name, or wait until Kubernetes has deleted this one, and create it again."
		}
		return found
	}
	others := slices.DeleteFunc(slices.Clone(finalizers), func(name string) bool { return name == claimProtection })
	switch {
	case len(s.users) > 0:
		found.Cause = "The PersistentVolumeClaim is Terminating: Kubernetes deletes it when no pod uses it."
		found.Do, found.Said = "Delete these pods, or wait until they are gone.", listed("pods", s.users)+"; "+found.Said
	case len(others) > 0:
		found.Cause = "The PersistentVolumeClaim is Terminating: finalizers of other programs hold it."
		found.Do = "Find out why the programs that added these finalizers do not remove them."
	default:
		found.Cause = "The PersistentVolumeClaim is Terminating: Kubernetes deletes it when no pod uses it."
		found.Do = "Find the pods that use the PersistentVolumeClaim. If no pod uses it, wait some minutes."
	}
	return found
}

// listed returns a text such as "pods: a, b", which begins with argument "what". Without names, the text is "pods: none".
func listed(what string, names []string) string {
	if len(names) == 0 {
		return what + ": none"
	}
	return clip(what + ": " + strings.Join(names, ", "))
}

// volumeStates names states of a PersistentVolume that is not Bound.
func volumeStates(f *facts) []Finding {
	s := f.subject
	if s == nil || s.volume == nil {
		return nil
	}
	one := s.volume
	found := Finding{
		Severity: Warning, Object: s.object(), Page: string(pageTrouble), Command: s.describe(), Said: clip(one.Status.Message),
		topic: topicOf("volume", one.Name, "state"), level: ofVolume, state: true,
	}
	deletes := one.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case one.Status.Phase == corev1.VolumeFailed:
		return []Finding{f.failedVolume(found)}
	case one.DeletionTimestamp != nil:
		terminatingVolume(s, &found)
	case one.Status.Phase == corev1.VolumeReleased && deletes:
		if len(s.events) > 0 {
			// The events name the cause, and other checks make findings from events.
			return nil
		}
		found.Cause = fmt.Sprintf("PersistentVolume %s is Released: driver %s has not deleted it yet.", one.Name, s.claims[0].driver)
		found.Do = "Wait some minutes. If it stays Released, read the log of the driver's controller."
		found.Said = "phase Released; persistentVolumeReclaimPolicy Delete"
	case one.Status.Phase == corev1.VolumeReleased:
		found.Cause = fmt.Sprintf("PersistentVolume %s is Released: its PersistentVolumeClaim is gone, and its reclaim policy keeps the data.", one.Name)
		found.Do = "Delete the PersistentVolume, or remove its claimRef so that a new PersistentVolumeClaim can use it."
		found.Said = clip(fmt.Sprintf("phase Released; persistentVolumeReclaimPolicy %s; claimRef %s/%s", one.Spec.PersistentVolumeReclaimPolicy,
			s.namespace, s.claims[0].name))
	case one.Status.Phase == corev1.VolumeBound && s.claims[0].answer == plugin.Absent:
		found.Cause = fmt.Sprintf("PersistentVolume %s is Bound to PersistentVolumeClaim %s/%s, which does not exist.",
			one.Name, s.namespace, s.claims[0].name)
		found.Do, found.Said = "Wait a minute: Kubernetes then marks the PersistentVolume as Released.", "phase Bound; the PersistentVolumeClaim is absent"
	case one.Status.Phase == corev1.VolumeAvailable:
		found.Severity, found.Cause = Info, fmt.Sprintf("PersistentVolume %s is Available: no PersistentVolumeClaim uses it yet.", one.Name)
		found.Do = "Create a PersistentVolumeClaim for it."
	default:
		return nil
	}
	return []Finding{found}
}

// terminatingVolume describes a PersistentVolume that is being deleted.
func terminatingVolume(s *subject, found *Finding) {
	one := s.volume
	others := slices.DeleteFunc(slices.Clone(one.Finalizers), func(name string) bool { return name == volumeProtection })
	found.Said = listed("finalizers", one.Finalizers)
	switch {
	case s.claims[0].pvc != nil:
		found.Cause = fmt.Sprintf("PersistentVolume %s is Terminating: Kubernetes deletes it when its PersistentVolumeClaim is deleted.", one.Name)
		found.Do = "Back up the data, or create the PersistentVolume again when this one is gone. A deletion can't be undone."
		found.Command = toCopy("oc -n %s describe pvc %s", s.namespace, s.claims[0].name)
	case len(others) > 0:
		found.Cause = fmt.Sprintf("PersistentVolume %s is Terminating: these finalizers hold it.", one.Name)
		found.Do = "Find out why the driver, or the program that added the finalizers, does not remove them."
	default:
		found.Cause = fmt.Sprintf("PersistentVolume %s is Terminating.", one.Name)
		found.Do = "Wait a minute, and run the command again."
	}
}

// failedVolume describes a PersistentVolume that its driver could not delete. It quotes the event about the failed
// deletion.
func (f *facts) failedVolume(found Finding) Finding {
	one := f.subject.volume
	for i := range f.subject.events {
		if event := &f.subject.events[i]; event.Reason == "VolumeFailedDelete" {
			found.Said = clip(event.Reason + ": " + event.Message)
			break
		}
	}
	found.Severity, found.effects = Error, []string{"event/delete"}
	found.Cause = fmt.Sprintf("PersistentVolume %s has failed: driver %s could not delete it.", one.Name, f.subject.claims[0].driver)
	found.Do = "Do what the message says. To keep the data instead, set persistentVolumeReclaimPolicy to Retain."
	if lower := strings.ToLower(found.Said); f.subject.claims[0].driver == efs.DriverName && one.Annotations["pv.kubernetes.io/provisioned-by"] == "" &&
		(strings.Contains(lower, "access denied") || strings.Contains(lower, "accessdenied") || strings.Contains(lower, "unauthenticated")) {
		found.Cause = fmt.Sprintf("The driver may not delete the access point of PersistentVolume %s, because the driver did not create it.", one.Name)
		found.Do = "Set persistentVolumeReclaimPolicy to Retain, delete the PersistentVolume, and then the access point in AWS."
	}
	return found
}

// volumesFailed finds PersistentVolumes that their drivers could not delete, if the user asks about the whole cluster.
func volumesFailed(f *facts) []Finding {
	if f.subject != nil || len(f.failed) == 0 {
		return nil
	}
	var names []string
	for i := range f.failed {
		names = append(names, f.failed[i].Name)
	}
	slices.Sort(names)
	return []Finding{{
		Severity: Error, Object: "PersistentVolume " + names[0], Page: string(pageTrouble), Said: listed("PersistentVolumes", names),
		Cause:   fmt.Sprintf("Drivers could not delete %s in phase Failed.", plural(len(names), "PersistentVolume")),
		Do:      "Find the cause for each PersistentVolume.",
		Command: toCopy("oc storage doctor pv %s", names[0]), topic: "volume/failed", level: ofVolume,
	}}
}
