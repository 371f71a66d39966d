package status

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Deployment returns the conditions <prefix>Available and <prefix>Progressing of the controller. Argument "deployment" is nil if the Deployment does
// not exist. Argument "unready" lists the pods that are not ready, with the reasons.
func Deployment(prefix string, deployment *appsv1.Deployment, unready []string) []operatorv1.OperatorCondition {
	if deployment == nil {
		return absent(prefix, "the controller Deployment does not exist yet")
	}
	const pods = "controller pods"
	return []operatorv1.OperatorCondition{
		availability(prefix, deployment.Status.AvailableReplicas > 0, missing(deployment, pods, unready), deployment.Namespace),
		progress(prefix, RollOut(deployment, pods, unready)),
	}
}

// RollOut says what the roll-out of a Deployment waits for. It returns an empty text if the roll-out is complete. Argument "deployment" is nil if the
// Deployment does not exist. Argument "what" is the name of the pods in messages. Argument "unready" lists the pods that are not ready.
//
// The loss of a pod after a roll-out starts no new roll-out, because the Deployment keeps the reason NewReplicaSetAvailable. The Deployment also
// keeps this reason when its template returns to an earlier ReplicaSet (kubernetes v1.36.3, pkg/controller/deployment/progress.go). So RollOut does
// not rely on the reason alone, but also counts the updated pods.
func RollOut(deployment *appsv1.Deployment, what string, unready []string) string {
	if deployment == nil {
		return "it does not exist yet"
	}
	state, wanted := deployment.Status, replicas(deployment)
	switch {
	case state.ObservedGeneration < deployment.Generation:
		return "waiting for the Deployment controller to observe the newest version"
	case rolledOut(deployment) && state.UpdatedReplicas > 0 && state.UpdatedReplicas == state.Replicas:
		return ""
	case state.UpdatedReplicas < wanted:
		return join(fmt.Sprintf("%d of %d %s have the newest version", state.UpdatedReplicas, wanted, what), missing(deployment, what, unready))
	case state.Replicas > state.UpdatedReplicas:
		return fmt.Sprintf("%d %s of an older version still exist", state.Replicas-state.UpdatedReplicas, what)
	default:
		return missing(deployment, what, unready)
	}
}

// missing says how many pods of a Deployment are not ready. It returns an empty text if all pods are ready.
func missing(deployment *appsv1.Deployment, what string, unready []string) string {
	wanted := replicas(deployment)
	return notReady(what, int(wanted), int(wanted-deployment.Status.AvailableReplicas), unready)
}

func replicas(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1
	}
	return *deployment.Spec.Replicas
}

// rolledOut reports whether the Deployment's own condition says that the roll-out is complete. The condition stays true if a pod is lost later.
func rolledOut(deployment *appsv1.Deployment) bool {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing {
			return condition.Status == corev1.ConditionTrue && condition.Reason == "NewReplicaSetAvailable"
		}
	}
	return false
}

// DaemonSet returns the conditions of the node pods, and the new stable generation. Argument "daemonSet" is nil if the DaemonSet does not exist.
// Argument "stable" is the newest generation that has been on all nodes. While the DaemonSet has this generation, there is no roll-out, even if nodes
// join, leave or reboot. Argument "unready" lists the pods that are not ready, with the reasons.
func DaemonSet(
	prefix string, daemonSet *appsv1.DaemonSet, stable int64, unready []string,
) ([]operatorv1.OperatorCondition, int64) {
	if daemonSet == nil {
		return absent(prefix, "the node DaemonSet does not exist yet"), 0
	}
	state := daemonSet.Status
	health := notReady("nodes", int(state.DesiredNumberScheduled), int(state.DesiredNumberScheduled-state.NumberAvailable), unready)
	if state.DesiredNumberScheduled == 0 {
		health = "no node can run the driver"
	}
	waits := ""
	switch {
	case state.ObservedGeneration < daemonSet.Generation:
		waits = "waiting for the DaemonSet controller to observe the newest version"
	case stable == daemonSet.Generation:
	case state.UpdatedNumberScheduled < state.DesiredNumberScheduled:
		waits = join(fmt.Sprintf("%d of %d nodes have the newest version", state.UpdatedNumberScheduled, state.DesiredNumberScheduled), health)
	case state.NumberAvailable < state.DesiredNumberScheduled || state.DesiredNumberScheduled == 0:
		waits = health
	default:
		stable = daemonSet.Generation
	}
	return []operatorv1.OperatorCondition{availability(prefix, state.NumberAvailable > 0, health, daemonSet.Namespace), progress(prefix, waits)}, stable
}

// notReady returns a text with the number and the names of the pods that are not ready. It returns an empty text if all pods are ready.
func notReady(what string, wanted, missing int, unready []string) string {
	if missing <= 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d %s not ready", missing, wanted, what)
	if len(unready) > 0 {
		text += ": " + Shorten(unready)
	}
	return text
}

func join(first, second string) string {
	if second == "" {
		return first
	}
	return first + "; " + second
}

func absent(prefix, message string) []operatorv1.OperatorCondition {
	return []operatorv1.OperatorCondition{
		Condition(prefix+Available, false, "NotFound", message),
		progress(prefix, message),
	}
}

// availability returns condition <prefix>Available. It is True if at least one pod is available. In any case, its message names the pods that are not
// ready.
func availability(prefix string, available bool, health, namespace string) operatorv1.OperatorCondition {
	if available {
		return Condition(prefix+Available, true, "", health)
	}
	return Condition(prefix+Available, false, Deploying, health+"; look at the pods and their events in namespace "+namespace)
}

// progress returns condition <prefix>Progressing. It is True while a roll-out waits for something.
func progress(prefix, waits string) operatorv1.OperatorCondition {
	if waits == "" {
		return Condition(prefix+Progressing, false, "", "")
	}
	return Condition(prefix+Progressing, true, Deploying, waits)
}
