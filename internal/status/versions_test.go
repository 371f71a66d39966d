package status

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"
)

func TestTheVersionOfTheOperatorComesLast(t *testing.T) {
	versions := func(pairs ...string) []configv1.OperandVersion {
		var list []configv1.OperandVersion
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, configv1.OperandVersion{Name: pairs[i], Version: pairs[i+1]})
		}
		return list
	}
	for name, tc := range map[string]struct {
		have     []configv1.OperandVersion
		operands []Operand
		want     []configv1.OperandVersion
	}{
		"a new cluster has none":            {nil, []Operand{{"a", false}}, nil},
		"one of two is there":               {nil, []Operand{{"a", true}, {"b", false}}, versions("a", "2")},
		"all are there":                     {nil, []Operand{{"a", true}, {"b", true}}, versions("a", "2", "b", "2", "operator", "2")},
		"old values stay until then":        {versions("operator", "1", "a", "1"), []Operand{{"a", false}}, versions("a", "1", "operator", "1")},
		"each goes on its own":              {versions("operator", "1", "a", "1", "b", "1"), []Operand{{"a", true}, {"b", false}}, versions("a", "2", "b", "1", "operator", "1")},
		"nothing to wait for":               {versions("operator", "1"), nil, versions("operator", "2")},
		"names that are not wanted go":      {versions("operator", "1", "old", "1"), []Operand{{"a", true}}, versions("a", "2", "operator", "2")},
		"a driver that falls back says so":  {versions("a", "2", "operator", "2"), []Operand{{"a", false}}, versions("a", "2", "operator", "2")},
		"what is not known keeps all as is": {versions("a", "1", "operator", "1"), []Operand{{"a", true}, {"", false}}, versions("a", "2", "operator", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Versions(tc.have, tc.operands, "2")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARollOutIsCompleteWhenNoOldPodIsLeft(t *testing.T) {
	deployment := func(generation, observed int64, replicas, updated, available int32, reason string) *appsv1.Deployment {
		found := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}, Status: appsv1.DeploymentStatus{
			ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason}},
		}}
		found.Generation = generation
		return found
	}
	const done = "NewReplicaSetAvailable"
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		want       string
	}{
		"absent":                              {nil, "it does not exist yet"},
		"not seen":                            {deployment(2, 1, 1, 1, 1, done), "the Deployment controller has not seen its newest version yet"},
		"seen, with the verdict of the last":  {deployment(2, 2, 1, 0, 1, done), "0 of 1 pods have its newest version"},
		"old and new pods":                    {deployment(2, 2, 2, 1, 1, "ReplicaSetUpdated"), "1 pods of an older version are still there"},
		"not ready":                           {deployment(2, 2, 1, 1, 0, "ReplicaSetUpdated"), "0 of 1 pods are ready"},
		"complete":                            {deployment(2, 2, 1, 1, 1, done), ""},
		"a pod was lost after the roll-out":   {deployment(2, 2, 1, 1, 0, done), ""},
		"complete before its verdict is told": {deployment(2, 2, 1, 1, 1, "ReplicaSetUpdated"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RollOut(tc.deployment); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
