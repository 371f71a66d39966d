package doctor

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// Each of these texts is a part of the type of a condition. The controller of ClusterCSIDrivers sets these conditions.
const (
	configObservation = "ConfigObservation"
	managementState   = "ManagementState"
	controllerService = "DriverControllerServiceController"
	nodeService       = "DriverNodeServiceController"
	credentials       = "CredentialsRequestController"
	// payloadCredentials is the part of condition types about credentials, for drivers whose CredentialsRequest comes with the OpenShift release.
	payloadCredentials = "CloudCredentials"
)

// conditions makes findings from the conditions of the operators. If several conditions of one service report a problem, these conditions have the
// same cause. So doctor prints only one of their findings.
func conditions(f *facts) []Finding {
	var all []Finding
	for _, d := range f.Drivers {
		if d.CR == nil || !f.about(d.Name) || d.State() == survey.Removed {
			continue
		}
		var found []Finding
		for _, kind := range []string{status.Degraded, status.Available, status.Progressing} {
			for _, one := range d.CR.Status.Conditions {
				service, is := strings.CutSuffix(one.Type, kind)
				if !is || service == "" {
					continue
				}
				if finding := conditionFinding(d, service, kind, one); finding != nil {
					finding.general = f.subject != nil
					found = append(found, *finding)
				}
			}
		}
		if len(found) == 0 && f.subject == nil {
			found = sums(d)
		}
		all = append(all, found...)
	}
	return all
}

// conditionFinding makes a finding from one condition. If the condition shows no problem, or if another check says more about the problem, the result
// is nil.
func conditionFinding(d survey.Driver, service, kind string, one operatorv1.OperatorCondition) *Finding {
	bad := operatorv1.ConditionTrue
	if kind == status.Available {
		bad = operatorv1.ConditionFalse
	}
	waitsForUser := one.Reason == status.ActionRequired && one.Message != ""
	if one.Status != bad && !waitsForUser || one.Reason == "VolumesInUse" {
		return nil
	}
	known := ""
	if d.Profile != nil {
		known = strings.TrimPrefix(service, d.Profile.Prefix)
	}
	found := &Finding{
		Severity: Error, Object: crOf(d.Name), Said: clip(one.Message), Page: string(pageDegraded), Command: logCommand(d),
		Cause: fmt.Sprintf("The operator of driver %s reports condition %s with reason %s.", d.Name, one.Type, one.Reason),
		Do:    "Do what the message says.", topic: topicOf("condition", d.Name, service), level: ofWorkload,
	}
	switch {
	case strings.Contains(known, credentials), known == payloadCredentials:
		credentialsFinding(d, kind, waitsForUser, found)
	case kind == status.Progressing:
		return progressing(d, one, found)
	case known == configObservation, known == managementState, service == configObservation, service == managementState:
		configurationFinding(d, one, found)
	case known == nodeService:
		nodeServiceFinding(d, one, found)
	case known == controllerService && waitsForUser:
		waitsForUserFinding(d, found)
	case known == controllerService:
		found.Page, found.Cause = string(pageController), fmt.Sprintf("The controller of driver %s is unhealthy.", d.Name)
		found.effects = []string{topicOf("controller", d.Name), topicOf("provision", d.Name)}
		if d.Controller != nil {
			found.Command = describe("deployment", &d.Controller.ObjectMeta, d.ControllerPods)
		}
	}
	return found
}

func configurationFinding(d survey.Driver, one operatorv1.OperatorCondition, found *Finding) {
	found.level, found.effects = ofConfiguration, ofDriver(d.Name)
	if one.Reason == "NotFollowed" {
		found.Severity, found.effects = Warning, nil
		found.Cause = fmt.Sprintf("The operator of driver %s cannot apply a part of the cluster's configuration.", d.Name)
	}
}

// credentialsFinding fills in a finding about a problem with the credentials of a driver.
func credentialsFinding(d survey.Driver, kind string, waitsForUser bool, found *Finding) {
	found.level, found.Page = ofConfiguration, string(pageCredentials)
	if kind == status.Progressing {
		found.Severity, found.Cause = Warning, fmt.Sprintf("The cloud-credential-operator has not created a Secret of driver %s yet.", d.Name)
		found.Do = "Wait some minutes. If the Secret is still missing then, read the conditions of the CredentialsRequest."
		found.Command = "oc -n openshift-cloud-credential-operator describe credentialsrequests"
		return
	}
	found.Cause = fmt.Sprintf("Driver %s has no credentials for the cloud.", d.Name)
	found.Do = "Create the Secret that the message names, or repair the cloud-credential-operator."
	if waitsForUser {
		found.Cause, found.Do = fmt.Sprintf("Driver %s waits for credentials until you do what the message says.", d.Name), "Do what the message says."
	}
	found.effects = []string{
		topicOf("condition", d.Name, d.Profile.Prefix+controllerService), topicOf("controller", d.Name), topicOf("provision", d.Name),
	}
}

func waitsForUserFinding(d survey.Driver, found *Finding) {
	found.Page, found.effects = string(pageTrouble), ofDriver(d.Name)
	found.Cause = fmt.Sprintf("The operator of driver %s waits until you do what the message says.", d.Name)
}

