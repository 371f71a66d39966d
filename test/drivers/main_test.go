// Package drivers runs csi-driver-operator for each driver of the payload, one after the other, against a real control plane.
package drivers

import (
	"context"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// pool has the clusters of the tests.
var pool = &env.Pool{Size: 2, Flags: []string{"--nodes", "4"}, Prepare: func(ctx context.Context, cluster *env.Cluster) error {
	return cluster.Namespace(ctx, env.OperatorNamespace)
}}

func TestMain(m *testing.M) {
	os.Exit(pool.Run(m))
}
