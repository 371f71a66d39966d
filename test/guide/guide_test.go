// Package guide runs the commands of the guides as a reader would copy them.
package guide

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// pool has a cluster for one test after the other: a sweep costs less than a start.
var pool = &env.Pool{Size: 1, Most: 1, Sweeps: true, Flags: []string{"--nodes", "3"}}

func TestMain(m *testing.M) { os.Exit(pool.Run(m)) }

// blocks are marked as bash. What can't run here, because it never ends for instance, is marked as sh.
func blocks(t *testing.T, root, name string) []env.Block {
	t.Helper()
	found, err := env.Blocks(root, name, "bash")
	env.Must(t, err)
	return found
}

// pagesThatRun are those of the EFS operator whose commands need nothing but a cluster with the operator.
func pagesThatRun() []string {
	return []string{
		"install-without-olm.md", "driver.md", "credentials.md", "configuration.md", "alerts.md", "one-zone.md", "use-a-volume.md", "sharedvolume.md",
		"prepare-a-file-system.md", "compatibility.md", "csi-migration.md", "gitops.md", "get-help.md", "node-rollout.md",
		"driver-image.md",
	}
}

func TestTheCommandsOfTheGuidesWork(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	cluster, home := reader(t, root)
	t.Run("samples", func(t *testing.T) { samples(t, cluster, root) })
	ran := 0
	for _, name := range pagesThatRun() {
		ran += run(t, cluster, home, blocks(t, root, name))
	}
	if ran < 25 {
		t.Errorf("%d command blocks were found in the guides: the fences are not read", ran)
	}
}

// A reader who meets a block that no test runs is to know why.
func TestBlocksThatAreNotRunSayWhy(t *testing.T) {
	// Tests of other packages run some pages: test/bundle installs, test/takeover migrates and rolls back, test/storage has the
	// cluster-storage-operator, and test/aws deletes what a cluster has left in AWS.
	ran := append(pagesThatRun(), "install.md", "upgrade-from-community.md", "cluster-storage.md", "destroy.md")
	root, err := env.Root()
	env.Must(t, err)
	guides, err := filepath.Glob(filepath.Join(root, "docs", "guide", "*.md"))
	env.Must(t, err)
	for _, guide := range guides {
		name := filepath.Base(guide)
		text, err := os.ReadFile(guide)
		env.Must(t, err)
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			switch language, isFence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
			case !isFence:
			case language == "bash" && !slices.Contains(ran, name):
				t.Errorf("%s:%d: no test runs the page: add it to pagesThatRun, or mark the block sh and say why", name, i+1)
			case language == "sh" && name != rollBackPage && (i < 2 || !strings.HasPrefix(strings.TrimSpace(lines[i-2]), "<!-- not run: ")):
				t.Errorf("%s:%d: write <!-- not run: why --> above the block", name, i+1)
			}
		}
	}
}

// rollBackPage has blocks that are marked sh because they run in another order: the test of the roll back runs them.
const rollBackPage = "upgrade-from-community.md"

// reader is somebody with the repository, the programs that the guides name, and a cluster with the operator.
func reader(t *testing.T, root string) (*env.Cluster, string) {
	t.Helper()
	cluster := pool.Lend(t)
	env.Must(t, cluster.InstallManifests(t.Context()))
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false"}, nil)
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	return cluster, surroundings(t, cluster, root)
}

// run runs the blocks in order, each while the driver is installed, and returns how many there are.
func run(t *testing.T, cluster *env.Cluster, home string, commands []env.Block) int {
	t.Helper()
	last := ""
	for _, b := range commands {
		t.Run(b.Place, func(t *testing.T) {
			last = installed(t, cluster, last)
			if err := b.Run(t.Context(), home); err != nil {
				t.Error(err)
			}
		})
	}
	return len(commands)
}

// samples asks the API server to take every sample, without making it.
func samples(t *testing.T, cluster *env.Cluster, root string) {
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	env.Must(t, err)
	if len(files) < 2 {
		t.Errorf("%d samples", len(files))
	}
	_, err = cluster.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-f", strings.Join(files, ","))
	env.Must(t, err)
}

// surroundings makes a folder as the reader has it: what the guides name of the repository, and the programs. What a reader
// has besides is played by stand-ins.
func surroundings(t *testing.T, cluster *env.Cluster, root string) string {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"config", "bundle", "docs", "VERSION"} {
		env.Must(t, os.Symlink(filepath.Join(root, name), filepath.Join(home, name)))
	}
	plugin, err := env.Binary("oc-storage")
	env.Must(t, err)
	env.Must(t, os.Symlink(plugin, filepath.Join(home, "oc-storage")))
	clients := t.TempDir()
	env.Must(t, cluster.Kubectls(clients))
	kubectl := fmt.Sprintf("exec %q \"$@\"\n", filepath.Join(clients, "kubectl"))
	for name, script := range map[string]string{"kubectl": kubectl, "oc": ocStandIn + kubectl, "aws": awsStandIn} {
		env.Must(t, os.WriteFile(filepath.Join(home, name), []byte("#!/bin/sh\nset -eu\n"+script), 0o700))
	}
	return home
}

// installed makes sure that the driver is there and managed, whatever the block before has done. Last is what it has returned for that block: a
// ClusterCSIDriver that the block has left as it was is not applied again.
func installed(t *testing.T, cluster *env.Cluster, last string) string {
	t.Helper()
	identity := ""
	read := func() error {
		cr := env.EFS("")
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr)
		identity = fmt.Sprint(cr.UID, cr.Generation, cr.Annotations, cr.Labels)
		if err == nil && cr.DeletionTimestamp != nil {
			err = errors.New("it is still being deleted")
		}
		return err
	}
	env.Eventually(t, "a ClusterCSIDriver that stays", func() error {
		err := read()
		if err == nil && identity == last || err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if _, err := cluster.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "config", "samples", "clustercsidriver.yaml")); err != nil {
			return err
		}
		return read()
	})
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	return identity
}
