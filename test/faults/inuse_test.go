package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// While a removal waits for pods, the operator looks them up again and again. A look-up that fails is no news about them.
func aFailedLookUpDoesNotHideWhatARemovalWaitsFor(t *testing.T, cluster *env.Cluster, through *env.Proxy, operator *env.Operator) {
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	_, pvc, pod := env.Workload()
	// The volume and its PVC are among the bystanders; only the pod that uses them is missing.
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	env.Must(t, cluster.Client.Create(t.Context(), pod))
	env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
	env.Eventually(t, "the pod named", func() error { return waits(t, cluster) })

	var failures atomic.Int32
	through.Set(func(r *http.Request) env.Fault {
		if !strings.HasSuffix(r.URL.Path, "/persistentvolumes") {
			return nil
		}
		failures.Add(1)
		return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	})
	_, err = cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", "efs.csi.aws.com", "example.com/note=x")
	env.Must(t, err)
	env.Eventually(t, "three look-ups that fail", func() error {
		if count := failures.Load(); count < 3 {
			return fmt.Errorf("%d so far", count)
		}
		return nil
	})
	env.Must(t, waits(t, cluster))
	blocking, err := operator.Metric(t.Context(), "csi_operator_removal_blocking_pods")
	env.Must(t, err)
	left, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if blocking != 1 || len(left) != len(owned) {
		t.Errorf("%v pods block the removal in the metrics, want 1; %d of %d objects are left", blocking, len(left), len(owned))
	}
	through.Set(nil)
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.Eventually(t, "ClusterCSIDriver gone", func() error { return cluster.Gone(t.Context(), env.EFS("")) })
}

// waits checks that the status names the pod that holds up the removal.
func waits(t *testing.T, cluster *env.Cluster) error {
	t.Helper()
	return cluster.Says(t.Context(), env.EFS("").Name, "AWSEFSDriverNodeServiceControllerProgressing", "/VolumesInUse", "default/app")
}
