// Package real starts the sidecars of the drivers as their projects have released them: with exactly what is rendered, under the rendered
// roles, against a real API server and a CSI driver. What is rendered for other programs is held against lists made from their sources.
//
// Pods have ports of their machine, and their sidecars take fixed ones. So one process of this test runs at a time on a machine.
package real

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *env.Cluster
	// folder holds the volumes of the pods. Paths of sockets are short, and so is its own.
	folder string
	// variants are what each driver renders in each configuration, by the driver's folder and the name of the variant.
	variants map[string][]*variant
	// profiles are what the drivers say about themselves, by their folders.
	profiles map[string]driverProfile
}

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	release, err := alone()
	if err != nil {
		return 1, err
	}
	defer release()
	if suite.variants, err = readVariants(ctx); err != nil {
		return 1, err
	}
	if suite.profiles, err = readProfiles(suite.variants); err != nil {
		return 1, err
	}
	folder, remove, err := env.Folder("csi-operators-real-")
	if err != nil {
		return 1, err
	}
	suite.folder = folder
	defer remove()
	if suite.cluster, err = env.Start(ctx, "--nodes", "4"); err != nil {
		return 1, err
	}
	defer func() {
		if problem := suite.cluster.Stop(context.WithoutCancel(ctx)); err == nil {
			err = problem
		}
	}()
	for _, variants := range suite.variants {
		if err := suite.cluster.Namespace(ctx, variants[0].namespace()); err != nil {
			return 1, err
		}
	}
	end, err := startSnapshotController(ctx)
	if err != nil {
		return 1, err
	}
	defer end()
	return m.Run(), nil
}

// alone waits until no other process of this test runs on the machine.
func alone() (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "csi-operators-test-real.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the pods' ports: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock of the pods' ports: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// startSnapshotController gives the cluster what OpenShift has of its own: the kinds of snapshots and their controller, which is the
// released one. It is the administrator here: its roles are not ours.
func startSnapshotController(ctx context.Context) (end func(), err error) {
	binary, err := env.Binary("real/snapshot-controller")
	if err != nil {
		return nil, err
	}
	crds, err := filepath.Glob(filepath.Join(filepath.Dir(binary), "crds", "snapshot.storage.k8s.io_*.yaml"))
	if err != nil || len(crds) != 3 {
		return nil, fmt.Errorf("bin/real/crds has %d CRDs of snapshots, want 3: run 'make bin/real' (%w)", len(crds), err)
	}
	for _, file := range crds {
		if err := suite.cluster.ApplyFile(ctx, file); err != nil {
			return nil, err
		}
	}
	_, err = suite.cluster.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, prefixed("-f=", crds)...)...)
	if err != nil {
		return nil, err
	}
	controller, err := env.RunExactly(binary, []string{"--kubeconfig=" + suite.cluster.Kubeconfig(), "--v=4"}, nil)
	if err != nil {
		return nil, err
	}
	return func() { _ = controller.Stop() }, nil
}

func prefixed(prefix string, values []string) []string {
	all := make([]string, 0, len(values))
	for _, value := range values {
		all = append(all, prefix+value)
	}
	return all
}
