// Package plugin runs the commands of "oc storage" in clusters that are broken in one way at a time: a real control plane, the operator, and
// a stand-in for AWS. Doctor must name the cause, and nothing else as a cause.
package plugin

import (
	"context"
	"os"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// pool has the cluster of the tests, with nodes in three zones.
var pool = &env.Pool{Size: 1, Flags: []string{"--nodes", "6", "--credentials-mode", "Manual"}, Prepare: prepare}

// moto is the endpoint of the stand-in for AWS. It ends with this process.
var moto string

func TestMain(m *testing.M) {
	os.Exit(pool.Run(m))
}

func prepare(ctx context.Context, cluster *env.Cluster) error {
	if err := cluster.InstallManifests(ctx); err != nil {
		return err
	}
	var err error
	moto, _, err = fakeaws.Serve()
	return err
}
