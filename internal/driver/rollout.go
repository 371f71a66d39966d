package driver

import (
	"fmt"
	"slices"
	"time"
)

// RolloutPolicy says how the operator replaces node pods after a change. It is for drivers whose mounts depend on processes in the node pods.
type RolloutPolicy string

const (
	// IdleFirst first replaces the pods of idle nodes. It then replaces the pods of nodes in use, one at a time.
	IdleFirst RolloutPolicy = "IdleFirst"
	// WhenDrained replaces only the pods of idle nodes. A node in use keeps its pod until an administrator drains the node, or until no pod on the node
	// uses the driver's volumes.
	WhenDrained RolloutPolicy = "WhenDrained"
	// RollingUpdate leaves the roll-out to Kubernetes, which ignores the use of volumes.
	RollingUpdate RolloutPolicy = "RollingUpdate"
	// Unreadable is the policy for an invalid annotation. Nodes in use keep their pod until an administrator corrects the annotation.
	Unreadable RolloutPolicy = ""
)

// RolloutPolicyAnnotation on the ClusterCSIDriver overrides the operator's setting.
const RolloutPolicyAnnotation = "operator.openshift.io/node-rollout-policy"

// The variables of the operator's environment about roll-outs of node pods.
const (
	rolloutPolicy = "NODE_ROLLOUT_POLICY"
	rolloutLimit  = "NODE_ROLLOUT_LIMIT"
)

// RolloutSettings returns the settings of a driver with MountsInPods.
func RolloutSettings() []Setting {
	return []Setting{
		{Variable: rolloutPolicy, Default: string(IdleFirst), Check: checkPolicy},
		// After this time, an alert reports waiting nodes.
		{Variable: rolloutLimit, Default: "168h", Check: Duration(time.Hour, 365*24*time.Hour)},
	}
}

// RolloutPolicyOf returns the policy in the annotation. Without an annotation, it returns the policy in the settings, which the operator checked at
// its start. Result "problem" describes an invalid annotation.
func RolloutPolicyOf(settings map[string]string, annotation string) (policy RolloutPolicy, problem string) {
	if annotation == "" {
		return RolloutPolicy(settings[rolloutPolicy]), ""
	}
	if err := checkPolicy(annotation); err != nil {
		return Unreadable, fmt.Sprintf("annotation %s=%q of this ClusterCSIDriver %s: nodes in use keep their node pod until you correct or remove "+
			"the annotation, or drain the node", RolloutPolicyAnnotation, annotation, err)
	}
	return RolloutPolicy(annotation), ""
}

// RolloutLimit returns the time after which an alert reports nodes that wait for their new pod.
func RolloutLimit(settings map[string]string) time.Duration {
	// ReadSettings has checked the value.
	limit, _ := time.ParseDuration(settings[rolloutLimit])
	return limit
}

func checkPolicy(value string) error {
	if !slices.Contains([]RolloutPolicy{IdleFirst, WhenDrained, RollingUpdate}, RolloutPolicy(value)) {
		return fmt.Errorf("must be %s, %s or %s", IdleFirst, WhenDrained, RollingUpdate)
	}
	return nil
}

// ImagesOf returns the name of the DaemonSet whose pods pull images for the node pods of a DaemonSet. This name is also the value of label app on the
// pods.
func ImagesOf(daemonSet string) string { return daemonSet + "-images" }
