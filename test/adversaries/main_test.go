// Package adversaries runs the operators beside those who mean no good, or have bad luck: a hostile tenant, a second copy of each
// operator, a namespace that is made again, clocks that differ, strangers at the metrics endpoint. All tests share one
// control plane. What is bounded is counted: requests in the audit log, memory by the kernel.
package adversaries

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// patience is how long a test waits for a SharedVolume of a tenant until it is Ready. What may come before it is counted, not timed.
const patience = 2 * time.Minute

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *env.Cluster
}

func TestMain(m *testing.M) {
	os.Exit(env.RunShared(func(ctx context.Context, cluster *env.Cluster) (int, error) {
		suite.cluster = cluster
		if err := cluster.InstallManifests(ctx); err != nil {
			return 1, err
		}
		return m.Run(), nil
	}, "--nodes", "3"))
}

const (
	// alone lets an operator work at once, although another held the lease before.
	alone = "--leader-elect=false"
	// oftener has an operator renew its lease every 2.6 s, and not every 26 s, for tests that wait for it.
	oftener = "--leader-elect-retry-period=2600ms"
)

// racing is the cluster for a test in which most happens at the same time: its operator has the race detector.
func racing() *env.Cluster {
	cluster := *suite.cluster
	cluster.Operator = env.RaceOperator
	return &cluster
}

// operate starts the EFS operator. It ends with the test.
func operate(t *testing.T, cluster *env.Cluster, args ...string) *env.Operator {
	t.Helper()
	// What it says of an AWS that does not answer is no concern of these tests.
	operator, err := cluster.StartOperator(t.Context(), args, []string{"LOOK_AT_AWS=false"})
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return operator
}

// install creates the ClusterCSIDriver and waits for the driver. A test that fails leaves none to the next one.
func install(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	cr := env.EFS(operatorv1.Managed)
	env.Must(t, cluster.Client.Create(t.Context(), cr))
	t.Cleanup(func() {
		ctx := context.Background()
		none := env.Merge(`{"metadata":{"finalizers":null}}`)
		err := errors.Join(client.IgnoreNotFound(cluster.Client.Delete(ctx, cr)), client.IgnoreNotFound(cluster.Client.Patch(ctx, cr, none)))
		if err != nil {
			t.Error(err)
		}
	})
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
}

// tenant is a namespace, and the client of somebody who may edit it and nothing else.
func tenant(t *testing.T, cluster *env.Cluster, namespace string) client.Client {
	t.Helper()
	env.Must(t, cluster.Namespace(t.Context(), namespace))
	t.Cleanup(func() { empty(t, cluster, namespace) })
	return editor(t, cluster, namespace)
}

// editor lets the tenant of a namespace edit it: the binding goes with the namespace.
func editor(t *testing.T, cluster *env.Cluster, namespace string) client.Client {
	t.Helper()
	user := "tenant-of-" + namespace
	env.Must(t, cluster.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}))
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	own, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	env.Must(t, err)
	env.Eventually(t, "the tenant's RBAC in force", func() error {
		return own.List(t.Context(), &corev1.PersistentVolumeClaimList{}, client.InNamespace(namespace))
	})
	return own
}

// empty deletes the SharedVolumes and PVCs of a tenant, of which the operators of later tests are to know nothing. To delete a namespace costs a
// hundred requests.
func empty(t *testing.T, cluster *env.Cluster, namespace string) {
	t.Helper()
	for _, kind := range []client.Object{&v1alpha1.SharedVolume{}, &corev1.PersistentVolumeClaim{}} {
		if err := cluster.Client.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
	}
}

// forget deletes a namespace. Nobody waits for its end: the control plane has no other use.
func forget(t *testing.T, cluster *env.Cluster, namespace string) {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := client.IgnoreNotFound(cluster.Client.Delete(context.Background(), space)); err != nil {
		t.Error(err)
	}
}

// each does something for all numbers below count, many at once.
func each(count int, what func(number int) error) error {
	numbers := make(chan int)
	failures := make([]error, 32)
	var group sync.WaitGroup
	for i := range failures {
		group.Go(func() {
			for number := range numbers {
				if err := what(number); err != nil {
					failures[i] = err
				}
			}
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	group.Wait()
	return errors.Join(failures...)
}

// requests are those of a user since a mark that match.
func requests(t *testing.T, mark env.Mark, user string, match func(env.Request) bool) []env.Request {
	t.Helper()
	all, err := suite.cluster.Audit.Since(mark, user)
	env.Must(t, err)
	return env.Filter(all, match)
}

// now is the current end of the audit log.
func now(t *testing.T) env.Mark {
	t.Helper()
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	return mark
}
