package driver

import (
	"fmt"
	"slices"
	"time"
)

// RolloutPolicy says how node pods are replaced after a change, for drivers whose mounts run through processes in them.
type RolloutPolicy string

const (
	// IdleFirst replaces those of idle nodes first, and then those of nodes in use, one at a time.
	IdleFirst RolloutPolicy = "IdleFirst"
	// WhenDrained replaces those of idle nodes only. A node in use waits until it is drained, or its pods have ended.
	WhenDrained RolloutPolicy = "WhenDrained"
	// RollingUpdate leaves all to Kubernetes, which does not look at who uses volumes.
	RollingUpdate RolloutPolicy = "RollingUpdate"
	// Unreadable is an annotation with another value. Nodes in use keep their pod until it is corrected, as none of the policies may be meant.
	Unreadable RolloutPolicy = ""
)

// RolloutPolicyAnnotation on the ClusterCSIDriver has a RolloutPolicy, in place of the setting of the operator.
const RolloutPolicyAnnotation = "operator.openshift.io/node-rollout-policy"

// The variables of the operator's environment about roll-outs of node pods.
const (
	rolloutPolicy = "NODE_ROLLOUT_POLICY"
	rolloutLimit  = "NODE_ROLLOUT_LIMIT"
)

// RolloutSettings are those of a driver with MountsInPods.
func RolloutSettings() []Setting {
	return []Setting{
		{Variable: rolloutPolicy, Default: string(IdleFirst), Check: checkPolicy},
		// After this time, an alert says that nodes still wait.
		{Variable: rolloutLimit, Default: "168h", Check: Duration(time.Hour, 365*24*time.Hour)},
	}
}

// RolloutPolicyOf is the policy of the annotation, or else that of the settings, which were checked when the operator started. The problem says
// what is wrong with the annotation.
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

// RolloutLimit is after which time an alert says that nodes still wait for their new pod.
func RolloutLimit(settings map[string]string) time.Duration {
	// It was checked when it was read.
	limit, _ := time.ParseDuration(settings[rolloutLimit])
	return limit
}

func checkPolicy(value string) error {
	if !slices.Contains([]RolloutPolicy{IdleFirst, WhenDrained, RollingUpdate}, RolloutPolicy(value)) {
		return fmt.Errorf("must be %s, %s or %s", IdleFirst, WhenDrained, RollingUpdate)
	}
	return nil
}
