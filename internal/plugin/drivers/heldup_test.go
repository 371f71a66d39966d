package drivers

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

func TestTheColumnHeldUpByNamesTheCause(t *testing.T) {
	waits := cr(efs)
	waits.Status.Conditions = []operatorv1.OperatorCondition{
		{Type: "AAAProgressing", Status: "True", Reason: "Waiting", Message: "a consequence"},
		{Type: "ZZZProgressing", Status: "True", Reason: status.ActionRequired, Message: "delete the Subscription"},
	}
	for want, driver := range map[string]survey.Driver{
		"delete the Subscription":                              {CR: waits},
		"its operator is not installed: ask oc storage doctor": {CR: cr(efs, well()...), Profile: &survey.Profile{}},
		"": {CR: cr(efs, well()...), Profile: &survey.Profile{}, LeaseHolder: "laptop"},
	} {
		driver.Name = efs
		if got := rowOf(driver, survey.Survey{CRs: plugin.Present, Operators: plugin.Present}).HeldUp; got != want {
			t.Errorf("held up by %q, want %q", got, want)
		}
	}
}
