// Package cloud runs the operator against a real control plane, with nodes in three zones, and a stand-in for AWS: what the operator
// looks at there, what it says and does about it, and how few requests that takes.
package cloud

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// pool has the cluster of the tests, one after the other: a second one, with its stand-in for AWS, costs a fifth of all of them. In it the
// administrator is responsible for credentials: no test has any that it has not made.
var pool = &env.Pool{Size: 1, Flags: []string{"--nodes", "6", "--credentials-mode", "Manual"}, Prepare: prepare, Check: noRefusals}

// motos are the endpoints of the stand-ins for AWS, by the clusters beside which they were started. Each test empties its own.
var motos sync.Map

func TestMain(m *testing.M) {
	os.Exit(pool.Run(m))
}

func prepare(ctx context.Context, cluster *env.Cluster) error {
	if err := cluster.InstallManifests(ctx); err != nil {
		return err
	}
	// It ends with this process.
	moto, _, err := fakeaws.Serve()
	motos.Store(cluster, moto)
	return errors.Join(err, cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)))
}

func noRefusals(clusters []*env.Cluster, _ bool) error {
	var all []error
	for _, cluster := range clusters {
		all = append(all, cluster.Audit.NoRefusals(0, env.OperatorUser))
	}
	return errors.Join(all...)
}
