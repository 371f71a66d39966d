// Package cloud runs the operator against a real control plane, with nodes in three zones, and a stand-in for AWS: what the operator
// looks at there, what it says and does about it, and how few requests that takes.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rights"
)

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *env.Cluster
	// moto is the endpoint of the stand-in for AWS, which is emptied for each test.
	moto string
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts a cluster in which the administrator is responsible for credentials: no test has any that it has not made.
func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	moto, stop, err := env.ServeAWS()
	if err != nil {
		return 1, err
	}
	defer stop()
	cluster, err := env.Start(ctx, "--nodes", "6", "--credentials-mode", "Manual")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(ctx)) }()
	if err := cluster.InstallManifests(ctx); err != nil {
		return 1, err
	}
	if err := cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
		return 1, err
	}
	suite.cluster, suite.moto = cluster, moto
	code = m.Run()
	requests, err := cluster.Audit.Since(0, env.OperatorUser)
	if refused := env.Filter(requests, rights.Refused); len(refused) > 0 {
		err = errors.New("the operator has asked for what it has no right to:\n" + env.Describe(refused))
	}
	return code, err
}
