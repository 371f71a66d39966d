// Command rehearsal publishes a release to registries of this machine, and installs it from them on a real node, as an administrator would.
//
// The first registry asks for a login, and has a certificate of its own CA. An older version is published there from its commit, and the version of
// the tree by "make publish". A node pulls the older one by digest, a pod writes to a volume, and an upgrade follows. A payload of OpenShift is put
// together with our images in it, and storage started from it, taken back to the older operators and updated again. Then a second registry is filled
// from the lists for mirrors, the first one is switched off, and the same version is installed again on a new node.
//
// Stand-ins are those of test/node: OLM and the cluster-version operator, which read the images of the registry here, and programs that no module
// proxy serves. No image of another project comes from its own registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

func main() {
	older := flag.String("older", "789cd1c", "`commit` of the version to upgrade from")
	architectures := flag.String("arch", runtime.GOARCH, "`list` of architectures, in Go's words")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *older, *architectures)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal:", err)
		os.Exit(1)
	}
}

// rehearsal is one run.
type rehearsal struct {
	started time.Time
	// root is the repository, and folder is where everything is written.
	root, folder  string
	older         string
	architectures string
	authority     *authority
	// first is where everything is published; mirror has copies.
	first, mirror *registry
	// off says that the first registry is switched off, so that images come from the mirror.
	off     bool
	release release.Release
	cluster *env.Cluster
	olm     *fakeolm.OLM
	// newPayload is the release with the operators of this tree.
	newPayload env.Release
	// pod writes to a volume.
	pod *corev1.Pod
}

func run(ctx context.Context, older, architectures string) (failure error) {
	missing, err := env.RealNodesMissing(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		return fmt.Errorf("no pod can be started on a real node: %s", missing)
	}
	r := &rehearsal{started: time.Now(), older: older, architectures: architectures}
	if r.root, err = env.Root(); err != nil {
		return err
	}
	if r.release, err = release.Load(os.DirFS(r.root)); err != nil {
		return err
	}
	if r.folder, err = os.MkdirTemp("", "rehearsal-"); err != nil {
		return err
	}
	defer func() {
		if failure != nil && r.cluster != nil {
			r.show()
		}
		failure = errors.Join(failure, r.stop(), os.RemoveAll(r.folder))
	}()
	for _, step := range []func(context.Context) error{
		r.openRegistry, r.publishOlder, r.publish, r.makePayload,
		r.startFirst, r.installOlder, r.upgrade, r.goBack, r.startPayload, r.payloadBack, r.stopCluster,
		r.fillMirror, r.switchOff, r.installFromMirror,
	} {
		if err := step(ctx); ctx.Err() != nil {
			return errors.New("interrupted")
		} else if err != nil {
			return err
		}
	}
	r.say("The release is rehearsed.")
	return nil
}

func (r *rehearsal) say(format string, values ...any) {
	fmt.Printf("%6.1f s   %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, values...))
}

// file is the path of a file of this run.
func (r *rehearsal) file(name string) string { return filepath.Join(r.folder, name) }

// published is where "make publish" has left what installs the release.
func (r *rehearsal) published(name string) string {
	return filepath.Join(r.root, "bin/publish/tree", name)
}

func (r *rehearsal) stopCluster(context.Context) error {
	if r.cluster == nil {
		return nil
	}
	cluster := r.cluster
	r.cluster = nil
	return cluster.Stop(context.Background())
}

func (r *rehearsal) stop() error {
	problems := []error{r.stopCluster(context.Background())}
	for _, one := range []*registry{r.first, r.mirror} {
		if one != nil {
			problems = append(problems, one.close())
		}
	}
	return errors.Join(problems...)
}

// show prints what the pods wait for.
func (r *rehearsal) show() {
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}, {"get", "clustercsidrivers", "-o", "yaml"},
	} {
		output, err := r.cluster.Kubectl(context.Background(), args...)
		fmt.Fprintln(os.Stderr, args, output, err)
	}
}
