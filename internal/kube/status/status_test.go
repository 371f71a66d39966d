package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// short gives "Type=Status Reason" for each condition.
func short(conditions []operatorv1.OperatorCondition) []string {
	var lines []string
	for _, condition := range conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
	}
	return lines
}

func TestDaemonSetProgressesOnlyDuringARollout(t *testing.T) {
	daemonSet := func(generation, observed int64, desired, updated, available int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Status: appsv1.DaemonSetStatus{
				ObservedGeneration: observed, DesiredNumberScheduled: desired, UpdatedNumberScheduled: updated, NumberAvailable: available,
			},
		}
	}
	cases := map[string]struct {
		reason     string
		daemonSet  *appsv1.DaemonSet
		stable     int64
		want       []string
		wantStable int64
	}{
		"absent":             {"it is still to be made", nil, 3, []string{"XAvailable=False NotFound", "XProgressing=True Deploying"}, 0},
		"not seen yet":       {"its numbers are old", daemonSet(2, 1, 6, 6, 6), 1, []string{"XAvailable=True AsExpected", "XProgressing=True Deploying"}, 1},
		"no node yet":        {"nothing is scheduled", daemonSet(1, 1, 0, 0, 0), 0, []string{"XAvailable=False Deploying", "XProgressing=True Deploying"}, 0},
		"half updated":       {"pods of the old version are left", daemonSet(2, 2, 6, 3, 6), 1, []string{"XAvailable=True AsExpected", "XProgressing=True Deploying"}, 1},
		"updated, not ready": {"new pods are not available", daemonSet(2, 2, 6, 6, 5), 1, []string{"XAvailable=True AsExpected", "XProgressing=True Deploying"}, 1},
		"done":               {"all nodes have it", daemonSet(2, 2, 6, 6, 6), 1, []string{"XAvailable=True AsExpected", "XProgressing=False AsExpected"}, 2},
		"a node reboots":     {"a lost pod later is no roll-out", daemonSet(2, 2, 6, 6, 5), 2, []string{"XAvailable=True AsExpected", "XProgressing=False AsExpected"}, 2},
		"a node is added":    {"a new node later is no roll-out", daemonSet(2, 2, 7, 6, 6), 2, []string{"XAvailable=True AsExpected", "XProgressing=False AsExpected"}, 2},
		"all pods are lost":  {"then it is not available", daemonSet(2, 2, 6, 6, 0), 2, []string{"XAvailable=False Deploying", "XProgressing=False AsExpected"}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			conditions, stable := DaemonSet("X", tc.daemonSet, tc.stable, nil)
			if diff := cmp.Diff(tc.want, short(conditions)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if stable != tc.wantStable {
				t.Errorf("stable generation %d, want %d", stable, tc.wantStable)
			}
		})
	}
}

// The operator of a driver and the cluster-storage-operator read the same Deployment in the same way. A template that returns to an earlier
// ReplicaSet has the reason of the last roll-out until its first new pod is there.
func TestARollOutIsCompleteWhenNoOldPodIsLeft(t *testing.T) {
	const done, goesOn = "NewReplicaSetAvailable", "ReplicaSetUpdated"
	deployment := func(observed int64, replicas, updated, available int32, reason string) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available,
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason}},
			},
		}
	}
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		waits      string
		available  operatorv1.ConditionStatus
	}{
		"absent":                                {nil, "it does not exist yet", "False"},
		"not seen":                              {deployment(1, 2, 2, 2, done), "waiting for the Deployment controller to observe the newest version", "True"},
		"returns to an earlier template":        {deployment(2, 2, 0, 2, done), "0 of 2 pods have the newest version", "True"},
		"half updated":                          {deployment(2, 2, 1, 1, goesOn), "1 of 2 pods have the newest version; 1 of 2 pods not ready: node-1", "True"},
		"half updated, with the earlier reason": {deployment(2, 2, 1, 2, done), "1 of 2 pods have the newest version", "True"},
		"old and new pods":                      {deployment(2, 3, 2, 2, goesOn), "1 pods of an older version still exist", "True"},
		"not ready":                             {deployment(2, 2, 2, 0, goesOn), "2 of 2 pods not ready: node-1", "False"},
		"complete":                              {deployment(2, 2, 2, 2, done), "", "True"},
		"complete before its reason":            {deployment(2, 2, 2, 2, goesOn), "", "True"},
		"a pod is lost after the roll-out":      {deployment(2, 2, 2, 1, done), "", "True"},
		"a pod is deleted after the roll-out":   {deployment(2, 1, 1, 1, done), "", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RollOut(tc.deployment, "pods", []string{"node-1"}); got != tc.waits {
				t.Errorf("it waits for %q, want %q", got, tc.waits)
			}
			progressing := operatorv1.ConditionFalse
			if tc.waits != "" {
				progressing = operatorv1.ConditionTrue
			}
			for _, condition := range Deployment("X", tc.deployment, nil) {
				if want := map[string]operatorv1.ConditionStatus{"XAvailable": tc.available, "XProgressing": progressing}[condition.Type]; condition.Status != want {
					t.Errorf("%s is %s, want %s", condition.Type, condition.Status, want)
				}
			}
		})
	}
}

