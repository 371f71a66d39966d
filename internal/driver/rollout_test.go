package driver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheAnnotationDecidesHowNodePodsAreReplaced(t *testing.T) {
	d := Driver{Settings: RolloutSettings()}
	const unknown = `annotation operator.openshift.io/node-rollout-policy=%q of this ClusterCSIDriver must be IdleFirst, WhenDrained or RollingUpdate: ` +
		"nodes in use keep their node pod until you correct or remove the annotation, or drain the node"
	type test struct {
		setting, annotation string
		want                RolloutPolicy
		problem             string
	}
	tests := map[string]test{
		"by default":        {"", "", IdleFirst, ""},
		"by the setting":    {"WhenDrained", "", WhenDrained, ""},
		"by the annotation": {"WhenDrained", "RollingUpdate", RollingUpdate, ""},
	}
	for _, text := range []string{
		"Whendrained", "whendrained", "WhenDrained ", " WhenDrained", "When-Drained", "\"WhenDrained\"", "WhenDrained,IdleFirst", "Wait", "idlefirst",
		"rollingupdate", "true", "false", "0", " ", "\x00", "ＷｈｅｎＤｒａｉｎｅｄ",
	} {
		for _, setting := range []string{"", "IdleFirst", "WhenDrained", "RollingUpdate"} {
			tests[fmt.Sprintf("%q for %q", text, setting)] = test{setting, text, Unreadable, fmt.Sprintf(unknown, text)}
		}
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			settings, err := d.ReadSettings(func(variable string) string { return map[string]string{rolloutPolicy: tc.setting}[variable] })
			if err != nil {
				t.Fatal(err)
			}
			got, problem := RolloutPolicyOf(settings, tc.annotation)
			if got != tc.want || problem != tc.problem {
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
