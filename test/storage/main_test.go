// Package storage runs the cluster-storage-operator as a cluster does: its release is applied as the cluster-version operator does it, and
// pods of all operators are programs under their own ServiceAccounts, with the roles of the release. Operators of others are
// stand-ins.
package storage

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rights"
)

// The releases that the cluster can run. The first one is that of the cluster's own configuration.
const (
	release     = env.ClusterRelease
	nextRelease = "4.21.1"
)

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *env.Cluster
}

func TestMain(m *testing.M) {
	programs, err := env.ReleasePrograms(true, release, nextRelease)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(env.RunShared(func(_ context.Context, cluster *env.Cluster) (int, error) {
		suite.cluster = cluster
		code := m.Run()
		return code, judgeRights(cluster, code == 0 && rights.Complete())
	}, append(programs, "--nodes", "4", "--platform", "None")...))
}
