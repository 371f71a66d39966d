// Package test runs the devcluster binary and looks at what comes of it.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

const (
	// deadline is for what takes a moment, on a machine whose processors have something else to do.
	deadline = 2 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	if path := os.Getenv(journal); path != "" {
		os.Exit(runAsProgram(path))
	}
	if _, err := os.Stat(binary()); err != nil {
		fmt.Fprintf(os.Stderr, "the devcluster binary is missing (%v): run `make bin/devcluster` first, or set DEVCLUSTER to its path\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func binary() string {
	if path := os.Getenv("DEVCLUSTER"); path != "" {
		return path
	}
	return filepath.Join("..", "..", "bin", "devcluster")
}

// result is what a finished command leaves.
type result struct {
	stdout, stderr string
	code           int
}

// devcluster runs the binary and waits for its end.
func devcluster(t *testing.T, args ...string) result {
	t.Helper()
	// A start that hangs ends by itself, and says where.
	ctx, cancel := context.WithTimeout(context.Background(), cluster.StartLimit+time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, binary(), args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run devcluster %s: %v", strings.Join(args, " "), err)
	}
	return result{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// running is a cluster that a test has started.
type running struct {
	t      *testing.T
	dir    string
	client client.Client
	config *rest.Config
}

// up starts a cluster in dir and takes it down when the test ends, or when the test's process does.
func up(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	args = append([]string{"up", "--dir", dir, "--owner-pid", strconv.Itoa(os.Getpid())}, args...)
	t.Cleanup(func() { devcluster(t, "down", "--dir", dir) })
	got := devcluster(t, args...)
	if got.code != 0 {
		t.Fatalf("devcluster %s: exit code %d\n%s", strings.Join(args, " "), got.code, got.stderr)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(absolute, "admin.kubeconfig")
	if want := "export KUBECONFIG=" + cluster.Quote(kubeconfig) + "\n"; got.stdout != want {
		t.Errorf("devcluster up printed %q, want %q", got.stdout, want)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	scheme, err := openshift.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &running{t: t, dir: absolute, client: c, config: config}
}

// status returns what `devcluster status -o json` says, and its exit code.
func (r *running) status() (cluster.State, int) {
	r.t.Helper()
	got := devcluster(r.t, "status", "--dir", r.dir, "-o", "json")
	var state cluster.State
	if err := json.Unmarshal([]byte(got.stdout), &state); err != nil {
		r.t.Fatalf("devcluster status printed %q: %v", got.stdout, err)
	}
	return state, got.code
}

func process(t *testing.T, state cluster.State, name string) supervise.Status {
	t.Helper()
	for _, p := range state.Processes {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no process %s among %v", name, state.Processes)
	return supervise.Status{}
}

// eventually waits until the check has nothing to complain about.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	limit := time.After(deadline)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-limit:
			t.Fatalf("after %s: %v", deadline, err)
		case <-ticker.C:
		}
	}
}

// gone fails the test if one of the processes lives or the directory exists.
func gone(t *testing.T, dir string, processes []supervise.Status) {
	t.Helper()
	for _, p := range processes {
		if supervise.Is(p.PID, p.Name) {
			t.Errorf("%s still runs, as process %d", p.Name, p.PID)
		}
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s still exists (%v)", dir, err)
	}
}
