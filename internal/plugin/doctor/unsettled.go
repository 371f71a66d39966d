package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// rawWarnings is the largest number of events of type Warning that method raw repeats.
const rawWarnings = 3

// unsettled returns a finding if the subject is not in its wanted state, and no other finding names the cause or the state. A finding of severity
// Warning does not count as a cause, because it may be about another problem.
func unsettled(f *facts, found []Finding) []Finding {
	s := f.subject
	if s == nil || s.answer != plugin.Present || slices.ContainsFunc(found, func(one Finding) bool {
		return one.Severity == Error || one.Severity == Unknown || one.state
	}) {
		return nil
	}
	state := s.state()
	if state == "" {
		return nil
	}
	return []Finding{{
		Severity: Unknown, Cause: state, Object: s.object(), Said: s.raw(), Do: "Read the events and the conditions of the object.",
		Command: s.describe(), Page: string(pageTrouble), topic: "subject/state", level: ofUnexplained, symptom: true,
	}}
}

// state returns a sentence that says in which unwanted state the subject is. If the subject is in its wanted state, the result is empty.
func (s *subject) state() string {
	switch s.kind {
	case kindPod:
		return stateOfPod(s.pod, s.works())
	case kindClaim:
		return s.claims[0].state()
	case kindVolume:
		return stateOfVolume(s.volume)
	case kindShared:
		switch {
		case s.shared == nil:
		case s.shared.DeletionTimestamp != nil:
			return "The SharedVolume is Terminating, and doctor does not know what it waits for."
		case !meta.IsStatusConditionTrue(s.shared.Status.Conditions, v1alpha1.ConditionReady):
			return "The SharedVolume is not Ready, and doctor does not know why."
		}
	case kindNode:
		switch {
		case s.node == nil:
		case s.node.DeletionTimestamp != nil:
			return "The node is Terminating, and doctor does not know what it waits for."
		case !nodeIsReady(s.node):
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

func (c claim) state() string {
	switch {
	case c.pvc == nil:
		return ""
	case c.pvc.DeletionTimestamp != nil:
		return "The PersistentVolumeClaim is Terminating, and doctor does not know what it waits for."
	case c.pvc.Status.Phase == corev1.ClaimLost:
		return "The PersistentVolumeClaim has lost its PersistentVolume."
	case c.waits():
		return "The PersistentVolumeClaim is not bound, and doctor does not know why."
	case c.growing():
		return "The PersistentVolumeClaim has not grown to the requested size, and doctor does not know why."
	}
	return ""
}

func stateOfVolume(one *corev1.PersistentVolume) string {
	switch {
	case one == nil:
		return ""
	case one.DeletionTimestamp != nil:
		return "The PersistentVolume is Terminating, and doctor does not know what it waits for."
	case one.Status.Phase == corev1.VolumeBound || one.Status.Phase == corev1.VolumeAvailable:
		return ""
	default:
		return fmt.Sprintf("The PersistentVolume is in phase %q, and doctor does not know why.", one.Status.Phase)
	}
}

// growing reports whether a PVC requests more storage than its status reports as capacity.
func (c claim) growing() bool {
	if c.pvc == nil {
		return false
	}
	wanted, has := c.pvc.Spec.Resources.Requests[corev1.ResourceStorage], c.pvc.Status.Capacity[corev1.ResourceStorage]
	return !has.IsZero() && wanted.Cmp(has) > 0
}

// raw returns a text with the newest events of type Warning about a subject, and the subject's conditions.
func (s *subject) raw() string {
	var lines []string
	for i := range s.events {
		if one := &s.events[i]; one.Type == corev1.EventTypeWarning && len(lines) < rawWarnings {
			lines = append(lines, clip(one.Reason+": "+one.Message))
		}
	}
	for _, one := range s.conditions() {
		lines = append(lines, clip(strings.Trim(one, ": ")))
	}
	return strings.Join(lines, " | ")
}

// where returns a text with the subject's node, and with the newest event of type Warning about the subject. If the subject has no node, the text is
// empty.
func (s *subject) where() string {
	node := s.nodeOf()
	if node == "" {
		return ""
	}
	for i := range s.events {
		if one := &s.events[i]; one.Type == corev1.EventTypeWarning {
			return "; node " + node + ": " + clip(one.Reason+": "+one.Message)
		}
	}
	return "; node " + node
}

// conditions returns the conditions of a subject that may say what is wrong.
func (s *subject) conditions() []string {
	var lines []string
	add := func(kind, status, reason, message string) {
		lines = append(lines, kind+"="+status+" "+reason+": "+message)
	}
	switch {
	case s.pod != nil:
		for _, one := range s.pod.Status.Conditions {
			if one.Status != corev1.ConditionTrue {
				add(string(one.Type), string(one.Status), one.Reason, one.Message)
			}
		}
	case s.node != nil:
		for _, one := range s.node.Status.Conditions {
			if one.Type == corev1.NodeReady {
				add(string(one.Type), string(one.Status), one.Reason, one.Message)
			}
		}
	case s.volume != nil:
		if text := s.volume.Status.Reason + ": " + s.volume.Status.Message; text != ": " {
			lines = append(lines, text)
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
	return lines
}
