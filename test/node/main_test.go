// Package node runs the product's pods as they are rendered on a real node: containerd, runc and the kubelet of a devcluster. The EFS operator
// comes as its bundle deploys it, under the roles that this brings.
//
// Programs are the product's own, and others as their projects have released them. Stand-ins take the place of programs that no module proxy serves:
// docs/contribute/devcluster.md lists them. A pod in which the recorder takes a driver's place says nothing about the arguments of that driver.
//
// Where the machine can't run real nodes, the package says why in one sentence, and passes.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// zone is where the node is, and what the recorder says about its volumes.
const zone = "us-east-1a"

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	// archive has all images.
	archive string
	// cluster is that of the test that runs.
	cluster *env.Cluster
	// node is its only one.
	node string
}

func TestMain(m *testing.M) {
	ctx := context.Background()
	code, err := run(ctx, m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	missing, err := missing(ctx)
	if err != nil {
		return 1, err
	}
	if missing != "" {
		fmt.Println("No pod is started on a real node:", missing)
		return 0, nil
	}
	folder, err := os.MkdirTemp("", "node-images-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	suite.archive = filepath.Join(folder, "images.tar")
	images, err := images()
	if err != nil {
		return 1, err
	}
	if err := images.Write(suite.archive); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// open starts a cluster with one real node, which has all images.
func open(t *testing.T) {
	t.Helper()
	begin := time.Now()
	ctx := t.Context()
	cluster, err := env.Start(ctx, "--topology", "SingleReplica", "--real-nodes", "1")
	env.Must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	suite.cluster = cluster
	env.Must(t, cluster.LoadImages(ctx, suite.archive))
	env.Must(t, findNode(ctx))
	t.Logf("the node is there after %s", time.Since(begin).Round(time.Millisecond))
}

// missing is the sentence that says why this machine can't run real nodes; empty if it can.
func missing(ctx context.Context) (string, error) {
	devcluster, err := env.Binary("devcluster")
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, devcluster, "real-nodes-check").CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return strings.TrimSpace(string(output)), nil
	}
	return "", err
}

func findNode(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := suite.cluster.Client.List(ctx, nodes, client.MatchingLabels{"devcluster/real": "true"}); err != nil {
		return err
	}
	if len(nodes.Items) != 1 {
		return fmt.Errorf("the cluster has %d real nodes, want 1", len(nodes.Items))
	}
	suite.node = nodes.Items[0].Name
	return nil
}

// images are all that the pods of this package have.
func images() (nodeimages.Images, error) {
	all := nodeimages.Images{}
	for _, add := range []func(nodeimages.Images) error{bundled, golden} {
		if err := add(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}
