// Package node runs the product's pods as they are rendered on a real node: containerd, runc and the kubelet of a devcluster. The EFS operator
// comes as its bundle deploys it, those of the payload come as the cluster-version operator deploys them, under the roles that these bring.
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
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release"
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
	// nodes are its real ones.
	nodes []string
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
	missing, err := env.RealNodesMissing(ctx)
	if err != nil {
		return 1, err
	}
	if missing != "" {
		fmt.Println("No pod is started on a real node:", missing)
		return 0, nil
	}
	folder, remove, err := env.Folder("csi-operators-node-images-")
	if err != nil {
		return 1, err
	}
	defer remove()
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

// open starts a cluster with these flags of "devcluster up", whose real nodes have all images.
func open(t *testing.T, flags ...string) {
	t.Helper()
	begin := time.Now()
	ctx := t.Context()
	cluster, err := env.Start(ctx, flags...)
	env.Must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	suite.cluster = cluster
	env.Must(t, cluster.LoadImages(ctx, suite.archive))
	env.Must(t, findNodes(ctx))
	t.Logf("the node is there after %s", time.Since(begin).Round(time.Millisecond))
}

// findNodes lists the real nodes of the cluster, of which there is one at least.
func findNodes(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := suite.cluster.Client.List(ctx, nodes, client.MatchingLabels{"devcluster/real": "true"}); err != nil {
		return err
	}
	suite.nodes = nil
	for _, node := range nodes.Items {
		suite.nodes = append(suite.nodes, node.Name)
	}
	if len(suite.nodes) == 0 {
		return errors.New("the cluster has no real node")
	}
	return nil
}

// images are all that the pods of this package have.
func images() (nodeimages.Images, error) {
	bundled, err := nodeimages.Bundled()
	if err != nil {
		return nil, err
	}
	payload, err := nodeimages.Payload(env.ClusterRelease, zone)
	if err != nil {
		return nil, err
	}
	golden, err := nodeimages.Golden(zone)
	if err != nil {
		return nil, err
	}
	plugin, err := nodeimages.Product(release.Plugin)
	return nodeimages.Join(bundled, payload, golden, nodeimages.Images{tried: plugin}), err
}
