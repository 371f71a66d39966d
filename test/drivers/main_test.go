// Package drivers runs csi-driver-operator for each driver of the payload, one after the other, against a real control plane.
package drivers

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// pool has the clusters of the tests.
var pool = &env.Pool{Size: 2, Flags: []string{"--nodes", "4"}, Prepare: func(ctx context.Context, cluster *env.Cluster) error {
	return cluster.Namespace(ctx, env.OperatorNamespace)
}}

// vSpheres has those that are in vSphere: no node of another cloud can become one of a vCenter.
var vSpheres = &env.Pool{Most: 1, Flags: []string{"--nodes", "4", "--platform", "VSphere"}, Prepare: pool.Prepare}

// handovers has those in which a predecessor of OpenShift 4.5 works: such tests leave everything behind.
var handovers = &env.Pool{Most: 1, Sweeps: true, Flags: []string{"--nodes", strconv.Itoa(handedNodes)}}

func TestMain(m *testing.M) {
	os.Exit(pool.Run(m, vSpheres, handovers))
}
