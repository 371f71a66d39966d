package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// Two clusters at once: the second one in a directory whose path is long, has a space and a comma, and of another
// topology. It then loses a component, and is taken down. The first cluster goes with its owner.
func TestTwoClustersLiveSideBySideUntilOneIsTakenDown(t *testing.T) {
	// The owner ends when its input does, and the input is never closed.
	owner := exec.Command("cat")
	input, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = input.Close() }()
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	first := up(t, filepath.Join(t.TempDir(), "first"), "--owner-pid", strconv.Itoa(owner.Process.Pid), "--topology", "External", "--nodes", "2")
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30), "a b,c")
	second := up(t, long, "--topology", "SingleReplica", "--credentials-mode", "STS", "--region", "eu-west-1")

	t.Run("each has its own nodes and configuration", func(t *testing.T) {
		assertTopology(t, first, 0, 2, configv1.ExternalTopologyMode)
		assertTopology(t, second, 1, 1, configv1.SingleReplicaTopologyMode)
		authentication := &configv1.Authentication{}
		if err := second.client.Get(context.Background(), client.ObjectKey{Name: "cluster"}, authentication); err != nil {
			t.Fatal(err)
		}
		if authentication.Spec.ServiceAccountIssuer == "" {
			t.Error("STS: Authentication has no issuer")
		}
	})
	t.Run("up refuses a directory in use", func(t *testing.T) {
		got := devcluster(t, "up", "--dir", second.dir)
		if got.code == 0 || !strings.Contains(got.stderr, "runs in "+second.dir+" already") {
			t.Errorf("exit code %d, %s", got.code, got.stderr)
		}
	})
	t.Run("a component can be stopped and started again", func(t *testing.T) { stopAndStart(t, second) })
	t.Run("it can be set back to a snapshot", func(t *testing.T) { setBack(t, second) })
	t.Run("status names a killed component and its log", func(t *testing.T) { killScheduler(t, second) })
	t.Run("down leaves nothing, and the other cluster alone", func(t *testing.T) {
		state, _ := second.status()
		if got := devcluster(t, "down", "--dir", second.dir); got.code != 0 {
			t.Fatalf("exit code %d: %s", got.code, got.stderr)
		}
		gone(t, second.dir, state.Processes)
		if got := devcluster(t, "down", "--dir", second.dir); got.code != 0 {
			t.Errorf("down again: exit code %d: %s", got.code, got.stderr)
		}
		if state, code := first.status(); code != 0 || len(state.Processes) != 7 {
			t.Errorf("the other cluster: exit code %d, %v", code, state.Processes)
		}
	})
	t.Run("a cluster goes with its owner", func(t *testing.T) { endOwner(t, first, owner) })
}

func endOwner(t *testing.T, r *running, owner *exec.Cmd) {
	state, _ := r.status()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	eventually(t, func() error {
		if _, err := os.Lstat(r.dir); !os.IsNotExist(err) {
			return fmt.Errorf("%s still exists (%w)", r.dir, err)
		}
		return nil
	})
	gone(t, r.dir, state.Processes[:len(state.Processes)-1])
}

func assertTopology(t *testing.T, r *running, masters, workers int, topology configv1.TopologyMode) {
	t.Helper()
	ctx := context.Background()
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	var gotMasters, gotWorkers, tainted int
	for _, node := range nodes.Items {
		if _, ok := node.Labels["node-role.kubernetes.io/master"]; ok {
			gotMasters++
		}
		if _, ok := node.Labels["node-role.kubernetes.io/worker"]; ok {
			gotWorkers++
		}
		tainted += len(node.Spec.Taints)
	}
	wantTainted := masters
	if topology == configv1.SingleReplicaTopologyMode {
		wantTainted = 0
	}
	if gotMasters != masters || gotWorkers != workers || tainted != wantTainted {
		t.Errorf("%s: got %d masters, %d workers, %d taints, want %d, %d, %d",
			topology, gotMasters, gotWorkers, tainted, masters, workers, wantTainted)
	}
	infrastructure := &configv1.Infrastructure{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
		t.Fatal(err)
	}
	if got := infrastructure.Status.ControlPlaneTopology; got != topology {
		t.Errorf("Infrastructure says %s, want %s", got, topology)
	}
}

func stopAndStart(t *testing.T, r *running) {
	if got := devcluster(t, "stop", "--dir", r.dir, cluster.APIServer); got.code != 0 {
		t.Fatalf("stop: exit code %d: %s", got.code, got.stderr)
	}
	state, code := r.status()
	if got := process(t, state, cluster.APIServer).State; got != supervise.Stopped || code != 1 {
		t.Errorf("after stop: state %s and exit code %d, want %s and 1", got, code, supervise.Stopped)
	}
	if got := devcluster(t, "start", "--dir", r.dir, cluster.APIServer); got.code != 0 {
		t.Fatalf("start: exit code %d: %s", got.code, got.stderr)
	}
	if err := r.client.List(context.Background(), &corev1.NodeList{}); err != nil {
		t.Errorf("after start: %v", err)
	}
	if got := devcluster(t, "stop", "--dir", r.dir, "nothing"); got.code == 0 || !strings.Contains(got.stderr, cluster.APIServer) {
		t.Errorf("stop of an unknown component: exit code %d, %s", got.code, got.stderr)
	}
}

