package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// ours are the tests of the suite. The program has others, which the framework brings along.
	ours = `External Storage`
	// leftOut are tests that end kubelets, and those of what no driver here has.
	leftOut = `\[Disruptive\]|\[Feature:(Windows|SELinux|snapshotmetadata|volumegroupsnapshot)\]`
	// ofOthers is a test whose pods are programs of other projects, which a devcluster lacks. With block volumes, the test starts no pods.
	ofOthers = `\(default fs\)\] provisioning should provision storage with any volume data source`
	// progress begins the lines that certify prints.
	progress = "progress: "
)

// runSuite runs the tests. What they print goes into a file, except a line for each test.
func (c *certification) runSuite(ctx context.Context) error {
	binary, err := env.Binary("suite")
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.folder, "log.txt"))
	if err != nil {
		return err
	}
	defer log.Close()
	skip := leftOut
	if c.cluster != nil {
		skip += "|" + ofOthers
	}
	if c.skip != "" {
		skip += "|" + c.skip
	}
	focus := ours + ".*(?:" + c.focus + ")"
	if c.tests != "" {
		focus = c.share.focus()
	}
	args := []string{
		"-kubeconfig", c.kubeconfig, "-storage.testdriver", c.manifest, "-repo-root", c.files, "-report-dir", c.folder, "-run-id", c.id,
		"-ginkgo.focus", focus, "-ginkgo.skip", skip, "-ginkgo.json-report", c.file(reportFile), "-ginkgo.timeout", c.limit.String(),
		"-ginkgo.no-color", "-ginkgo.v",
	}
	return c.attend(ctx, log, binary, args...)
}

// attend runs the program of the tests to its end. If the log can't be written, it ends the tests, which then delete what they have created.
func (c *certification) attend(ctx context.Context, log io.Writer, binary string, args ...string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir, command.Stderr = c.folder, log
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(syscall.SIGINT) }, 10*time.Minute
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	// Ctrl-C in a terminal reaches all processes of its group. At a second signal, the tests would not clean up.
	env.OwnGroup(command)
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the tests: %w", err)
	}
	if err := c.follow(output, log); err != nil {
		stop()
		// The tests would wait for a reader of what they print.
		go func() { _, _ = io.Copy(io.Discard, output) }()
		return errors.Join(fmt.Errorf("the tests were ended, because what they print can't be kept: %w", err), command.Wait())
	}
	var failed *exec.ExitError
	if err := command.Wait(); errors.As(err, &failed) {
		return errors.New("a test has failed")
	} else if err != nil {
		return fmt.Errorf("run the tests: %w", err)
	}
	return nil
}

// follow writes what the tests print, and says how far they are.
func (c *certification) follow(from io.Reader, to io.Writer) error {
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadString('\n')
		if text, is := strings.CutPrefix(line, progress); is {
			c.say("%s", strings.TrimSuffix(text, "\n"))
		}
		if _, err := io.WriteString(to, line); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *certification) file(name string) string { return filepath.Join(c.folder, name) }

// inZone writes a copy of the manifest after which all pods run in the zone, and returns its path. It is beside what the manifest names.
func (c *certification) inZone() (string, error) {
	text, err := os.ReadFile(c.manifest)
	if err != nil {
		return "", err
	}
	path := c.file("manifest.yaml")
	return path, os.WriteFile(path, fmt.Appendf(text, "NodeSelectors:\n  %s: %q\n", corev1.LabelTopologyZone, c.zone), 0o600)
}
