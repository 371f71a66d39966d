// Package idle counts what the operators cost: the requests of an installation, and those of doing nothing. Counts come
// from the audit log. The tests share a control plane and run one after the other, so that nobody else makes an operator work.
package idle

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

// The budgets. An existing operator needs 285 requests, 120 of them writes, and 30 requests a minute when idle. This one needs 28 and 27: 23
// objects, a finalizer, two reports, an event, and the read of the keys for AWS. A cluster that is slow to make Secrets or to start pods has it report
// once or twice more.
const (
	mostRequests = 30
	mostWrites   = 29
	// mostMemory is the resident memory with 12 nodes, in MiB; the existing operator needs 95.
	mostMemory = 60
)

// Renewals of the leader lease measure the time. In these tests they come ten times as often as usual.
const (
	shortLease = "--leader-elect-retry-period=2600ms"
	// calm is how many renewals nothing else may come between, until an operator counts as settled.
	calm = 6
	// renewals span a minute; make soak waits ten times as long, for what comes every few minutes.
	renewals = 25
)

// span is for how many renewals an operator has to be idle.
func span(t *testing.T) int {
	t.Helper()
	if env.IsSoak(t) {
		return 10 * renewals
	}
	return renewals
}

// suite holds the cluster; TestMain fills it in.
var suite struct{ cluster *env.Cluster }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// The race detector would need memory of its own.
	programs, err := env.ReleasePrograms(false, env.ClusterRelease)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return env.RunShared(func(_ context.Context, cluster *env.Cluster) (int, error) {
		suite.cluster, cluster.Operator = cluster, env.OperatorName
		return m.Run(), nil
	}, append(programs, "--nodes", "12")...)
}

// start starts an operator that nobody has asked for a driver yet.
func start(t *testing.T, cluster *env.Cluster) *env.Operator {
	t.Helper()
	env.Must(t, cluster.InstallManifests(t.Context()))
	operator, err := cluster.StartOperator(t.Context(), []string{shortLease}, []string{"POD_UID=pod"})
	env.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator printed:\n%s", env.LastLines(operator.Output()))
		}
		env.Must(t, operator.Stop())
	})
	return operator
}

// withinBudget counts what an installation has cost since a mark, and returns it.
func withinBudget(t *testing.T, cluster *env.Cluster, mark env.Mark, what string) []env.Request {
	t.Helper()
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	requests = env.Filter(requests, func(r env.Request) bool { return !r.IsLease() && r.Verb != "watch" })
	writes := env.Filter(requests, env.Request.IsWrite)
	t.Logf("%s: %d requests, %d of them writes", what, len(requests), len(writes))
	if len(requests) > mostRequests || len(writes) > mostWrites {
		t.Errorf("%d requests and %d writes, at most %d and %d are allowed:\n%s",
			len(requests), len(writes), mostRequests, mostWrites, env.Describe(requests))
	}
	return requests
}

// The credentials come late, as in a real cluster, whose cloud-credential-operator asks AWS first. However often the operator looks while it waits,
// it does not search for predecessors where there are none.
func TestInstallationAndIdlingStayWithinBudget(t *testing.T) {
	cluster := suite.cluster
	operator := start(t, cluster)
	mark := settled(t, cluster, env.OperatorUser, 0, operator.Started)

	env.Must(t, cluster.StopComponent(t.Context(), "stand-ins"))
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	env.Eventually(t, "a CredentialsRequest of some age", func() error { return waitsForCredentials(t, cluster) })
	env.Must(t, cluster.StartComponent(t.Context(), "stand-ins"))
	settled(t, cluster, env.OperatorUser, mark, func() error { return cluster.Settled(t.Context()) })
	requests := withinBudget(t, cluster, mark, "from the ClusterCSIDriver to settled")
	if lists := env.Filter(requests, func(r env.Request) bool { return r.Verb == "list" && r.Object.Resource == "pods" }); len(lists) > 0 {
		t.Errorf("pods are listed, although nobody was here before:\n%s", env.Describe(lists))
	}

	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	idle := settled(t, cluster, env.OperatorUser, mark, func() error { return shared(t, cluster) })
	// There are credentials, and no AWS: that is reported once, after the second try.
	env.Must(t, env.AwaitFor(t.Context(), 4*time.Minute, "nothing heard of AWS", func() error { return unreachable(t, cluster) }))
	settled(t, cluster, env.OperatorUser, idle, func() error { return nil })
	waitIdle(t, cluster, env.OperatorUser, idle, span(t), "with an installed driver and SharedVolumes", "patch clustercsidrivers", "create events")

	if memory, known := resident(t, operator.PID()); known && memory > mostMemory {
		t.Errorf("the operator holds %d MiB, at most %d are allowed", memory, mostMemory)
	}
	env.Must(t, cluster.Audit.NoRefusals(0, env.OperatorUser))
	// The driver of the next test needs the ports of its node pods.
	env.Must(t, cluster.Uninstall(t.Context()))
}

