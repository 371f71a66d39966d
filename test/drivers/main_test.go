// Package drivers runs csi-driver-operator for each driver of the payload, one after the other, against a real control plane.
package drivers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
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
	cluster, err := env.Start(ctx, "--nodes", "4")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := cluster.Namespace(ctx, env.OperatorNamespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.cluster = cluster
	return m.Run()
}
