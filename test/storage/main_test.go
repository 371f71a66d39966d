// Package storage runs the cluster-storage-operator as a cluster does: its release is applied as the cluster-version operator does it, and
// pods of all operators are programs under their own ServiceAccounts, with the roles of the release. Operators of others are
// stand-ins.
package storage

import (
	"fmt"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The releases that the cluster can run. The first one is that of the cluster's own configuration.
const (
	release     = env.ClusterRelease
	nextRelease = "4.21.1"
)

// pool lends one cluster, because a start costs more than what tests wait for, and other packages run meanwhile.
var pool = &env.Pool{Size: 1, Check: checkRBAC}

func TestMain(m *testing.M) {
	programs, err := env.ReleasePrograms(env.RaceAsked(), release, nextRelease)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pool.Flags = append(programs, "--nodes", "4", "--platform", "None")
	os.Exit(pool.Run(m))
}
