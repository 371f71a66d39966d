package clustercsidriver

import (
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// degraded rolls a DaemonSet out for some time and returns the condition of the nodes.
func degraded(c conditioner, daemonSet *appsv1.DaemonSet) operatorv1.OperatorCondition {
	conditions, _ := status.DaemonSet("Disk"+nodeService, daemonSet, 1, []string{"node-7 (ImagePullBackOff)"})
	conditions = append(conditions, status.Condition("Disk"+nodeService+status.Degraded, false, "", ""))
	said := &status.Statement{Conditions: conditions}
	c.stuck(said, outcome{seen: seen{live: live{daemonSet: daemonSet}}})
	return *status.Find(said.Conditions, "Disk"+nodeService+status.Degraded)
}

func TestALongRolloutThatGoesOnIsNotStuck(t *testing.T) {
	c, now := clocked()
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2, UID: "a"}}
	// Right after the apply the numbers are still those of the last roll-out.
	daemonSet.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: 1, DesiredNumberScheduled: 240, UpdatedNumberScheduled: 240, NumberAvailable: 240,
	}
	degraded(c, daemonSet)
	daemonSet.Status.ObservedGeneration = 2
	for updated := int32(0); updated < 240; updated += 10 {
		daemonSet.Status.UpdatedNumberScheduled, daemonSet.Status.NumberAvailable = updated, 230
		if condition := degraded(c, daemonSet); condition.Status == operatorv1.ConditionTrue {
			t.Fatalf("with %d of 240 nodes after %s: %s", updated, now.Sub(began), condition.Message)
		}
		*now = now.Add(10 * time.Minute)
	}
	*now = now.Add(status.StuckAfter)
	condition := degraded(c, daemonSet)
	if condition.Reason != "RolloutStuck" || !strings.Contains(condition.Message, "node-7 (ImagePullBackOff)") {
		t.Errorf("a roll-out that stands still is %s %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	// One that was made anew has a life of its own.
	daemonSet.UID = "b"
	if condition := degraded(c, daemonSet); condition.Status == operatorv1.ConditionTrue {
		t.Errorf("the next DaemonSet: %s", condition.Message)
	}
}

// A migration that waits for pods of users may do so for days; one whose own pods do not start fails.
func TestOnlyAMigrationThatWaitsForItsOwnPodsIsStuck(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		c, now := clocked()
		daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 1, UID: "a"}}
		daemonSet.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 30, UpdatedNumberScheduled: 3}
		look := func() operatorv1.OperatorCondition {
			said := &status.Statement{Conditions: []operatorv1.OperatorCondition{
				status.Condition("Disk"+nodeService+status.Progressing, true, migration.TakingOver, "waiting for the new pods on node-7"),
				status.Condition("Disk"+nodeService+status.Degraded, false, "", ""),
			}}
			c.stuck(said, outcome{moved: migration.Moved{Stalled: stalled}, seen: seen{live: live{daemonSet: daemonSet}}})
			return said.Conditions[1]
		}
		look()
		*now = now.Add(2 * status.StuckAfter)
		if condition := look(); (condition.Reason == "RolloutStuck" && strings.Contains(condition.Message, "node-7")) != stalled {
			t.Errorf("stalled is %v: %s %s: %s", stalled, condition.Status, condition.Reason, condition.Message)
		}
	}
}

func TestARemovalThatStandsStillIsReported(t *testing.T) {
	c, now := clocked()
	report := func(remaining int) operatorv1.OperatorCondition {
		said := &status.Statement{Conditions: []operatorv1.OperatorCondition{status.Condition("Disk"+nodeService+status.Degraded, false, "", "")}}
		c.removalStuck(said, outcome{removal: removal{removing: true, remaining: remaining, waiting: "remaining pods: a on node-1"}})
		return said.Conditions[0]
	}
	for _, remaining := range []int{3, 2, 1} {
		if condition := report(remaining); condition.Status == operatorv1.ConditionTrue {
			t.Fatalf("with %d left: %s", remaining, condition.Message)
		}
		*now = now.Add(10 * time.Minute)
	}
	*now = now.Add(10 * time.Minute)
	if condition := report(1); condition.Reason != "RemovalStuck" || !strings.Contains(condition.Message, "node-1") {
		t.Errorf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
	}
}

// A cluster that gives nodes back has fewer new pods than before, although the roll-out goes on.
func TestARolloutGoesOnWhileNodesLeave(t *testing.T) {
	c, now := clocked()
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2, UID: "a"}}
	for _, step := range []struct{ nodes, updated int32 }{{60, 30}, {20, 10}, {20, 12}, {20, 14}, {20, 16}} {
		daemonSet.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: 2, DesiredNumberScheduled: step.nodes, UpdatedNumberScheduled: step.updated, NumberAvailable: step.nodes - 1,
		}
		if condition := degraded(c, daemonSet); condition.Status == operatorv1.ConditionTrue {
			t.Errorf("with %d of %d nodes: %s", step.updated, step.nodes, condition.Message)
		}
		*now = now.Add(status.StuckAfter / 2)
	}
}
