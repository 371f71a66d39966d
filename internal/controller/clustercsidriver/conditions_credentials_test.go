package clustercsidriver

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// It has a condition of its own. In a removal, which has no such condition, that of the other objects tells.
func TestARefusedCredentialsRequestIsReportedOnce(t *testing.T) {
	cr, result := healthy()
	const text = "CredentialsRequest openshift-cloud-credential-operator/disk-request: no such field"
	refused := failed("CredentialsRequest", cloudcredentialv1.Namespace, "disk-request", reconcile.TerminalError(errors.New("no such field")))
	result.changes = append(result.changes, refused)
	c, _ := clocked()
	all, _, _ := c.conditions(cr, result)
	want := map[string]string{"KeysDegraded": "True SyncError: " + text, "Degraded": "True SyncError: Keys: " + text}
	if diff := cmp.Diff(want, differing(all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result.removal.removing = true
	all, _, _ = c.conditions(cr, result)
	if got := texts(all)["InsideDegraded"]; got != "True SyncError: "+text {
		t.Errorf("in a removal: %s", got)
	}
}
