// Package drivers runs csi-driver-operator for each driver of the payload, one after the other, against a real control plane.
package drivers

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

// pool lends one cluster, because a start costs more than a sweep, and other packages run meanwhile. Its nodes are VMs of vCenters from the beginning:
// what a node says of its VM can't be taken back.
var pool = &env.Pool{
	Size: 1, Sweeps: true, Flags: []string{"--nodes", "4", "--platform", "None", "--feature-gates", driver.SchedulingGate + "=true"},
	Prepare: func(ctx context.Context, cluster *env.Cluster) error {
		return errors.Join(cluster.Namespace(ctx, env.OperatorNamespace), vcenters.NameVMs(ctx, cluster))
	},
}

func TestMain(m *testing.M) { os.Exit(pool.Run(m)) }
