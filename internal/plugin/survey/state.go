package survey

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// State sums up a driver in one word.
type State string

// The states of a driver.
const (
	// Available means that the driver works, and that the operator is not changing it.
	Available State = "Available"
	// Progressing means that the driver works, and that the operator is rolling out a change or waits for something.
	Progressing State = "Progressing"
	// Degraded means that the operator reports a failure, while the driver works.
	Degraded State = "Degraded"
	// Unavailable means that the driver does not work.
	Unavailable State = "Unavailable"
	// Removing means that the operator is removing the driver. Removed means that the operator has removed the driver, and that the ClusterCSIDriver
	// remains.
	Removing State = "Removing"
	Removed  State = "Removed"
	// Unmanaged means that the driver works, and that the ClusterCSIDriver tells the operator to change nothing.
	Unmanaged State = "Unmanaged"
	// NoReport means that no operator has written a status.
	NoReport State = "NoReport"
	// NotRequested means that an operator runs, but that the driver has no ClusterCSIDriver.
	NotRequested State = "NotRequested"
	// ThirdParty means that neither an operator of this repository nor one of OpenShift manages the driver.
	ThirdParty State = "ThirdParty"
)

func selects(namespace string, selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	if pod.Namespace != namespace || selector == nil {
		return false
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !matches.Empty() && matches.Matches(labels.Set(pod.Labels))
}

// State derives the state of a driver from its ClusterCSIDriver and its CSIDriver.
func (d Driver) State() State {
	if d.CR == nil {
		if d.CSIDriver == nil {
			return NotRequested
		}
		return ThirdParty
	}
	is := func(kind string, value operatorv1.ConditionStatus) bool {
		found := status.Find(d.CR.Status.Conditions, kind)
		return found != nil && found.Status == value
	}
	progressing := is(status.Progressing, operatorv1.ConditionTrue)
	switch {
	case d.CR.DeletionTimestamp != nil, d.CR.Spec.ManagementState == operatorv1.Removed && progressing:
		return Removing
	case len(d.CR.Status.Conditions) == 0:
		return NoReport
	case d.CR.Spec.ManagementState == operatorv1.Removed && !is(status.Degraded, operatorv1.ConditionTrue):
		return Removed
	case !is(status.Available, operatorv1.ConditionTrue):
		return Unavailable
	case is(status.Degraded, operatorv1.ConditionTrue):
		return Degraded
	case progressing:
		return Progressing
	case d.CR.Spec.ManagementState == operatorv1.Unmanaged:
		return Unmanaged
	default:
		return Available
	}
}

// HelmRelease is the beginning of the text that Holder returns if a Helm release owns the CSIDriver.
const HelmRelease = "Helm release "

// Holder returns the third-party owner of the CSIDriver. It is empty if the owner is unknown, or is an operator of this repository or of
// OpenShift.
func (d Driver) Holder() string {
	if d.CSIDriver == nil || d.Profile == nil {
		return ""
	}
	manager := d.CSIDriver.Labels[openshift.ManagedByLabel]
	switch {
	// OpenShift's operators write this annotation, and so do this repository's operators for drivers of the payload.
	case manager == d.Profile.Operator, openshift.IsManaged(d.CSIDriver.Annotations):
		return ""
	case d.CSIDriver.Annotations["meta.helm.sh/release-name"] != "":
		return HelmRelease + d.CSIDriver.Annotations["meta.helm.sh/release-namespace"] + "/" + d.CSIDriver.Annotations["meta.helm.sh/release-name"]
	case manager != "":
		return manager
	case d.CR != nil && d.State() != Unavailable && d.State() != NoReport:
		// The CSIDriver has no mark of an owner. It may be from a predecessor, so its owner is unknown.
		return ""
	}
	for _, entry := range d.CSIDriver.ManagedFields {
		return entry.Manager
	}
	return "another owner"
}

// Rollout is the progress of a roll-out of node pods.
type Rollout struct {
	Updated int32 `json:"updated"`
	Desired int32 `json:"desired"`
	Percent int32 `json:"percent"`
	// Minutes is the operator's estimate of the remaining time. It is empty if the operator gives no estimate.
	Minutes string `json:"minutes,omitempty"`
}

// Rollout returns the progress of a roll-out. If no roll-out is under way, the result is nil.
func (d Driver) Rollout() *Rollout {
	if d.Nodes == nil || d.Nodes.Status.DesiredNumberScheduled == 0 {
		return nil
	}
	state := d.Nodes.Status
	found := Rollout{Updated: state.UpdatedNumberScheduled, Desired: state.DesiredNumberScheduled}
	if state.ObservedGeneration < d.Nodes.Generation {
		found.Updated = 0
	}
	found.Percent = found.Updated * 100 / found.Desired
	if found.Updated >= found.Desired {
		return nil
	}
	if condition := d.nodesCondition(status.Progressing); condition != nil && condition.Status == operatorv1.ConditionTrue {
		// nodes.Progress writes this text.
		if match := regexp.MustCompile(`this takes about (\d+) minutes`).FindStringSubmatch(condition.Message); match != nil {
			found.Minutes = match[1]
		}
	}
	return &found
}

// String formats the roll-out for a table.
func (r *Rollout) String() string {
	if r == nil {
		return "-"
	}
	text := fmt.Sprintf("%d%% (%d of %d)", r.Percent, r.Updated, r.Desired)
	if r.Minutes != "" {
		text += ", about " + r.Minutes + " min"
	}
	return text
}

func (d Driver) nodesCondition(kind string) *operatorv1.OperatorCondition {
	if d.CR == nil || d.Profile == nil {
		return nil
	}
	return status.Find(d.CR.Status.Conditions, d.Profile.Prefix+"DriverNodeServiceController"+kind)
}

// HeldUp returns what the operator reports: why the driver is not installed, the driver's problem, or what the driver waits for. If the operator
// reports nothing of this kind, the result is empty.
func (d Driver) HeldUp() string {
	if d.CR == nil {
		return ""
	}
	if disabled := d.Disabled(); disabled != nil {
		return FirstLine(disabled.Message)
	}
	conditions := d.CR.Status.Conditions
	kinds := []struct {
		kind string
		bad  operatorv1.ConditionStatus
	}{{status.Degraded, operatorv1.ConditionTrue}, {status.Available, operatorv1.ConditionFalse}, {status.Progressing, operatorv1.ConditionTrue}}
	for _, one := range kinds {
		parts := slices.DeleteFunc(slices.Clone(status.UnionOf(one.kind, conditions).Parts), func(part operatorv1.OperatorCondition) bool {
			return part.Message == "" || part.Status != one.bad
		})
		// If one of the conditions says that the user must act, everything else waits for this action. So report only that condition.
		if i := slices.IndexFunc(parts, func(part operatorv1.OperatorCondition) bool { return part.Reason == status.ActionRequired }); i >= 0 {
			return FirstLine(parts[i].Message)
		}
		if len(parts) > 0 {
			return FirstLine(parts[0].Message)
		}
		if sum := status.Find(conditions, one.kind); sum != nil && sum.Status == one.bad && sum.Message != "" {
			return FirstLine(sum.Message)
		}
	}
	return ""
}

// ActionRequired returns what the user must do before the operator can continue. If the user need not act, the result is empty.
func (d Driver) ActionRequired() string {
	if d.CR == nil {
		return ""
	}
	for _, one := range d.CR.Status.Conditions {
		if one.Reason == status.ActionRequired && one.Message != "" {
			return FirstLine(one.Message)
		}
	}
	return ""
}

// Disabled returns the condition with which an operator reports that it deliberately does not install the driver. If there is no such condition, the
// result is nil.
func (d Driver) Disabled() *operatorv1.OperatorCondition {
	if d.CR == nil {
		return nil
	}
	at := slices.IndexFunc(d.CR.Status.Conditions, func(one operatorv1.OperatorCondition) bool {
		// The controller of ClusterCSIDrivers sets this type.
		return strings.HasSuffix(one.Type, "DriverDisabled") && one.Status == operatorv1.ConditionTrue
	})
	if at < 0 {
		return nil
	}
	return &d.CR.Status.Conditions[at]
}

// FirstLine returns the first line of a message.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// OperatorText returns the name of the operator, and a note if the operator does not run as usual.
func (d Driver) OperatorText() string {
	switch {
	case len(d.Operators) == 0 && d.LeaseHolder != "":
		return d.LeaseHolder + " (holds the Lease)"
	case len(d.Operators) == 0:
		return ""
	case len(d.Operators) > 1:
		return fmt.Sprintf("%s/%s (%d copies)", d.Operators[0].Namespace, d.Operators[0].Name, len(d.Operators))
	case !Runs(d.Operators[0]):
		return fmt.Sprintf("%s/%s (not running)", d.Operators[0].Namespace, d.Operators[0].Name)
	}
	return d.Operators[0].Namespace + "/" + d.Operators[0].Name
}

// IsUnattended reports whether a driver has a ClusterCSIDriver, but no operator inside or outside of the cluster.
func (d Driver) IsUnattended() bool {
	return d.CR != nil && d.Profile != nil && len(d.Operators) == 0 && d.LeaseHolder == ""
}

// Runs reports whether a Deployment has an available pod.
func Runs(deployment appsv1.Deployment) bool { return deployment.Status.AvailableReplicas > 0 }
