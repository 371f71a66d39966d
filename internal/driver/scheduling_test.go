package driver

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

func TestPodsAreHeldBackWhereTheClusterCanAndTheAdministratorAgrees(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation    string
		gate, current bool
		minor         int
		want          bool
		problem       string
	}{
		"no annotation, gate off":         {"", false, true, 36, false, ""},
		"no annotation, gate on":          {"", true, false, 37, true, ""},
		"asked for, gate unknown":         {"true", false, false, 36, true, ""},
		"asked for, too old":              {"true", false, false, 35, false, "the cluster has Kubernetes 1.35"},
		"not wanted, gate on":             {"false", true, true, 37, false, ""},
		"not wanted, too old":             {"false", false, false, 33, false, ""},
		"unreadable: stays on":            {"yes", true, true, 37, true, "stays true until you correct"},
		"unreadable: stays off":           {"True", true, false, 37, false, "stays false until you correct"},
		"unreadable in a cluster too old": {"1", false, false, 33, false, "must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			got, problem := RequiresDriver(tc.annotation, tc.gate, tc.minor, tc.current)
			if got != tc.want || (tc.problem == "") != (problem == "") || !strings.Contains(problem, tc.problem) {
				t.Errorf("%v, %q; want %v, %q", got, problem, tc.want, tc.problem)
			}
			object := &storagev1.CSIDriver{}
			if err := requireDriver(Config{RequiresDriver: got}, object); err != nil {
				t.Fatal(err)
			}
			if field := object.Spec.PreventPodSchedulingIfMissing; (field != nil) != got || field != nil && !*field {
				t.Errorf("the field is %v", field)
			}
		})
	}
}

func TestEveryDriverDependsOnTheGateOfScheduling(t *testing.T) {
	d := Driver{FeatureGates: []FeatureGate{{Name: "Other"}}}
	if gates := d.Gates(); len(gates) != 2 || gates[0].Name != "Other" || gates[1].Name != SchedulingGate || len(d.FeatureGates) != 1 {
		t.Errorf("gates %v", gates)
	}
}
