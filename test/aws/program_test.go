package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// program is the command line of "bin/oc-storage efs" with the flags that all tests need.
func (c *cloud) program(command string, args ...string) *exec.Cmd {
	c.T.Helper()
	root, err := env.Root()
	env.Must(c.T, err)
	binary := filepath.Join(root, "bin", "oc-storage")
	if _, err := os.Stat(binary); err != nil {
		c.T.Fatal("bin/oc-storage is missing: run 'make build'")
	}
	fast := []string{"efs", command, "--infra-id", infra, "--account", account, "--region", region, "--poll", "1ms", "--max-backoff", "1ms"}
	return exec.CommandContext(c.T.Context(), binary, append(append(fast, "--requests-per-minute", "1000000"), args...)...)
}

// run runs a program and returns its exit code and what it prints.
func run(t *testing.T, command *exec.Cmd) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestTheExitCodeTellsWhatIsLeft(t *testing.T) {
	c := newCloud(t)
	c.Slow = 1
	mine := c.little()
	c.Set(nil)
	code, out, _ := run(t, c.program("cleanup"))
	if code != 4 {
		t.Errorf("a dry run that finds something ends with %d, want 4", code)
	}
	wantIn(t, out, "KIND", mine.points[0], mine.regional+" us-east-1a", mine.regional, "planned", "6 objects of cluster "+infra, "to delete, add --yes")
	for _, call := range c.Calls() {
		if call.Writes() {
			t.Errorf("a dry run calls %s", call.Action)
		}
	}
	var report efscleanup.Report
	code, out, _ = run(t, c.program("cleanup", "-o", "json"))
	env.Must(t, json.Unmarshal([]byte(out), &report))
	plugintest.FollowsSchema(t, "efs cleanup", out)
	if code != 4 || len(report.Objects) != 6 || !report.DryRun || report.Objects[0].Kind != efscleanup.AccessPoint {
		t.Errorf("%d, %+v", code, report)
	}

	others := c.AccessPoint(mine.regional, of(other))
	code, out, _ = run(t, c.program("cleanup", "--yes", "--wait"))
	if code != 3 {
		t.Errorf("with something that may not go, it ends with %d, want 3", code)
	}
	wantIn(t, out, mine.regional, "refused", others, "remain, because this command must not delete them")

	c.Retag(others, "kubernetes.io/cluster/"+other, "")
	c.Retag(others, "kubernetes.io/cluster/"+infra, "owned")
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Action != "elasticfilesystem:DeleteAccessPoint" {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer { return denied(call.Action) }
	})
	if code, out, _ = run(t, c.program("cleanup", "--yes")); code != 1 {
		t.Errorf("without a right it ends with %d, want 1", code)
	}
	wantIn(t, out, "the credentials lack permission elasticfilesystem:DeleteAccessPoint", "could not be deleted")

	c.Set(nil)
	if code, out, _ = run(t, c.program("cleanup", "--yes")); code != 4 {
		t.Errorf("while AWS is deleting, it ends with %d, want 4", code)
	}
	wantIn(t, out, "waiting", mine.regional+", which uses this security group, still exists", "run the command again")
	code, out, problems := run(t, c.program("cleanup", "--yes", "--wait"))
	if code != 0 {
		t.Errorf("in the end it ends with %d, want 0: %s", code, problems)
	}
	wantIn(t, out, "Nothing of cluster "+infra)
	// Elsewhere than on a terminal, each change is a line.
	wantIn(t, problems, "file system "+mine.regional+": deleted\n")
	if strings.Contains(problems, "\033") {
		t.Errorf("escape sequences in a log: %q", problems)
	}
	c.WantLeft()
}

