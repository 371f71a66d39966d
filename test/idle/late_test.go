package idle

import (
	"fmt"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

// late is how long credentials keep the driver waiting at least: the cloud-credential-operator of a real cluster asks AWS first.
const late = 2 * time.Second

// A cluster without predecessors is not searched for them, however often the operator looks while it waits.
func TestCredentialsThatComeLateStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	cluster, operator := install(t)
	mark := settled(t, cluster, env.OperatorUser, 0, operator.Started)

	env.Must(t, cluster.StopComponent(t.Context(), "stand-ins"))
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	env.Eventually(t, "a CredentialsRequest of some age", func() error {
		requests := &cloudcredentialv1.CredentialsRequestList{}
		if err := cluster.Client.List(t.Context(), requests, client.InNamespace(cloudcredentialv1.Namespace)); err != nil {
			return err
		}
		for i := range requests.Items {
			// Creation times are in whole seconds.
			if age := time.Since(requests.Items[i].CreationTimestamp.Time); age > late+time.Second {
				return nil
			}
		}
		return fmt.Errorf("%d requests, none of them is old enough", meta.LenList(requests))
	})
	env.Must(t, cluster.StartComponent(t.Context(), "stand-ins"))
	settled(t, cluster, env.OperatorUser, mark, func() error { return cluster.Settled(t.Context()) })

	requests := withinBudget(t, cluster, mark, "with credentials that come late")
	lists := env.Filter(requests, func(r env.Request) bool { return r.Verb == "list" && r.Object.Resource == "pods" })
	if len(lists) > 0 {
		t.Errorf("pods are listed, although nobody was here before:\n%s", env.Describe(lists))
	}
}
