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
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	programs, err := env.ReleasePrograms(true, release, nextRelease)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.cluster, err = env.Start(ctx, append(programs, "--nodes", "4", "--platform", "None")...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := suite.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	code := m.Run()
	if err := judgeRights(suite.cluster, code == 0 && rights.Complete()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