func TestSumSaysWhichConditionDecides(t *testing.T) {
	got := Sum([]operatorv1.OperatorCondition{
		Condition("BAvailable", false, "Late", "b is late"),
		Condition("AAvailable", false, "Gone", "a is gone"),
		Condition("CAvailable", true, "", ""),
		Condition("ADegraded", true, "Broken", "a is broken"),
	}, []operatorv1.OperatorCondition{Condition("BUpgradeable", false, "Old", "b is too old"), Condition("BWarning", true, "", "")})
	want := []operatorv1.OperatorCondition{
		{Type: "Available", Status: "False", Reason: "Multiple", Message: "A: a is gone\nB: b is late"},
		{Type: "Progressing", Status: "False", Reason: "AsExpected"},
		{Type: "Degraded", Status: "True", Reason: "Broken", Message: "A: a is broken"},
		{Type: "Upgradeable", Status: "False", Reason: "Old", Message: "B: b is too old"},
	}
	if diff := cmp.Diff(want, got[4:]); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestMergeKeepsTheTransitionTimeOfAnUnchangedStatus(t *testing.T) {
	before, now := metav1.Unix(100, 0), metav1.Unix(200, 0)
	old := []operatorv1.OperatorCondition{
		{Type: "Same", Status: "True", LastTransitionTime: before},
		{Type: "Flips", Status: "True", LastTransitionTime: before},
		{Type: "Unwanted", Status: "True", LastTransitionTime: before},
	}
	got := Merge(old, []operatorv1.OperatorCondition{
		Condition("Same", true, "NewReason", "new message"), Condition("New", true, "", ""), Condition("Flips", false, "", ""),
	}, now)
	want := []operatorv1.OperatorCondition{
		{Type: "Flips", Status: "False", Reason: "AsExpected", LastTransitionTime: now},
		{Type: "New", Status: "True", Reason: "AsExpected", LastTransitionTime: now},
		{Type: "Same", Status: "True", Reason: "NewReason", Message: "new message", LastTransitionTime: before},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestATransientErrorDegradesAfterTwoMinutesAndATerminalOneAtOnce(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	terminal := map[string]error{
		"invalid":            apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", nil),
		"a bad render":       reconcile.TerminalError(errors.New("unknown placeholder")),
		"two in one render":  reconcile.TerminalError(fmt.Errorf("asset: %w", errors.Join(errors.New("one"), errors.New("two")))),
		"one of several":     errors.Join(errors.New("timeout"), apierrors.NewBadRequest("no")),
		"wrapped and joined": fmt.Errorf("apply: %w", errors.Join(fmt.Errorf("x: %w", apierrors.NewBadRequest("no")))),
	}
	for name, err := range terminal {
		t.Run(name, func(t *testing.T) {
			failures := &Failures{Now: func() time.Time { return time.Unix(0, 0) }}
			condition, again := failures.Degraded("X", err)
			// That an error is not retried is no news to people.
			message := strings.TrimPrefix(err.Error(), "terminal error: ")
			if condition.Status != operatorv1.ConditionTrue || condition.Message != message || again != 0 {
				t.Errorf("got %v, look again after %s", condition, again)
			}
		})
	}
	t.Run("transient", func(t *testing.T) {
		now := time.Unix(0, 0)
		failures := &Failures{Now: func() time.Time { return now }}
		timeout := errors.New("timeout")
		steps := []struct {
			after time.Duration
			err   error
			want  string
			again time.Duration
		}{
			{0, timeout, "XDegraded=False Retrying", 2 * time.Minute},
			{90 * time.Second, timeout, "XDegraded=False Retrying", 30 * time.Second},
			{30 * time.Second, timeout, "XDegraded=True SyncError", 0},
			{time.Second, nil, "XDegraded=False AsExpected", 0},
			{time.Second, timeout, "XDegraded=False Retrying", 2 * time.Minute},
		}
		for i, step := range steps {
			now = now.Add(step.after)
			condition, again := failures.Degraded("X", step.err)
			if got := short([]operatorv1.OperatorCondition{condition})[0]; got != step.want || again != step.again {
				t.Errorf("step %d: %s, look again after %s; want %s after %s", i, got, again, step.want, step.again)
			}
		}
	})
	t.Run("a write conflict is never shown", func(t *testing.T) {
		failures := &Failures{Now: func() time.Time { return time.Unix(0, 0) }}
		condition, _ := failures.Degraded("X", apierrors.NewConflict(configMaps, "x", errors.New("changed")))
		if condition.Status != operatorv1.ConditionFalse || condition.Message != "" {
			t.Errorf("got %v", condition)
		}
	})
}
