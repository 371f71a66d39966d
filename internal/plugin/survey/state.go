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
	// Available means that all is well.
	Available State = "Available"
	// Progressing means that the driver works, and something is being rolled out or waited for.
	Progressing State = "Progressing"
	// Degraded means that the operator can't do something.
	Degraded State = "Degraded"
	// Unavailable means that the driver does not work.
	Unavailable State = "Unavailable"
	// Removing means that the driver is on its way out, Removed that it has gone and its ClusterCSIDriver says so.
	Removing State = "Removing"
	Removed  State = "Removed"
	// Unmanaged means that the operator touches nothing.
	Unmanaged State = "Unmanaged"
	// NoReport means that no operator has written a status.
	NoReport State = "NoReport"
	// NotRequested means that an operator is there, and no ClusterCSIDriver.
	NotRequested State = "NotRequested"
	// ThirdParty means that nobody of this repository or of OpenShift operates the driver.
	ThirdParty State = "ThirdParty"
)

func selects(namespace string, selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	if pod.Namespace != namespace || selector == nil {
		return false
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !matches.Empty() && matches.Matches(labels.Set(pod.Labels))
}

// State is what a driver comes to. Known tells whether ClusterCSIDrivers could be read.
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

// HelmRelease begins the name of a holder that is a release of Helm.
const HelmRelease = "Helm release "

// Holder is who has made the CSIDriver, if that is nobody who would keep it for a ClusterCSIDriver; empty if it is, or if nobody can tell.
func (d Driver) Holder() string {
	if d.CSIDriver == nil || d.Known == nil {
		return ""
	}
	manager := d.CSIDriver.Labels[openshift.ManagedByLabel]
	switch {
	// OpenShift's operators and those of this repository for drivers of the payload write this annotation.
	case manager == d.Known.Operator, openshift.IsManaged(d.CSIDriver.Annotations):
		return ""
	case d.CSIDriver.Annotations["meta.helm.sh/release-name"] != "":
		return HelmRelease + d.CSIDriver.Annotations["meta.helm.sh/release-namespace"] + "/" + d.CSIDriver.Annotations["meta.helm.sh/release-name"]
	case manager != "":
		return manager
	case d.CR != nil && d.State() != Unavailable && d.State() != NoReport:
		// An older operator may leave no mark.
		return ""
	}
	for _, entry := range d.CSIDriver.ManagedFields {
		return entry.Manager
	}
	return "somebody else"
}

// Rollout is how far the roll-out of the node pods is.
type Rollout struct {
	Updated int32 `json:"updated"`
	Desired int32 `json:"desired"`
	Percent int32 `json:"percent"`
	// Minutes is how long it will take, as the operator says; 0 if it does not.
	Minutes string `json:"minutes,omitempty"`
}

// Rollout tells how far it is; nil if none is under way.
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
		// The text is that of nodes.Progress.
		if match := regexp.MustCompile(`this takes about (\d+) minutes`).FindStringSubmatch(condition.Message); match != nil {
			found.Minutes = match[1]
		}
	}
	return &found
}

// String is the roll-out for a table.
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
	if d.CR == nil || d.Known == nil {
		return nil
	}
	return status.Find(d.CR.Status.Conditions, d.Known.Prefix+"DriverNodeServiceController"+kind)
}

// HeldUp is what the driver waits for or suffers from, or why it is not there, as its operator says; empty if nothing.
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
		for _, part := range status.UnionOf(one.kind, conditions).Parts {
			if part.Message != "" && part.Status == one.bad {
				return FirstLine(part.Message)
			}
		}
		if sum := status.Find(conditions, one.kind); sum != nil && sum.Status == one.bad && sum.Message != "" {
			return FirstLine(sum.Message)
		}
	}
	return ""
}

// ActionRequired is what the operator waits for that only a person can do; empty if there is nothing.
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

// Disabled is the condition with which an operator says why its driver is not there, and that this is as it should be; nil if there is none.
func (d Driver) Disabled() *operatorv1.OperatorCondition {
	if d.CR == nil {
		return nil
	}
	at := slices.IndexFunc(d.CR.Status.Conditions, func(one operatorv1.OperatorCondition) bool {
		// The type is that of the controller of ClusterCSIDrivers.
		return strings.HasSuffix(one.Type, "DriverDisabled") && one.Status == operatorv1.ConditionTrue
	})
	if at < 0 {
		return nil
	}
	return &d.CR.Status.Conditions[at]
}

// FirstLine is the first line of a message.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// OperatorText names the operator and says whether it runs.
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

// Runs reports whether a Deployment has a pod that is available.
func Runs(deployment appsv1.Deployment) bool { return deployment.Status.AvailableReplicas > 0 }
