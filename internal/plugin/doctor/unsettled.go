package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// rawWarnings is the largest number of warnings about a subject that doctor repeats.
const rawWarnings = 3

// unsettled reports a subject that is not in its wanted state, although no check found a problem. Its finding says that doctor does not know why.
func unsettled(f *facts, found []Finding) []Finding {
	s := f.subject
	if s == nil || s.answer != plugin.Present || slices.ContainsFunc(found, func(one Finding) bool { return one.Severity != Info }) {
		return nil
	}
	state := s.state()
	if state == "" {
		return nil
	}
	one := Finding{
		Severity: Unknown, Cause: state, Object: s.object(), Said: s.raw(), Do: "Read the events and the conditions of the object.",
		Command: strings.ReplaceAll(toCopy("oc -n %s describe %s %s", s.namespace, s.kind, s.name), "oc -n  ", "oc "),
		Page:    string(pageTrouble),
		topic:   "subject/state", level: ofUnexplained, symptom: true,
	}
	if s.kind == kindClaim && state == waitsForConsumer {
		one.Severity, one.Do, one.Page = Warning, "Create a pod that uses it; the driver then provisions a volume in the zone of the pod.", string(pageUse)
	}
	return []Finding{one}
}

// waitsForConsumer is the state of a PVC of a class with WaitForFirstConsumer.
const waitsForConsumer = "The PersistentVolumeClaim waits for its first pod, because its StorageClass has WaitForFirstConsumer."

// state returns a sentence about the subject's state. If the subject is in its wanted state, the result is empty.
func (s *subject) state() string {
	switch s.kind {
	case kindPod:
		return stateOfPod(s.pod, s.works())
	case kindClaim:
		return s.claims[0].state(s)
	case kindShared:
		if s.shared != nil && !meta.IsStatusConditionTrue(s.shared.Status.Conditions, v1alpha1.ConditionReady) {
			return "The SharedVolume is not Ready, and doctor does not know why."
		}
	case kindNode:
		if s.node != nil && !nodeIsReady(s.node) {
			return "The node is not Ready, and doctor does not know why."
		}
	}
	return ""
}

func stateOfPod(pod *corev1.Pod, works bool) string {
	switch {
	case pod == nil:
		return ""
	case pod.DeletionTimestamp != nil:
		return "The pod is Terminating, and doctor does not know what it waits for."
	case works:
		return ""
	default:
		return "The pod is not ready, and doctor does not know why."
	}
}

func (c claim) state(s *subject) string {
	switch {
	case c.pvc == nil:
		return ""
	case c.pvc.DeletionTimestamp != nil:
		return "The PersistentVolumeClaim is Terminating: Kubernetes deletes it when no pod uses it."
	case c.pvc.Status.Phase == corev1.ClaimLost:
		return "The PersistentVolumeClaim has lost its PersistentVolume."
	case c.waits() && c.class != nil && c.waitsForPod(s):
		return waitsForConsumer
	case c.waits():
		return "The PersistentVolumeClaim is not bound, and doctor does not know why."
	case c.growing():
		return "The PersistentVolumeClaim has not grown to the requested size, and doctor does not know why."
	}
	return ""
}

// growing reports whether a PVC requests more storage than its volume has.
func (c claim) growing() bool {
	wanted, has := c.pvc.Spec.Resources.Requests[corev1.ResourceStorage], c.pvc.Status.Capacity[corev1.ResourceStorage]
	return !has.IsZero() && wanted.Cmp(has) > 0
}

// raw repeats the last warnings about a subject, and the subject's conditions.
func (s *subject) raw() string {
	var lines []string
	for i := range s.events {
		if one := &s.events[i]; one.Type == corev1.EventTypeWarning && len(lines) < rawWarnings {
			lines = append(lines, clip(one.Reason+": "+one.Message))
		}
	}
	add := func(kind, status, reason, message string) {
		lines = append(lines, clip(strings.Trim(kind+"="+status+" "+reason+": "+message, ": ")))
	}
	switch {
	case s.pod != nil:
		for _, one := range s.pod.Status.Conditions {
			if one.Status != corev1.ConditionTrue {
				add(string(one.Type), string(one.Status), one.Reason, one.Message)
			}
		}
	case s.shared != nil:
		for _, one := range s.shared.Status.Conditions {
			if one.Status != metav1.ConditionTrue {
				add(one.Type, string(one.Status), one.Reason, one.Message)
			}
		}
	case s.kind == kindClaim && s.claims[0].pvc != nil:
		for _, one := range s.claims[0].pvc.Status.Conditions {
			add(string(one.Type), string(one.Status), one.Reason, one.Message)
		}
	}
	return strings.Join(lines, " | ")
}
