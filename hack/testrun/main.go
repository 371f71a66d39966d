// Command testrun is the program of make test. It runs the lanes, retries each failed test once when nothing else runs, and prints the cost of
// every package and component.
//
//	testrun [-root DIR] LANES...
//
// Each lane is a target of the Makefile that writes the events of "go test -json" into bin/tests/LANE.json. The exit code of testrun is 0 if
// every test has passed, and at most two needed a second try.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "the folder of the Makefile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	r := run{root: *root, out: os.Stdout}
	if err := r.all(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is one run of the tests.
type run struct {
	root  string
	out   io.Writer
	meter *meter
}

// results is the folder, below the root, into which the lanes write.
const results = "bin/tests"

// all compiles the tests, runs the lanes in parallel, and prints the report. If the run has failed, the error says why.
func (r run) all(ctx context.Context, lanes []string) error {
	folder := filepath.Join(r.root, results)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o750)); err != nil {
		return fmt.Errorf("make %s empty: %w", folder, err)
	}
	begin := time.Now()
	r.meter = newMeter()
	defer r.meter.stop()
	if err := r.make(ctx, "--jobs", "2", "test/compile"); err != nil {
		return err
	}
	compiled := time.Since(begin)
	broken := r.lanes(ctx, lanes)
	used := r.meter.sum()
	found, err := read(folder, lanes)
	if err != nil {
		return err
	}
	found.report(r.out, used)
	_, _ = fmt.Fprintf(r.out, "in %s, of which %s to build and to compile\n", time.Since(begin).Round(time.Second), compiled.Round(time.Second))
	if ctx.Err() != nil {
		return fmt.Errorf("the tests were interrupted: %w", ctx.Err())
	}
	return r.judge(ctx, found, broken)
}

// lanes runs the lanes, at most sideBySide at the same time. It returns the lanes that failed.
func (r run) lanes(ctx context.Context, lanes []string) []string {
	failed := make([]string, len(lanes))
	slots := make(chan struct{}, sideBySide)
	var group sync.WaitGroup
	for i, lane := range lanes {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if r.make(ctx, "test/"+lane) != nil {
				failed[i] = lane
			}
		})
	}
	group.Wait()
	return slices.DeleteFunc(failed, func(lane string) bool { return lane == "" })
}

// judge retries failed tests one by one, and decides whether the run has failed.
func (r run) judge(ctx context.Context, found outcome, broken []string) error {
	again, final := found.failures()
	for _, lane := range broken {
		if !slices.ContainsFunc(slices.Concat(again, final), func(one failure) bool { return one.lane == lane }) {
			return fmt.Errorf("lane %s has failed, although none of its tests has: its output says why", lane)
		}
	}
	var flaky []failure
	if len(final) == 0 && len(again) <= mostAgain {
		for _, one := range again {
			if r.passes(ctx, one) {
				flaky = append(flaky, one)
			} else {
				final = append(final, one)
			}
		}
	} else {
		final = append(final, again...)
	}
	if err := r.record(flaky); err != nil {
		return err
	}
	switch {
	case len(final) > 0:
		return fmt.Errorf("%d failed:\n%s", len(final), names(final))
	case len(flaky) > mostFlaky:
		return fmt.Errorf("%d tests failed at first, but passed when they ran alone: at most %d tests may do so", len(flaky), mostFlaky)
	}
	return nil
}

const (
	// sideBySide is the number of lanes that run in parallel. With more lanes, a lane that needs both processors would wait for all other lanes.
	sideBySide = 3
	// mostFlaky is the largest number of tests that may need a second try in a run that passes.
	mostFlaky = 2
	// mostAgain is the largest number of failed tests that judge retries. If more tests fail, they have a common cause.
	mostAgain = 6
)

// record prints each flaky test with the output of its failure. It also writes the names of the flaky tests into a file, for the end of the log.
func (r run) record(flaky []failure) error {
	text := ""
	for _, one := range flaky {
		_, _ = fmt.Fprintf(r.out, "\n%s %s has said:\n%s", one.Package, one.Test, one.output)
		text += fmt.Sprintf("FLAKY %s %s\n", one.Package, cmp.Or(one.Test, "(the package)"))
	}
	_, _ = fmt.Fprint(r.out, text)
	if err := os.WriteFile(filepath.Join(r.root, results, "flaky.txt"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep the flaky tests: %w", err)
	}
	return nil
}

// passes runs one test again, and reports whether it passes. The test runs alone, in the same way as its lane runs it.
func (r run) passes(ctx context.Context, one failure) bool {
	_, _ = fmt.Fprintf(r.out, "\nOnce more, alone: %s %s\n", one.Package, one.Test)
	pattern := ""
	if one.Test != "" {
		pattern = "^" + one.Test + "$$"
	}
	return r.make(ctx, "test/"+one.lane, "PKG="+one.Package, "RUN="+pattern, "JSON=again") == nil
}

// make runs the program make with these arguments. If ctx ends, make and its children end, too.
func (r run) make(ctx context.Context, args ...string) error {
	//nolint:gosec // The arguments are this program's own.
	command := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "-C", r.root}, args...)...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err := r.meter.start(command)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		return fmt.Errorf("make: %w", err)
	}
	return nil
}
