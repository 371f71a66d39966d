// Command prove shows on a cluster in AWS what this repository otherwise shows with stand-ins, and writes a report. It installs the EFS driver, makes
// file systems, uses volumes, and removes all of that again. With TESTS= it is also the job of a CI that runs its own tests on such a file system.
//
// It runs oc, and the plugin "oc storage". It creates the objects that "oc storage install efs" would apply, each with a label of the run, and file systems
// by "oc storage efs create". Namespace csi-operators-prove has what was installed, and the file systems have tags. So the next run cleans up after one
// that was killed.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

func main() {
	// The tests of Kubernetes take up to 13 minutes to delete what they have created.
	p := &proof{started: time.Now(), out: os.Stdout, id: rand.Text(), ending: 15 * time.Minute}
	p.command, p.list = p.execute, p.listShare
	// The common flags have some of libraries.
	flags := flag.NewFlagSet("prove", flag.ExitOnError)
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "`file` by which oc reaches the cluster, as its administrator")
	flags.StringVar(&p.account, "account", "", "`number` of the AWS account that the cluster is in")
	flags.StringVar(&p.chosen, "steps", "", "comma-separated `list` of the steps to take; default: "+strings.Join(names(p.steps()), ","))
	flags.BoolVar(&p.cleanOnly, "clean", false, "only clean up after an earlier run")
	flags.StringVar(&p.older, "older", "", "`image` of the catalog of an earlier release, from which step upgrade starts")
	flags.StringVar(&p.role, "role-arn", "", "on a cluster with STS, the `ARN` of the controller's role")
	flags.StringVar(&p.nodeRole, "node-role-arn", "", "on a cluster with STS, the `ARN` of the nodes' role")
	flags.StringVar(&p.zone, "zone", "", "`zone` of the One Zone file system; default: the first zone with a worker")
	flags.StringVar(&p.image, "image", "registry.k8s.io/e2e-test-images/busybox:1.37.0-1", "`image` with a shell, for the pods that use volumes")
	flags.StringVar(&p.tests, "tests", "", "`command` of a shell that step tests runs; KUBECONFIG, STORAGE_CLASS and MANIFEST are in its environment")
	flags.StringVar(&p.folder, "output", "bin/proved", "`folder` for the report and other files")
	flags.DurationVar(&p.patience, "timeout", 20*time.Minute, "how long a wait may take")
	flags.DurationVar(&p.poll, "poll", 2*time.Second, "time between two looks at the cluster")
	flags.DurationVar(&p.beat, "beat", 20*time.Second, "time between two signs of life of a run, for other runs on the same cluster")
	_ = flags.Parse(os.Args[1:])
	// A second signal ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

// proof is one run.
type proof struct {
	started time.Time
	out     io.Writer
	// command runs a program, and list reads the share of a name in AWS.
	command func(ctx context.Context, input, name string, args ...string) (string, error)
	list    func(ctx context.Context, name string) (efscleanup.Report, error)

	kubeconfig, account, chosen string
	cleanOnly                   bool
	older, role, nodeRole       string
	zone, image, tests, folder  string
	patience, poll, beat        time.Duration
	// ending is how long an interrupted command has to end.
	ending time.Duration
	// id is that of this run.
	id             string
	facts          facts
	share, oneZone share
	// owns says that this run has installed the driver, and noted is the record of that. A driver of others is used, and neither changed nor removed.
	owns    bool
	noted   *record
	results []result
}

func (p *proof) run(ctx context.Context) error {
	todo, err := p.choose()
	if err != nil {
		return err
	}
	if p.folder, err = filepath.Abs(p.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	if err := p.observe(ctx); err != nil {
		return err
	}
	if err := p.cleanUpEarlier(ctx); err != nil || p.cleanOnly {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		p.say("Interrupted. When the command that runs has ended, the clean-up begins. Another Ctrl-C ends this at once; the next run then cleans up.")
	})()
	failure := p.work(ctx, todo)
	file := filepath.Join(p.folder, "report.md")
	if err := os.WriteFile(file, []byte(p.report()), 0o600); err != nil {
		return errors.Join(failure, err)
	}
	p.say("The report is %s.", file)
	return failure
}

// work takes the steps, and deletes what they have made, however they have ended.
func (p *proof) work(ctx context.Context, todo []string) error {
	if err := p.begin(ctx); err != nil {
		// The Namespace may have been made nevertheless.
		return errors.Join(err, p.cleanUp(context.WithoutCancel(ctx), func() {}))
	}
	// A Ctrl-C ends the steps. Only a loss of the Namespace ends the clean-up, too.
	owning, end := p.beats(context.WithoutCancel(ctx))
	defer end()
	working, interrupt := context.WithCancel(owning)
	defer interrupt()
	defer context.AfterFunc(ctx, interrupt)()
	failure := p.take(working, todo)
	if err := context.Cause(owning); err != nil {
		return errors.Join(failure, err)
	}
	if ctx.Err() != nil {
		failure = errors.New("interrupted")
		p.say("Cleaning up.")
	}
	return errors.Join(failure, p.cleanUp(owning, end), context.Cause(owning))
}

func (p *proof) say(format string, values ...any) {
	_, _ = fmt.Fprintf(p.out, "%6.1f s   %s\n", time.Since(p.started).Seconds(), fmt.Sprintf(format, values...))
}

func (p *proof) file(name string) string { return filepath.Join(p.folder, name) }
