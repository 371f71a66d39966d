// Package e2e runs the operator as a process of its own, under its own ServiceAccount and RBAC, against a real control
// plane.
package e2e

import (
	"context"
	"os"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rights"
)

// allObjects is the number of objects of an installation in mint mode; TestInstallReachesAvailableWithEveryObject lists them.
const allObjects = 24

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
		// Else they would be new in the first test.
		if err := env.Await(ctx, "pull Secrets", func() error { return cluster.HasPullSecrets(ctx) }); err != nil {
			return 1, err
		}
		code := m.Run()
		return code, judgeRights(cluster, code == 0 && rights.Complete())
	}, "--nodes", "6"))
}

// clean gives a test the shared cluster and checks at its end that the test leaves nothing behind.
func clean(t *testing.T) *env.Cluster {
	t.Helper()
	cluster := suite.cluster
	before, err := cluster.Take(t.Context())
	env.Must(t, err)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	t.Cleanup(func() {
		requests, err := cluster.Audit.Since(mark, env.OperatorUser)
		if err != nil {
			t.Error(err)
		}
		if refused := env.Filter(requests, rights.Refused); len(refused) > 0 {
			t.Errorf("requests that the operator has no right to:\n%s", env.Describe(refused))
		}
	})
	t.Cleanup(func() {
		err := env.Await(context.Background(), "the cluster as it was before the test", func() error {
			after, err := cluster.Take(context.Background())
			if err != nil {
				return err
			}
			return before.Differs(after)
		})
		if err != nil && !t.Failed() {
			t.Error(err)
		}
	})
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