func TestWrongUsageTouchesNothing(t *testing.T) {
	c := newCloud(t)
	c.Set(nil)
	for says, args := range map[string][]string{
		"the commands are cleanup, c":                 {"clean"},
		"unexpected argument \"now\"":                 {"cleanup", "now"},
		"unknown flag: --force":                       {"cleanup", "--force"},
		"must be table, wide, json or yaml":           {"cleanup", "-o", "xml"},
		"without --yes, nothing is deleted":           {"cleanup", "--wait"},
		"must be at least 1":                          {"cleanup", "--requests-per-minute", "0"},
		"must be more than 0":                         {"cleanup", "--timeout", "-1s"},
		"infrastructure ID \"dev\" is too short":      {"cleanup", "--infra-id", "dev"},
		"zone \"us-west-2a\"":                         {"create", "--zone", "us-west-2a"},
		"--wait is for --delete":                      {"create", "--wait"},
		"--delete finds the share by its name":        {"create", "--delete", "--manifest", "f"},
		"--storage-class and --manifest name the ":    {"create", "--manifest", "f", "--storage-class", "f"},
		"must have at most 30 lower-case letters":     {"create", "--delete", "--name", ""},
		"must look like subnet-0123456789abcdef0":     {"create", "--subnets", "subnet-1,"},
		"AWS account \"1\": an account has 12 digits": {"cleanup", "--account", "1"},
		"AWS region \"us east\": a region looks li":   {"create", "--region", "us east"},
	} {
		code, out, problems := run(t, c.program(args[0], args[1:]...))
		if code != 2 || out != "" {
			t.Errorf("efs %s ends with %d and prints %q", strings.Join(args, " "), code, out)
		}
		wantIn(t, problems, says)
	}
	if calls := c.Calls(); len(calls) > 0 {
		t.Errorf("AWS was called: %v", calls)
	}
	for _, args := range [][]string{{"cleanup", "-h"}, {"create", "--help"}} {
		if code, out, problems := run(t, c.program(args[0], args[1:]...)); code != 0 || !strings.Contains(out, "infra-id") {
			t.Errorf("help ends with %d: %s", code, problems)
		}
	}
}

func TestCreateWritesWhatTestsNeedAndDeletesItself(t *testing.T) {
	c := newCloud(t)
	c.VPC(of(infra))
	folder := t.TempDir()
	class, manifest := filepath.Join(folder, "class.yaml"), filepath.Join(folder, "manifest.yaml")
	args := []string{"--zone", region + "c", "--storage-class", class, "--manifest", manifest}
	code, out, problems := run(t, c.program("create", append(args, "-o", "json")...))
	if code != 0 {
		t.Fatalf("create ends with %d: %s", code, problems)
	}
	var share create.Share
	env.Must(t, json.Unmarshal([]byte(out), &share))
	plugintest.FollowsSchema(t, "efs create", out)
	for file, want := range map[string]string{class: share.StorageClass(), manifest: share.DriverManifest()} {
		got, err := os.ReadFile(file)
		env.Must(t, err)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	if code, out, _ = run(t, c.program("create", args...)); code != 0 {
		t.Errorf("a second time it ends with %d", code)
	}
	wantIn(t, out, "File system "+share.FileSystem+", in zone us-east-1c, is ready")
	c.WantLeft(all(share)...)
	if code, _, problems = run(t, c.program("create", "--delete", "--wait")); code != 0 {
		t.Errorf("deleting ends with %d: %s", code, problems)
	}
	c.WantLeft()
}

// A process that is killed gets no chance to tidy up.
func TestAKilledCleanupCanBeRunAgain(t *testing.T) {
	c := newCloud(t)
	c.Slow = 1
	for _, number := range []int{7, 13, 22, 29} {
		c.Reset(t)
		c.little()
		left := c.theirs()
		command, started := c.program("cleanup", "--yes", "--wait"), make(chan *os.Process, 1)
		c.Set(func(call fakeaws.Call) fakeaws.Fault {
			if call.Number != number {
				return nil
			}
			return func(send func() *fakeaws.Answer) *fakeaws.Answer {
				send()
				_ = (<-started).Kill()
				return nil
			}
		})
		env.Must(t, command.Start())
		started <- command.Process
		if err := command.Wait(); command.ProcessState.ExitCode() != -1 {
			t.Errorf("killed at request %d, it ends with %v", number, err)
		}
		c.Set(nil)
		if code, _, problems := run(t, c.program("cleanup", "--yes", "--wait")); code != 0 {
			t.Errorf("run again after request %s, it ends with %d: %s", strconv.Itoa(number), code, problems)
		}
		c.WantLeft(left...)
	}
}