// nodeServiceFinding fills in a finding about a problem of all node pods of a driver, such as a roll-out that makes no progress.
func nodeServiceFinding(d survey.Driver, one operatorv1.OperatorCondition, found *Finding) {
	found.Page = string(pageRollout)
	found.effects = []string{
		topicOf("node", "*", "plugin", d.Name), topicOf("node", "*", "absent", d.Name), topicOf("node", "*", "csinode", d.Name),
		topicOf("daemonset", d.Name),
	}
	switch one.Reason {
	case "CanaryFailed":
		found.Cause = fmt.Sprintf("The new node pod of driver %s fails on the node where the operator tries it first.", d.Name)
		found.Do = "Read the events and the log of the pod that the message names; other nodes keep their old pods."
	case "ImagePullFailed":
		found.Cause = fmt.Sprintf("Nodes in use can't pull the images of the new node pod of driver %s, and keep their old pod.", d.Name)
		found.Do = "Make the image that the message names available to the node, or correct the pull secret. The kubelet tries again."
	case "RolloutStuck":
		found.Cause = fmt.Sprintf("The roll-out of the node pods of driver %s makes no progress.", d.Name)
		found.Do = "Read the events and the logs of the pods that the message names."
	case "RemovalStuck":
		found.Cause, found.Page = fmt.Sprintf("The removal of driver %s makes no progress.", d.Name), string(pageRemove)
		found.effects = nil
	case status.ActionRequired:
		waitsForUserFinding(d, found)
	default:
		found.Cause, found.Page = fmt.Sprintf("The node pods of driver %s are unhealthy.", d.Name), string(pageNodePods)
	}
	if d.Nodes != nil {
		found.Command = describe("daemonset", &d.Nodes.ObjectMeta, d.NodePods)
	}
}

// progressing returns a finding about what a driver waits for. If a roll-out or a removal makes progress, the finding has severity Info, and explains
// no other finding.
func progressing(d survey.Driver, one operatorv1.OperatorCondition, found *Finding) *Finding {
	found.level, found.Page = ofPlugin, string(pageRollout)
	found.Command = "oc storage status --wait"
	switch one.Reason {
	case nodes.Paused:
		found.Severity = Warning
		found.Cause = fmt.Sprintf("The operator has paused the roll-out of driver %s, because pods became unready or mounts hang.", d.Name)
		found.Do = "Find out what is wrong with the pods or nodes that the message names; the roll-out continues when they work."
		found.Command = "oc storage rollout status"
	case nodes.NodesInUse:
		found.Severity, found.Cause = Info, fmt.Sprintf("The roll-out of driver %s waits until nodes in use are drained.", d.Name)
		found.Do = "Drain these nodes, or wait for the next update of the cluster."
	case nodes.NodesDown:
		found.Severity, found.Cause = Info, fmt.Sprintf("The roll-out of driver %s has skipped nodes that are not ready.", d.Name)
		found.Do, found.Command = "Repair these nodes, or delete them.", "oc get nodes"
	case "Waiting":
		found.Cause = fmt.Sprintf("Driver %s is not rolled out, because an object that the driver needs is missing.", d.Name)
		found.Page = string(pageTrouble)
		found.level, found.Do, found.Command = ofWorkload, "Do what the message says.", logCommand(d)
		found.effects = ofDriver(d.Name)
	case "TakingOver":
		found.Severity, found.Cause = Info, fmt.Sprintf("The operator is replacing the node pods that another operator installed for driver %s.", d.Name)
		found.Do, found.Page = "Wait until the migration has finished, or drain the nodes that the message names.", string(pageOther)
	case "Removing":
		found.Severity, found.Cause = Info, fmt.Sprintf("The operator is removing driver %s.", d.Name)
		found.Do, found.Page = "Wait until the removal has finished.", string(pageRemove)
	default:
		found.Severity, found.Cause = Info, fmt.Sprintf("The operator of driver %s is rolling out a change.", d.Name)
		found.Do = "Wait until the roll-out has finished."
	}
	return found
}

// sums returns the findings for an operator that sets only the summary conditions Degraded and Available.
func sums(d survey.Driver) []Finding {
	kinds := []string{status.Degraded, status.Available}
	var all []Finding
	for _, one := range d.CR.Status.Conditions {
		if !slices.Contains(kinds, one.Type) {
			continue
		}
		if found := conditionFinding(d, "", one.Type, one); found != nil {
			found.topic = topicOf("condition", d.Name, "sum")
			all = append(all, *found)
		}
	}
	return all
}

// clusterOperator makes a finding from the conditions of ClusterOperator storage. doctor drops this finding if another check finds the cause.
func clusterOperator(f *facts) []Finding {
	if f.storage == nil {
		return nil
	}
	for _, one := range f.storage.Status.Conditions {
		bad := one.Type == configv1.OperatorDegraded && one.Status == configv1.ConditionTrue ||
			one.Type == configv1.OperatorAvailable && one.Status == configv1.ConditionFalse
		if bad {
			return []Finding{{
				Severity: Error, Object: "ClusterOperator storage", Page: string(pageStorage), Said: clip(one.Message), symptom: true,
				Cause: fmt.Sprintf("ClusterOperator storage reports %s=%s with reason %s.", one.Type, one.Status, one.Reason),
				Do:    "Do what the message says.", Command: "oc describe clusteroperator storage", topic: "clusteroperator", level: ofUnexplained,
			}}
		}
	}
	return nil
}
