package driver

import (
	"strings"
	"testing"
	"time"
)

func TestTheAnnotationDecidesHowNodePodsAreReplaced(t *testing.T) {
	d := Driver{Settings: RolloutSettings()}
	for name, tc := range map[string]struct {
		setting, annotation string
		want                RolloutPolicy
		problem             string
	}{
		"by default":             {"", "", IdleFirst, ""},
		"by the setting":         {"WhenDrained", "", WhenDrained, ""},
		"by the annotation":      {"WhenDrained", "RollingUpdate", RollingUpdate, ""},
		"by one that is no name": {"WhenDrained", "whendrained", WhenDrained, `node-rollout-policy="whendrained" must be IdleFirst, WhenDrained or RollingUpdate: meanwhile WhenDrained counts`},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := d.ReadSettings(func(variable string) string { return map[string]string{rolloutPolicy: tc.setting}[variable] })
			if err != nil {
				t.Fatal(err)
			}
			got, problem := RolloutPolicyOf(settings, tc.annotation)
			if got != tc.want || !strings.Contains(problem, tc.problem) || (problem == "") != (tc.problem == "") {
				t.Errorf("%s, problem %q", got, problem)
			}
			if limit := RolloutLimit(settings); limit != 7*24*time.Hour {
				t.Errorf("limit %s", limit)
			}
		})
	}
	if _, err := d.ReadSettings(func(string) string { return "Never" }); err == nil || !strings.Contains(err.Error(), "must be IdleFirst") {
		t.Errorf("error %v", err)
	}
}