// late is how long credentials keep the driver waiting at least.
const late = 2 * time.Second

// waitsForCredentials checks that a CredentialsRequest has waited for long enough.
func waitsForCredentials(t *testing.T, cluster *env.Cluster) error {
	t.Helper()
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
	return fmt.Errorf("%d requests, none of them is old enough", len(requests.Items))
}

// shared creates SharedVolumes that are not there yet, and checks that they are Ready.
func shared(t *testing.T, cluster *env.Cluster) error {
	t.Helper()
	for _, name := range []string{"sv1", "sv2", "sv3"} {
		sv := env.SharedVolume("default", name)
		if err := cluster.Client.Create(t.Context(), sv); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := cluster.Ready(t.Context(), sv); err != nil {
			return err
		}
	}
	return nil
}

// unreachable checks that the operator has reported that AWS does not answer.
func unreachable(t *testing.T, cluster *env.Cluster) error {
	t.Helper()
	return cluster.Says(t.Context(), env.EFS("").Name, "AWSEFSCloudUnreachable", "True")
}

// following returns the requests of one user since a mark, at each call. What was read once is not read again: the log grows by what
// everybody asks for.
func following(cluster *env.Cluster, user string, mark env.Mark) func() ([]env.Request, error) {
	var requests []env.Request
	return func() ([]env.Request, error) {
		more, next, err := cluster.Audit.Next(mark, user)
		requests, mark = append(requests, more...), next
		return requests, err
	}
}

// settled waits until a condition holds and the operator makes no more requests but renewals of its lease. It returns the place in the audit log.
func settled(t *testing.T, cluster *env.Cluster, user string, mark env.Mark, condition func() error) env.Mark {
	t.Helper()
	env.Eventually(t, "settled", condition)
	read := following(cluster, user, mark)
	env.Must(t, env.AwaitFor(t.Context(), 3*time.Minute, "no more requests", func() error {
		requests, err := read()
		if err != nil {
			return err
		}
		last := requests[max(0, len(requests)-calm):]
		if seen := len(env.Filter(last, isRenewal)); seen < calm {
			return fmt.Errorf("%d of the last %d requests renew the lease", seen, calm)
		}
		return condition()
	}))
	end, err := cluster.Audit.Now()
	env.Must(t, err)
	return end
}

func isRenewal(r env.Request) bool { return r.IsLease() && r.IsWrite() }

// waitIdle waits for a number of lease renewals and allows nothing else but watches that are opened again, and each of these requests once.
func waitIdle(t *testing.T, cluster *env.Cluster, user string, mark env.Mark, renewals int, when string, once ...string) {
	t.Helper()
	// Renewals come every 2.6 s. A busy machine may delay them.
	limit := time.Minute + time.Duration(renewals)*5*time.Second
	read := following(cluster, user, mark)
	env.Must(t, env.AwaitFor(t.Context(), limit, fmt.Sprintf("%d renewals of the lease %s", renewals, when), func() error {
		requests, err := read()
		if err != nil {
			return err
		}
		seen := len(env.Filter(requests, isRenewal))
		if seen < renewals {
			return fmt.Errorf("%d so far", seen)
		}
		return nil
	}))
	requests, err := read()
	env.Must(t, err)
	watches := env.Filter(requests, func(r env.Request) bool { return r.Verb == "watch" })
	others := env.Filter(requests, func(r env.Request) bool {
		if known := slices.Index(once, r.Verb+" "+r.Object.Resource); known >= 0 {
			once = slices.Delete(once, known, known+1)
			return false
		}
		return r.Verb != "watch" && !r.IsLease()
	})
	t.Logf("idle %s over %d lease renewals: %d watches opened again, %d other requests", when, renewals, len(watches), len(others))
	if len(others) > 0 {
		t.Errorf("requests %s:\n%s", when, env.Describe(others))
	}
}

// resident is the resident memory of a process in MiB; only Linux shows it.
func resident(t *testing.T, pid int) (int, bool) {
	t.Helper()
	mebibytes, known, err := env.Resident(pid)
	env.Must(t, err)
	t.Logf("resident memory: %d MiB, known: %t", mebibytes, known)
	return mebibytes, known
}
