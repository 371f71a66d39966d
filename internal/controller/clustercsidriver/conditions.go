package clustercsidriver

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

// The condition types, to be read with Driver.ConditionPrefix in front where a type starts with Driver. They are those
// that existing tools read; each ends in Available, Progressing or Degraded.
const (
	managementState     = "ManagementState"
	configObservation   = "ConfigObservation"
	controlPlaneObjects = "DriverControlPlaneStaticResourcesController"
	guestObjects        = "DriverGuestStaticResourcesController"
	controllerService   = "DriverControllerServiceController"
	nodeService         = "DriverNodeServiceController"
)

// workloads are the live workloads of the driver; nil means absent.
type workloads struct {
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	requests   map[string]*cloudcredentialv1.CredentialsRequest
}

func (r *reporter) liveWorkloads(ctx context.Context) (workloads, error) {
	live := workloads{requests: map[string]*cloudcredentialv1.CredentialsRequest{}}
	deployment, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	deployment.Namespace, deployment.Name = r.Namespace, r.Driver.Deployment
	daemonSet.Namespace, daemonSet.Name = r.Namespace, r.Driver.DaemonSet
	// The newest, because a cache that lags behind our own apply would call a roll-out complete that has not begun.
	found, err := r.applier.Newest(ctx, deployment)
	if err != nil {
		return live, fmt.Errorf("read Deployment %s: %w", r.Driver.Deployment, err)
	}
	if found {
		live.deployment = deployment
	}
	found, err = r.applier.Newest(ctx, daemonSet)
	if err != nil {
		return live, fmt.Errorf("read DaemonSet %s: %w", r.Driver.DaemonSet, err)
	}
	if found {
		live.daemonSet = daemonSet
	}
	if !r.Kinds[driver.CredentialsRequestKind()] {
		return live, nil
	}
	requests := &cloudcredentialv1.CredentialsRequestList{}
	if err := r.Client.List(ctx, requests); err != nil {
		return live, fmt.Errorf("list CredentialsRequests: %w", err)
	}
	for i := range requests.Items {
		live.requests[requests.Items[i].Name] = &requests.Items[i]
	}
	return live, nil
}

// conditions are all conditions of the ClusterCSIDriver, the newest generation of the DaemonSet that was once on all
// nodes, and when to look again.
func (r *reporter) conditions(
	cr *operatorv1.ClusterCSIDriver, result outcome, live workloads,
) (all []operatorv1.OperatorCondition, stable int64, again time.Duration) {
	failure := func(prefix string, err error) {
		condition, wait := r.failures.Degraded(prefix, err)
		all = append(all, condition)
		again = soonest(again, wait)
	}
	all = append(all, r.managementCondition(cr))
	failure(configObservation, result.err)
	prefix := r.Driver.ConditionPrefix
	for kind, changes := range r.group(result.changes) {
		failure(prefix+kind, changes.Err())
	}
	if result.removing || result.removed {
		all = append(all, r.removalConditions(result)...)
		return status.Sum(all), 0, again
	}
	all = append(all, status.Deployment(prefix+controllerService, live.deployment)...)
	nodes, stable := status.DaemonSet(prefix+nodeService, live.daemonSet, r.stableGeneration(cr, live.daemonSet))
	if result.inUse != "" {
		nodes = status.Replace(nodes, status.Condition(prefix+nodeService+status.Progressing, true, "VolumesInUse", result.inUse))
	}
	all = append(all, nodes...)
	all = append(all, r.credentialConditions(cr, result, live)...)
	return r.explain(status.Sum(all), result), stable, again
}

// group sorts changes by the condition that reports on them. Every condition is there, so that none goes stale.
func (r *reporter) group(changes apply.ChangeSet) map[string]apply.ChangeSet {
	groups := map[string]apply.ChangeSet{
		controlPlaneObjects: nil, guestObjects: nil, controllerService: nil, nodeService: nil,
	}
	for _, change := range changes {
		kind := guestObjects
		switch {
		case change.Subject.Kind == "Deployment":
			kind = controllerService
		case change.Subject.Kind == "DaemonSet":
			kind = nodeService
		case change.Subject.Namespace != "":
			kind = controlPlaneObjects
		}
		groups[kind] = append(groups[kind], change)
	}
	return groups
}

func (r *reporter) managementCondition(cr *operatorv1.ClusterCSIDriver) operatorv1.OperatorCondition {
	const kind = managementState + status.Degraded
	switch state := cr.Spec.ManagementState; state {
	case operatorv1.Managed, "":
		return status.Condition(kind, false, "", "")
	case operatorv1.Unmanaged:
		return status.Condition(kind, false, "Unmanaged", "the operator touches nothing while spec.managementState is Unmanaged")
	case operatorv1.Removed:
		if r.Driver.Removable {
			return status.Condition(kind, false, "Removed", "")
		}
		return status.Condition(kind, true, "Removed", r.Driver.Name+" is part of the cluster and can't be removed: set "+
			"spec.managementState to Managed, or to Unmanaged to change the driver by hand")
	default:
		return status.Condition(kind, true, "Unknown", fmt.Sprintf("spec.managementState %q is not known, nothing is "+
			"changed until it is Managed, Unmanaged or Removed", state))
	}
}