func setBack(t *testing.T, r *running) {
	ctx := context.Background()
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	kept := configMap("kept")
	if err := r.client.Create(ctx, kept); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if got := devcluster(t, "snapshot", "save", "--dir", r.dir, file); got.code != 0 {
		t.Fatalf("save: exit code %d: %s", got.code, got.stderr)
	}
	if got := devcluster(t, "snapshot", "save", "--dir", r.dir, file); got.code != 1 || !strings.Contains(got.stderr, "choose another file") {
		t.Errorf("save to a file that is there: exit code %d, %s", got.code, got.stderr)
	}
	late := configMap("late")
	if err := errors.Join(r.client.Create(ctx, late), r.client.Delete(ctx, configMap("kept"))); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := devcluster(t, "snapshot", "restore", "--dir", r.dir, none); got.code != 1 || !strings.Contains(got.stderr, none) {
		t.Errorf("restore of a file that is no snapshot: exit code %d, %s", got.code, got.stderr)
	}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(late), late); err != nil {
		t.Errorf("after that: %v", err)
	}
	if got := devcluster(t, "snapshot", "restore", "--dir", r.dir, file); got.code != 0 {
		t.Fatalf("restore: exit code %d: %s", got.code, got.stderr)
	}
	again := configMap("kept")
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(again), again); err != nil || again.ResourceVersion != kept.ResourceVersion {
		t.Errorf("after the restore: resource version %q, %q before, %v", again.ResourceVersion, kept.ResourceVersion, err)
	}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(late), late); !apierrors.IsNotFound(err) {
		t.Errorf("what came after the snapshot: %v", err)
	}
}

func killScheduler(t *testing.T, r *running) {
	state, code := r.status()
	if code != 0 {
		t.Fatalf("before: exit code %d, %v", code, state.Processes)
	}
	scheduler := process(t, state, cluster.Scheduler)
	if err := syscall.Kill(scheduler.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("kube-scheduler has died (signal: killed): its log is %s", scheduler.Log)
	eventually(t, func() error {
		if got := devcluster(t, "status", "--dir", r.dir); got.code != 1 || !strings.Contains(got.stderr, want) {
			return fmt.Errorf("exit code %d, want 1; it printed %q, want %q in it", got.code, got.stderr, want)
		}
		return nil
	})
	if _, err := os.Stat(scheduler.Log); err != nil {
		t.Error(err)
	}
}

func TestUpNamesAPortThatIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	dir := filepath.Join(t.TempDir(), "cluster")
	got := devcluster(t, "up", "--dir", dir, "--port", port)
	if got.code == 0 || !strings.Contains(got.stderr, "port "+port) || !strings.Contains(got.stderr, "--port") {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
	gone(t, dir, nil)
}

func TestUpNamesAComponentThatDiesAndKeepsItsLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() { devcluster(t, "down", "--dir", dir) })
	done := make(chan result)
	go func() { done <- devcluster(t, "up", "--dir", dir, "--owner-pid", strconv.Itoa(os.Getpid())) }()
	var state *cluster.State
	eventually(t, func() error {
		var err error
		if state, err = cluster.Status(dir); err != nil {
			return err
		}
		for _, p := range state.Processes {
			if p.Name == cluster.APIServer {
				return syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		return fmt.Errorf("kube-apiserver has not been started")
	})
	got := <-done
	log := process(t, *state, cluster.APIServer).Log
	for _, want := range []string{"kube-apiserver ended", "signal: killed", log, "devcluster down --dir " + dir} {
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("exit code %d, %q is not in: %s", got.code, want, got.stderr)
		}
	}
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
	if got := devcluster(t, "down", "--dir", dir); got.code != 0 {
		t.Fatalf("down: exit code %d: %s", got.code, got.stderr)
	}
	gone(t, dir, state.Processes)
}

// Ctrl-C during the start takes everything down again, with the directory.
func TestAnInterruptedUpLeavesNothing(t *testing.T) {
	single := []string{"--topology", "SingleReplica", "--real-nodes", "1"}
	for name, one := range map[string]struct {
		flags []string
		// at is a process that runs when Ctrl-C comes.
		at         string
		real, soak bool
	}{
		"fake nodes":                {flags: []string{"--nodes", "4"}, at: cluster.APIServer},
		"the network of real nodes": {flags: single, at: cluster.Network, real: true, soak: true},
		"a real node":               {flags: single, at: cluster.Node + "master-0", real: true, soak: true},
	} {
		t.Run(name, func(t *testing.T) {
			if one.soak && os.Getenv("FAULT_ROUNDS") == "" {
				t.Skip("make soak runs this: set FAULT_ROUNDS")
			}
			if one.real {
				realNodes(t)
			}
			dir := filepath.Join(t.TempDir(), "cluster")
			t.Cleanup(func() { devcluster(t, "down", "--dir", dir) })
			var printed bytes.Buffer
			command := exec.Command(binary(), append([]string{"up", "--dir", dir, "--owner-pid", strconv.Itoa(os.Getpid())}, one.flags...)...)
			command.Stderr = &printed
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			var state *cluster.State
			eventually(t, func() error {
				var err error
				if state, err = cluster.Status(dir); err != nil {
					return err
				}
				if !slices.ContainsFunc(state.Processes, func(p supervise.Status) bool { return p.Name == one.at }) {
					return fmt.Errorf("%s has not been started", one.at)
				}
				return command.Process.Signal(os.Interrupt)
			})
			if err := command.Wait(); err == nil || !strings.Contains(printed.String(), "interrupted: the cluster was taken down") {
				t.Errorf("after Ctrl-C it ends with %v and prints: %s", err, printed.String())
			}
			gone(t, dir, state.Processes)
			if one.real {
				if err := remains(t, dir, *state); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestDownLeavesDirectoriesOfOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := devcluster(t, "down", "--dir", dir); got.code == 0 || !strings.Contains(got.stderr, "is not the directory of a devcluster") {
		t.Errorf("down: exit code %d, %s", got.code, got.stderr)
	}
	if got := devcluster(t, "up", "--dir", dir); got.code == 0 || !strings.Contains(got.stderr, "holds other files") {
		t.Errorf("up: exit code %d, %s", got.code, got.stderr)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
