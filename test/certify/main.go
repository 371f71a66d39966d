// Command certify runs Kubernetes' tests of storage drivers, "External Storage" of k8s.io/kubernetes, with a manifest of test/e2e/storage.
//
// The tests run on a real node of a devcluster. The operator and the sidecars are real, and the repository's own test driver takes the driver's place:
// docs/contribute/devcluster.md says how. With a kubeconfig they run against the driver of that cluster.
//
// It writes the tests' log, a JUnit report and a table into a folder. The table says what has passed, and what does not apply and why.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/csi-operators/csi-operators/test/env"
)

func main() {
	c := &certification{started: time.Now(), id: string(uuid.NewUUID())}
	flag.StringVar(&c.name, "driver", "", "folder of the driver in test/e2e/storage, or efs")
	flag.StringVar(&c.manifest, "manifest", "", "file that says what the driver can do, instead of manifest.yaml in that folder")
	flag.StringVar(&c.kubeconfig, "kubeconfig", "", "run against the driver of this cluster, as its administrator")
	flag.StringVar(&c.zone, "zone", "", "run pods in this zone only; with efs, volumes are on a One Zone file system")
	flag.StringVar(&c.focus, "focus", "", "regular expression: run only tests with such a name")
	flag.StringVar(&c.skip, "skip", "", "regular expression: leave out tests with such a name")
	flag.StringVar(&c.tests, "tests", "", "file with a name of a test in each line: run exactly these, and fail if one of them does not run")
	flag.StringVar(&c.folder, "output", "", "folder for the log and the reports; bin/certified/DRIVER without it")
	flag.DurationVar(&c.limit, "limit", 12*time.Hour, "end the tests after this time, in which the start of a devcluster counts, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends certify at once.
	context.AfterFunc(ctx, stop)
	err := c.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "certify:", err)
		os.Exit(1)
	}
}

// certification is one run of the tests.
type certification struct {
	started time.Time
	// id is that of this run, by which its namespaces are found.
	id                               string
	name, manifest, kubeconfig, zone string
	focus, skip, tests               string
	// limit is after how long the tests are ended. What they then delete takes longer.
	limit time.Duration
	// share are the tests to run, if a file names them.
	share share
	// files is the folder of what the manifest names, and folder is where certify writes.
	root, files, folder string
	subject             subject
	cluster             *env.Cluster
	snapshots           *env.Operator
}

func (c *certification) run(ctx context.Context) (failure error) {
	if err := c.prepare(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if c.kubeconfig == "" {
		defer func() { failure = errors.Join(failure, c.stop()) }()
		if err := c.start(ctx); err != nil {
			return errors.Join(err, c.early(ctx))
		}
	}
	cluster, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.check(ctx, cluster); err != nil {
		return err
	}
	// What was shown before an interruption counts, too.
	begun := time.Now()
	ran := c.runSuite(ctx)
	text, all, err := c.report()
	c.say("The tests took %s.\n\n%s", time.Since(begun).Round(time.Second), text)
	if early := c.early(ctx); early != nil {
		ran, err = early, nil
	}
	left := c.awaitCleanUp(context.WithoutCancel(ctx), cluster)
	c.say("The log and what the tests have reported are in %s.", c.folder)
	// The last line is what make prove reports.
	c.say("%s", all)
	return errors.Join(ran, err, left)
}

// early says why certify has ended the tests before all of them had run; nil if it has not.
func (c *certification) early(ctx context.Context) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the tests did not end within %s, the limit", c.limit)
	default:
		return errors.New("interrupted")
	}
}

// prepare checks the flags, and empties the folder for the results.
func (c *certification) prepare() error {
	var is bool
	if c.subject, is = subjects()[c.name]; !is {
		return fmt.Errorf("DRIVER is a folder of test/e2e/storage, or efs; not %q", c.name)
	}
	var err error
	if c.root, err = env.Root(); err != nil {
		return err
	}
	c.manifest = cmp.Or(c.manifest, filepath.Join(c.root, "test/e2e/storage", c.subject.manifests, "manifest.yaml"))
	c.folder = cmp.Or(c.folder, filepath.Join(c.root, "bin/certified", c.name))
	// The tests run in a folder of their own.
	for _, path := range []*string{&c.manifest, &c.folder, &c.kubeconfig} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if c.tests != "" {
		if c.focus != "" || c.skip != "" {
			return errors.New("LIST= names the tests: leave out FOCUS= and SKIP=")
		}
		if c.share, err = readShare(c.tests); err != nil {
			return err
		}
	}
	c.files = filepath.Dir(c.manifest)
	if err := emptyFolder(c.folder); err != nil {
		return err
	}
	if c.zone != "" {
		c.manifest, err = c.inZone()
	}
	return err
}

// mark is a file by which certify knows the folders that it may empty.
const mark = ".certify"

// emptyFolder makes a folder, or empties one of an earlier run. It refuses a folder with other files.
func emptyFolder(folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, mark)); err != nil && len(files) > 0 {
		return fmt.Errorf("folder %s has files, and none of them is %s of an earlier run: name another folder, or delete this one yourself", folder, mark)
	}
	// Something may be mounted at the folder itself, or watch it.
	for _, file := range files {
		if err := os.RemoveAll(filepath.Join(folder, file.Name())); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, mark), []byte("The next run of certify deletes all files of this folder.\n"), 0o600)
}

// say prints a line. Two drivers may be tested at the same time, so it names the driver.
func (c *certification) say(format string, values ...any) {
	fmt.Printf("%6.1f s   %s: %s\n", time.Since(c.started).Seconds(), c.name, fmt.Sprintf(format, values...))
}