// removalConditions say how far a removal is.
func (r *reporter) removalConditions(result outcome) []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
	for _, service := range []string{controllerService, nodeService} {
		prefix := r.Driver.ConditionPrefix + service
		available := status.Condition(prefix+status.Available, false, "Removed",
			"the driver is removed; set spec.managementState to Managed to install it")
		progressing := status.Condition(prefix+status.Progressing, false, "Removed", "")
		if !result.removed {
			available.Reason, available.Message = removingReason, "the driver is being removed"
			progressing = status.Condition(prefix+status.Progressing, true, removingReason, result.waiting)
		}
		all = append(all, available, progressing)
	}
	return all
}

// credentialConditions report on each CredentialsRequest, whether it was asked for or not. If it could not be found out
// what is to be asked for, they stay as they are.
func (r *reporter) credentialConditions(
	cr *operatorv1.ClusterCSIDriver, result outcome, live workloads,
) (all []operatorv1.OperatorCondition) {
	if result.err != nil {
		for _, credentials := range r.Driver.Credentials {
			for _, suffix := range []string{status.Available, status.Progressing, status.Degraded} {
				if before := status.Find(cr.Status.Conditions, credentials.Condition+suffix); before != nil {
					all = append(all, *before)
				}
			}
		}
		return all
	}
	for _, credentials := range r.Driver.Credentials {
		err := result.changes.Where(func(change apply.Change) bool { return change.Subject.Name == credentials.Request }).Err()
		degraded, _ := r.failures.Degraded(credentials.Condition, err)
		available, progressing := r.credentialState(result.cfg, credentials, live.requests[credentials.Request])
		all = append(all, available, progressing, degraded)
	}
	return all
}

func (r *reporter) credentialState(
	cfg driver.Config, credentials driver.Credentials, request *cloudcredentialv1.CredentialsRequest,
) (available, progressing operatorv1.OperatorCondition) {
	is, busy := credentials.Condition+status.Available, credentials.Condition+status.Progressing
	switch {
	case !cfg.Requests(credentials):
		return status.Condition(is, true, "CredentialsDisabled", r.withoutRequest(credentials)),
			status.Condition(busy, false, "CredentialsDisabled", "")
	case request == nil || !request.Status.Provisioned || request.Status.LastSyncGeneration != request.Generation:
		message := fmt.Sprintf("waiting for the cloud-credential-operator to make Secret %s for CredentialsRequest %s/%s",
			credentials.Secret, cloudcredentialv1.Namespace, credentials.Request) + problems(request)
		return status.Condition(is, credentials.Optional, "CredentialsNotProvisionedYet", message),
			status.Condition(busy, true, "CredentialsNotProvisionedYet", message)
	default:
		return status.Condition(is, true, "", ""), status.Condition(busy, false, "", "")
	}
}

// withoutRequest says where credentials come from if none are asked for.
func (r *reporter) withoutRequest(credentials driver.Credentials) string {
	pods := "the controller pods do not start without it"
	if credentials.Optional {
		pods = "the driver works without it, except for One Zone volumes in another zone"
	}
	return fmt.Sprintf("no CredentialsRequest is made, as the cluster can't honour it: make Secret %s in namespace %s, or set %s "+
		"to an IAM role in the operator's environment; %s", credentials.Secret, r.Namespace, credentials.RoleARNVariable, pods)
}

// problems are what the cloud-credential-operator says about a request.
func problems(request *cloudcredentialv1.CredentialsRequest) string {
	text := ""
	if request == nil {
		return text
	}
	for _, condition := range request.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			text += "; " + condition.Type + ": " + condition.Message
		}
	}
	return text
}

// explain adds to Available what this cluster can't have, and what was left alone because it belongs to somebody else.
func (r *reporter) explain(conditions []operatorv1.OperatorCondition, result outcome) []operatorv1.OperatorCondition {
	available := status.Find(conditions, status.Available)
	if available.Status != operatorv1.ConditionTrue {
		return conditions
	}
	var notes []string
	if text := leftOut(r.Kinds); text != "" {
		notes = append(notes, text)
	}
	for _, change := range result.changes.With(apply.Foreign) {
		notes = append(notes, change.Subject.String()+" was made by somebody else and is left as it is")
	}
	available.Message = strings.Join(notes, "\n")
	return conditions
}

// stableGeneration reads what was remembered of this very DaemonSet; one that was made again starts anew.
func (r *reporter) stableGeneration(cr *operatorv1.ClusterCSIDriver, daemonSet *appsv1.DaemonSet) int64 {
	if entry := r.ownGeneration(cr.Status.Generations); entry != nil && daemonSet != nil && entry.Hash == string(daemonSet.UID) {
		return entry.LastGeneration
	}
	return 0
}

// ownGeneration finds the entry of the driver's DaemonSet; other operators may have left others.
func (r *reporter) ownGeneration(entries []operatorv1.GenerationStatus) *operatorv1.GenerationStatus {
	for i, entry := range entries {
		if entry.Group == appsv1.GroupName && entry.Resource == "daemonsets" &&
			entry.Namespace == r.Namespace && entry.Name == r.Driver.DaemonSet {
			return &entries[i]
		}
	}
	return nil
}
