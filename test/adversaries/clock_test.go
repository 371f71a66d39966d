package adversaries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/test/env"
)

// apart is how much the clocks differ.
const apart = 10 * time.Minute

const (
	// looks is how often an operator looks at a lease, every 2.6 s, until more time has passed than the lease lasts, which is 13 s.
	looks = 6
	// costs is how many writes a SharedVolume takes: its volume, its PVC, and its status.
	costs = 3
)

// The times in a lease are those of its holder's clock. Its holder is the operator that goes on renewing it, whatever the times say.
func TestALeaseIsHeldByTheOneThatRenewsItWhateverTheClocksSay(t *testing.T) {
	cluster := suite.cluster
	dead := gcppd.Driver()
	alive := awsebs.Driver()
	// It says that it has been renewed in ten minutes' time, and never is.
	ahead := lease(dead, apart)
	// It says that it was renewed ten minutes ago, and goes on being renewed.
	behind := lease(alive, -apart)
	for _, object := range []client.Object{ahead, behind} {
		env.Must(t, cluster.Client.Create(t.Context(), object))
	}
	mark := now(t)
	renewing, end := context.WithCancel(t.Context())
	renewals := make(chan error, 1)
	go func() { renewals <- renew(renewing, cluster, behind) }()
	t.Cleanup(func() {
		end()
		if err := <-renewals; err != nil {
			t.Error(err)
		}
	})
	env.Must(t, errors.Join(cluster.PutDriverAccount(t.Context(), dead, rbac.Rules), cluster.PutDriverAccount(t.Context(), alive, rbac.Rules)))
	heir, err := cluster.StartDriverOperator(t.Context(), dead, "--leader-elect=true", oftener)
	env.Must(t, err)
	env.StopAtEnd(t, heir)
	waiting, err := cluster.StartDriverOperator(t.Context(), alive, "--leader-elect=true", oftener)
	env.Must(t, err)
	env.StopAtEnd(t, waiting)
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "the lease of a dead holder whose clock was ahead taken over", heir.Started))
	user := env.DriverOperatorUser(alive.Operator)
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "looks at the lease of a holder whose clock is behind", func() error {
		if seen := len(requests(t, mark, user, env.Request.IsLease)); seen < looks {
			return fmt.Errorf("%d looks", seen)
		}
		return nil
	}))
	if taken := requests(t, mark, user, isRenewal); len(taken) > 0 || waiting.Started() == nil {
		t.Errorf("a lease that is renewed was taken:\n%s", env.Describe(taken))
	}
}

// lease is that of the operator of a driver, held by somebody whose clock differs.
func lease(d driver.Driver, by time.Duration) *coordinationv1.Lease {
	holder, seconds := "somebody-else", int32(13)
	renewed := metav1.NewMicroTime(time.Now().Add(by))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: d.Operator + "-lock"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &renewed, RenewTime: &renewed,
		},
	}
}

// renew goes on renewing a lease by a clock that is behind. While the API server is away it tries again.
func renew(ctx context.Context, cluster *env.Cluster, lease *coordinationv1.Lease) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		live := lease.DeepCopy()
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(lease), live); err != nil {
			continue
		}
		if *live.Spec.HolderIdentity != *lease.Spec.HolderIdentity {
			return errors.New("the lease is held by " + *live.Spec.HolderIdentity)
		}
		renewed := metav1.NewMicroTime(time.Now().Add(-apart))
		live.Spec.RenewTime = &renewed
		// A failed one is followed by the next.
		_ = cluster.Client.Update(ctx, live)
	}
}

// The API server's clock says when objects were made, the operator's how much time has passed since then.
func TestClocksThatDifferCostNothing(t *testing.T) {
	cluster := suite.cluster
	cost := map[time.Duration][]string{}
	for _, by := range []time.Duration{apart, -apart} {
		t.Run(by.String(), func(t *testing.T) {
			namespace := map[time.Duration]string{apart: "ahead", -apart: "behind"}[by]
			own := tenant(t, cluster, namespace)
			through := env.NewProxy(t, cluster)
			through.Shift(by)
			operator := operate(t, cluster, alone, "--kubeconfig", through.Kubeconfig(t, cluster, env.OperatorNamespace))
			env.Eventually(t, "the operator works", operator.Started)
			install(t, cluster)
			env.Quiet(t, operator)
			through.Set(nil)
			sv := env.SharedVolume(namespace, "data")
			env.Must(t, own.Create(t.Context(), sv))
			env.Must(t, env.AwaitFor(t.Context(), patience, "Ready", func() error { return cluster.Ready(t.Context(), sv) }))
			env.Quiet(t, operator)
			cost[by] = through.Work()
			if seconds, err := operator.Metric(t.Context(), "csi_operator_shared_volume_ready_seconds_sum"); err != nil || seconds < 0 {
				t.Errorf("it was Ready after %v seconds (%v)", seconds, err)
			}
			// Kubernetes' garbage collector learns of SharedVolumes only after half a minute.
			empty(t, cluster, namespace)
			env.Eventually(t, "its pair gone", func() error { return cluster.PairGone(t.Context(), sv) })
			env.Must(t, cluster.Uninstall(t.Context()))
		})
	}
	// A reconcile whose cache does not show the pair yet looks at it once in the cluster, and a PVC that Kubernetes has bound by then needs no
	// word about its volume. Whether there are such requests depends on the load.
	const look = 3
	for by, made := range cost {
		writes := slices.DeleteFunc(slices.Clone(made), func(request string) bool {
			return strings.HasPrefix(request, http.MethodGet) || strings.HasPrefix(request, http.MethodPatch) && strings.Contains(request, "/persistentvolumeclaims/")
		})
		if len(writes) != costs || len(made) > costs+look+1 {
			t.Errorf("where the API server's clock is %s ahead, a SharedVolume costs %d writes of %d requests, want %d:\n%q", by, len(writes), len(made), costs, made)
		}
	}
}
