package doctor

import (
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// mountsStalled is the type, without the driver's prefix, of the condition about mounts that hang. Pods of a DaemonSet report such mounts to
// Prometheus.
const mountsStalled = "MountsStalled"

// hangingMounts makes one finding from each line of the condition. If the line is about a node, or counts further nodes, the finding is of severity
// Error. If the line says what is unknown, the finding is of severity Info.
func hangingMounts(f *facts) []Finding {
	d := f.driver(efs.DriverName)
	if d == nil || d.CR == nil || d.Profile == nil || !f.about(d.Name) {
		return nil
	}
	var all []Finding
	for _, condition := range d.CR.Status.Conditions {
		if condition.Type != d.Profile.Prefix+mountsStalled || condition.Status == operatorv1.ConditionFalse {
			continue
		}
		for text := range strings.Lines(condition.Message) {
			all = append(all, hangingMount(f, strings.TrimSpace(text), condition.Status))
		}
	}
	return all
}

func hangingMount(f *facts, text string, status operatorv1.ConditionStatus) Finding {
	found := Finding{
		Severity: Info, Object: crOf(efs.DriverName), Said: clip(text), Page: string(pageStalled), level: ofNode, general: f.subject != nil,
		Cause: "It is unknown whether mounts of EFS hang.",
		Do:    "Make Prometheus read the metrics of the pods of DaemonSet aws-efs-node-health.",
		topic: topicOf(mountsStalled, "unknown"),
	}
	node, _, isNode := strings.Cut(strings.TrimPrefix(text, "node "), ":")
	switch {
	case status != operatorv1.ConditionTrue, strings.HasPrefix(text, "it is unknown"):
		return found
	case isNode && strings.HasPrefix(text, "node "):
		found.Cause, found.topic = "Mounts of EFS hang on node "+node+".", topicOf(mountsStalled, node)
		found.Command = toCopy("oc get pods -A -o wide --field-selector spec.nodeName=%s", node)
		found.general = f.subject != nil && f.subject.nodeOf() != node
	default:
		found.Cause, found.topic = "Mounts of EFS hang on further nodes.", topicOf(mountsStalled, "more")
	}
	found.Severity = Error
	found.Do = "Find the cause with the help of the page, and do not unmount by force."
	return found
}
