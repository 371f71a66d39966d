package status

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Deployment reports on the controller under the condition types <prefix>Available and <prefix>Progressing. A nil
// deployment does not exist.
func Deployment(prefix string, deployment *appsv1.Deployment) []operatorv1.OperatorCondition {
	if deployment == nil {
		return absent(prefix, "the controller Deployment does not exist yet")
	}
	state := deployment.Status
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	count := fmt.Sprintf("%d of %d controller pods are available", state.AvailableReplicas, wanted)
	conditions := []operatorv1.OperatorCondition{
		availability(prefix, state.AvailableReplicas > 0, count, deployment.Namespace),
	}
	switch {
	case state.ObservedGeneration < deployment.Generation:
		return append(conditions, deploying(prefix, "waiting for the Deployment controller to see the newest version"))
	case rolledOut(deployment):
		// A pod that is lost later, by a reboot for instance, is not a roll-out.
		return append(conditions, Condition(prefix+Progressing, false, "", ""))
	case state.UpdatedReplicas < wanted:
		return append(conditions, deploying(prefix,
			fmt.Sprintf("%d of %d controller pods have the newest version", state.UpdatedReplicas, wanted)))
	case state.AvailableReplicas < wanted || state.UnavailableReplicas > 0:
		return append(conditions, deploying(prefix, count))
	default:
		return append(conditions, Condition(prefix+Progressing, false, "", ""))
	}
}

// rolledOut reads the Deployment's own verdict, which stays when a pod is lost after the roll-out.
func rolledOut(deployment *appsv1.Deployment) bool {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing {
			return condition.Status == corev1.ConditionTrue && condition.Reason == "NewReplicaSetAvailable"
		}
	}
	return false
}

// DaemonSet reports on the node pods. A nil daemonSet does not exist. Stable is the newest generation that was once on
// all nodes: nodes that come, go or reboot later are not a roll-out. The number to remember as stable is returned.
func DaemonSet(prefix string, daemonSet *appsv1.DaemonSet, stable int64) ([]operatorv1.OperatorCondition, int64) {
	if daemonSet == nil {
		return absent(prefix, "the node DaemonSet does not exist yet"), 0
	}
	state := daemonSet.Status
	count := fmt.Sprintf("%d of %d nodes have a driver pod that is available", state.NumberAvailable, state.DesiredNumberScheduled)
	conditions := []operatorv1.OperatorCondition{
		availability(prefix, state.NumberAvailable > 0, count, daemonSet.Namespace),
	}
	switch {
	case state.ObservedGeneration < daemonSet.Generation:
		return append(conditions, deploying(prefix, "waiting for the DaemonSet controller to see the newest version")), stable
	case stable == daemonSet.Generation:
		return append(conditions, Condition(prefix+Progressing, false, "", "")), stable
	case state.UpdatedNumberScheduled < state.DesiredNumberScheduled:
		return append(conditions, deploying(prefix, fmt.Sprintf("%d of %d nodes have the newest version",
			state.UpdatedNumberScheduled, state.DesiredNumberScheduled))), stable
	case state.NumberAvailable < state.DesiredNumberScheduled || state.DesiredNumberScheduled == 0:
		return append(conditions, deploying(prefix, count)), stable
	default:
		return append(conditions, Condition(prefix+Progressing, false, "", "")), daemonSet.Generation
	}
}

func absent(prefix, message string) []operatorv1.OperatorCondition {
	return []operatorv1.OperatorCondition{
		Condition(prefix+Available, false, "NotFound", message),
		Condition(prefix+Progressing, true, "Deploying", message),
	}
}

func availability(prefix string, available bool, count, namespace string) operatorv1.OperatorCondition {
	if available {
		return Condition(prefix+Available, true, "", "")
	}
	return Condition(prefix+Available, false, "Deploying",
		count+"; look at the pods and their events in namespace "+namespace)
}

func deploying(prefix, message string) operatorv1.OperatorCondition {
	return Condition(prefix+Progressing, true, "Deploying", message)
}
