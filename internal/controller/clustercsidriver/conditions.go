package clustercsidriver

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	for name, object := range map[string]client.Object{r.Driver.Deployment: deployment, r.Driver.DaemonSet: daemonSet} {
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, object)
		if client.IgnoreNotFound(err) != nil {
			return live, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if deployment.Name != "" {
		live.deployment = deployment
	}
	if daemonSet.Name != "" {
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
	if r.Driver.Removable && (cr.Spec.ManagementState == operatorv1.Removed || cr.DeletionTimestamp != nil) {
		all = append(all, r.removalConditions(result)...)
		return status.Sum(all), 0, again
	}
	all = append(all, status.Deployment(prefix+controllerService, live.deployment)...)
	nodes, stable := status.DaemonSet(prefix+nodeService, live.daemonSet, stableGeneration(cr))
	all = append(all, nodes...)
	all = append(all, r.credentialConditions(result, live)...)
	return r.explain(status.Sum(all)), stable, again
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
			available.Reason, available.Message = "Removing", "the driver is being removed"
			progressing = status.Condition(prefix+status.Progressing, true, "Removing", result.waiting)
		}
		all = append(all, available, progressing)
	}
	return all
}

// credentialConditions report on each CredentialsRequest, whether it was asked for or not.
func (r *reporter) credentialConditions(result outcome, live workloads) []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
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
		return status.Condition(is, true, "CredentialsDisabled", fmt.Sprintf("no credentials are asked for: the pods use "+
			"Secret %s in namespace %s if it exists, or set %s to an IAM role", credentials.Secret, r.Namespace,
			credentials.RoleARNVariable)), status.Condition(busy, false, "CredentialsDisabled", "")
	case request == nil || !request.Status.Provisioned || request.Status.LastSyncGeneration != request.Generation:
		message := fmt.Sprintf("waiting for the cloud-credential-operator to make Secret %s for CredentialsRequest %s/%s",
			credentials.Secret, cloudcredentialv1.Namespace, credentials.Request) + problems(request)
		return status.Condition(is, credentials.Optional, "CredentialsNotProvisionedYet", message),
			status.Condition(busy, true, "CredentialsNotProvisionedYet", message)
	default:
		return status.Condition(is, true, "", ""), status.Condition(busy, false, "", "")
	}
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

// explain adds to Available what this cluster can't have.
func (r *reporter) explain(conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	available := status.Find(conditions, status.Available)
	if text := leftOut(r.Kinds); text != "" && available.Status == operatorv1.ConditionTrue {
		available.Message = text
	}
	return conditions
}

func stableGeneration(cr *operatorv1.ClusterCSIDriver) int64 {
	for _, generation := range cr.Status.Generations {
		if generation.Resource == "daemonsets" {
			return generation.LastGeneration
		}
	}
	return 0
}
