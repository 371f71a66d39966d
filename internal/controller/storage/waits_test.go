package storage

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Each case is what lasts, and what the conditions that differ from a driver that works begin with after 15 minutes.
func TestAWaitThatOnlyAPersonCanEndDegradesTheStorage(t *testing.T) {
	leaving := driver("")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: at}, []string{"theirs"}
	for name, tc := range map[string]struct {
		done result
		want []string
	}{
		"an operator that does not report": {result{deployment: deployment(true)}, []string{
			"CRDegraded=True ActionRequired: for more than 15 minutes: waiting for Deployment openshift-cluster-csi-drivers/plain-operator to report in " +
				"ClusterCSIDriver plain.example. See the logs of its pods: oc -n openshift-cluster-csi-drivers logs deployment/plain-operator",
			"CRProgressing=False ActionRequired: ",
		}},
		"a ClusterCSIDriver that does not go": {result{deployment: deployment(true), driver: leaving}, []string{
			"CRDegraded=True ActionRequired: for more than 15 minutes: ClusterCSIDriver plain.example is being deleted, waiting for finalizers [theirs]; it " +
				"will be recreated. Remove the finalizers of programs that no longer run",
			"CRProgressing=False ActionRequired: ",
		}},
		"an operator of OLM that stays": {result{removingOLM: true, olmRemoval: olm.State{Message: "waiting for OLM to remove it"}}, []string{
			"PlainOLMOperatorRemovalDegraded=True ActionRequired: for more than 15 minutes: waiting for OLM to remove it",
			"PlainOLMOperatorRemovalProgressing=False ActionRequired: ", "CRProgressing=False RemovingOLMOperator: ",
		}},
		"a driver that waits for a person": {result{applied: true, deployment: deployment(true), driver: driver("1", said("XAvailable", true, ""),
			status.Condition("XDegraded", true, status.ActionRequired, "make the "+
				"Secret"), status.Condition("XProgressing", false, status.ActionRequired, ""))},
			[]string{"CRDegraded=True ActionRequired: ClusterCSIDriver plain.example: X: make the Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := newMemory(), at
			m.waits.Now = func() time.Time { return now }
			tc.done.entry = entries()[0]
			m.conditionsOf(release(), &tc.done)
			now = at.Add(status.WaitLimit)
			all, _ := m.conditionsOf(release(), &tc.done)
			got := strings.Join(odd(all), "\n") + "\n"
			for _, want := range tc.want {
				if !strings.Contains(got, want+"\n") {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			for line := range strings.Lines(got) {
				if strings.Contains(line, "Progressing=True") {
					t.Errorf("it counts as progress: %s", line)
				}
			}
		})
	}
}
