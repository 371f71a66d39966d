// Package e2e runs the operator as a process of its own, under its own ServiceAccount and RBAC, against a real control
// plane.
package e2e

import (
	"context"
	"os"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// allObjects is the number of objects of an installation in mint mode; TestInstallReachesAvailableWithEveryObject lists them.
const allObjects = 23

// pool has the cluster of the tests. One after the other, they need one.
var pool = &env.Pool{Size: 1, InOrder: true, Flags: []string{"--nodes", "4"}, Prepare: prepare, Check: checkRBAC}

func TestMain(m *testing.M) {
	os.Exit(pool.Run(m))
}

func prepare(ctx context.Context, cluster *env.Cluster) error {
	if err := cluster.InstallManifests(ctx); err != nil {
		return err
	}
	// Else they would be new in the first test.
	return env.Await(ctx, "pull Secrets", func() error { return cluster.HasPullSecrets(ctx) })
}

// clean gives a test a cluster to itself, and checks at its end that the test leaves nothing behind.
func clean(t *testing.T) *env.Cluster {
	t.Helper()
	cluster := pool.Lend(t)
	scene := env.Scene{Cluster: cluster, T: t}
	scene.NoRefusals(env.OperatorUser, env.OperatorUserIn(otherNamespace))
	scene.Unchanged()
	return cluster
}

// operate starts the operator without leader election, so that a killed one is succeeded at once.
func operate(t *testing.T, cluster *env.Cluster) *env.Operator {
	t.Helper()
	return operateWith(t, cluster)
}

// operateWith is operate with more environment, as NAME=value.
func operateWith(t *testing.T, cluster *env.Cluster, environment ...string) *env.Operator {
	t.Helper()
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false"}, environment)
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return operator
}

// install creates the ClusterCSIDriver and waits until the driver is rolled out. The driver is removed with the test.
func install(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	uninstallAtEnd(t, cluster)
	create(t, cluster)
}

// installed gives a test a clean cluster with a running operator and an installed driver.
func installed(t *testing.T) (*env.Cluster, *env.Operator) {
	t.Helper()
	cluster := clean(t)
	operator := operate(t, cluster)
	install(t, cluster)
	return cluster, operator
}

// create is install without the removal at the end, for tests that end their operator and start another one.
func create(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
}

// uninstallAtEnd deletes the ClusterCSIDriver when the test ends, while the operator still runs.
func uninstallAtEnd(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		if err := cluster.Uninstall(ctx); err != nil {
			t.Error(err)
		}
	})
}
