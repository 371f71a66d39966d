// Package bundle installs, configures, upgrades and removes the operator from the bundles as OLM does, with a stand-in of OLM on a
// real control plane. Each test has a control plane to itself until it ends.
package bundle

import (
	"os"
	"path"
	"strconv"
	"testing"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

const (
	// nodes of a cluster, of which three are the control plane's. The driver runs on all of them.
	nodes = 5
	// communityNamespace is where the community's operator mostly is.
	communityNamespace = "openshift-operators"
	driverName         = "efs.csi.aws.com"
)

// pool lends one cluster, because a start costs more than a sweep, and other packages run meanwhile.
var pool = &env.Pool{Size: 1, Sweeps: true, Flags: []string{"--nodes", strconv.Itoa(nodes)}}

func TestMain(m *testing.M) { os.Exit(pool.Run(m)) }

// scene is a cluster with OLM.
type scene struct {
	*env.Cluster
	olm *fakeolm.OLM
	// namespace is where the operator is installed.
	namespace string
	// since is the place in the audit log from which on requests count.
	since env.Mark
}

// open gives a test a control plane. At the end the operator has stopped cleanly, and no request of it was refused: it has had no
// RBAC but that of its ClusterServiceVersion.
func open(t *testing.T, namespace string) *scene {
	t.Helper()
	cluster := pool.Lend(t)
	s := &scene{Cluster: cluster, olm: fakeolm.New(cluster), namespace: namespace}
	var err error
	s.since, err = s.Audit.Now()
	env.Must(t, err)
	t.Cleanup(func() {
		if operator := s.olm.Operator(); t.Failed() && operator != nil {
			t.Logf("the operator printed:\n%s", env.LastLines(operator.Output()))
		}
		if err := s.olm.Stop(); err != nil {
			t.Error(err)
		}
		s.refusedNothing(t)
	})
	return s
}

// refusedNothing checks that no request of the operator was refused.
func (s *scene) refusedNothing(t *testing.T) {
	t.Helper()
	if err := s.Audit.NoRefusals(s.since, env.OperatorUserIn(s.namespace)); err != nil {
		t.Error(err)
	}
}

// uninstall removes an operator. OLM takes its RBAC first: what it is refused from then on is no mistake of its own, and its Lease stays
// held. The guide deletes that.
func (s *scene) uninstall(t *testing.T, name string) {
	t.Helper()
	s.refusedNothing(t)
	env.Must(t, s.olm.Uninstall(t.Context(), name))
	_, err := s.Kubectl(t.Context(), "-n", s.namespace, "delete", "lease", "--ignore-not-found", env.OperatorName+"-lock")
	env.Must(t, err)
	s.since, err = s.Audit.Now()
	env.Must(t, err)
}

// own and bridge are the packages of the catalog.
func own() olm.Package    { return olm.Packages()[0] }
func bridge() olm.Package { return olm.Packages()[1] }

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	return root
}

// committed are the files of a package's bundle.
func committed(t *testing.T, p olm.Package) olm.Files {
	t.Helper()
	files, err := olm.ReadFiles(os.DirFS(root(t)), path.Join(olm.Bundles, p.Name))
	env.Must(t, err)
	return files
}

// read is a bundle as OLM reads it.
func read(t *testing.T, files olm.Files) fakeolm.CSV {
	t.Helper()
	csv, err := fakeolm.ReadBundle(files)
	env.Must(t, err)
	return csv
}

// released is what the repository releases, and its bundle of our own package.
func released(t *testing.T) (release.Release, fakeolm.CSV) {
	t.Helper()
	current, err := release.Load(os.DirFS(root(t)))
	env.Must(t, err)
	return current, read(t, committed(t, own()))
}

// preview is a preview of that, and its bundle.
func preview(t *testing.T) (release.Release, fakeolm.CSV) {
	t.Helper()
	repository := os.DirFS(root(t))
	current, err := release.Load(repository)
	env.Must(t, err)
	version, err := release.ParseVersion(current.Version.String() + "-preview.1")
	env.Must(t, err)
	older, err := release.LoadAt(repository, version)
	env.Must(t, err)
	// With the same driver, an upgrade would replace no pods.
	for i := range older.Images {
		if image := &older.Images[i]; image.Variable == "DRIVER_IMAGE" {
			image.Image = image.Repository() + ":v3.4.0"
		}
	}
	files, err := olm.Generate(repository, older, own())
	env.Must(t, err)
	return older, read(t, files)
}

// resolves checks what the catalog has as the upgrade of an installed version, for a Subscription to a package, in both channels.
func resolves(t *testing.T, installed fakeolm.CSV, p olm.Package, want fakeolm.CSV) {
	t.Helper()
	catalog, err := olm.ReadFiles(os.DirFS(root(t)), path.Join(olm.Catalog, p.Name))
	env.Must(t, err)
	for _, channel := range []string{olm.Preview, olm.Stable} {
		next, err := olm.Upgrade(catalog, p, channel, installed.Name, installed.Version)
		env.Must(t, err)
		if next != want.Name {
			t.Fatalf("for a Subscription to channel %s of %s, the upgrade of %s is %s, want %s", channel, p.Name, installed.Name, next, want.Name)
		}
	}
}
