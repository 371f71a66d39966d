// Package drivers runs csi-driver-operator for each driver of the payload, one after the other, against a real control plane.
package drivers

import (
	"context"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *env.Cluster
}

func TestMain(m *testing.M) {
	os.Exit(env.RunShared(func(ctx context.Context, cluster *env.Cluster) (int, error) {
		suite.cluster = cluster
		if err := cluster.Namespace(ctx, env.OperatorNamespace); err != nil {
			return 1, err
		}
		return m.Run(), nil
	}, "--nodes", "4"))
}
