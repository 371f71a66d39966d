package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// disturbed is how often a cluster with a real node loses a part; FAULT_ROUNDS says otherwise. soaked is how often at most, in make soak.
const (
	disturbed = 1
	soaked    = 20
	// seed chooses which part; FAULT_SEED chooses otherwise.
	seed = 39
)

// realNodes skips a test where real nodes can't run, and says why.
func realNodes(t *testing.T) {
	t.Helper()
	if got := devcluster(t, "real-nodes-check", "--dir", t.TempDir()); got.code != 0 {
		t.Skip(got.stderr)
	}
}

func TestPodsOfRealNodesRunAndReachEachOther(t *testing.T) {
	realNodes(t)
	r := up(t, filepath.Join(t.TempDir(), "a b,c"), "--topology", "External", "--nodes", "3", "--real-nodes", "2")
	ctx := context.Background()
	t.Run("fake nodes are there, too", func(t *testing.T) {
		nodes := &corev1.NodeList{}
		if err := r.client.List(ctx, nodes); err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes.Items {
			isReal := strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, "containerd://")
			if isReal != (node.Name != "worker-0") {
				t.Errorf("node %s has the container runtime %s", node.Name, node.Status.NodeInfo.ContainerRuntimeVersion)
			}
		}
	})
	server := pod("server", "worker-1", "mkdir /www && echo hello > /www/index.html && exec httpd -f -p 8080 -h /www")
	server.Labels = map[string]string{"app": "server"}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "server"},
		Spec:       corev1.ServiceSpec{Selector: server.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	visitor := pod("visitor", "worker-2", "exec sleep 1000")
	visitor.Annotations = map[string]string{"openshift.io/required-scc": "restricted-v2"}
	agent := pod("agent", "worker-2", "exec sleep 1000")
	agent.Spec.HostNetwork = true
	for _, object := range []client.Object{server, service, visitor, agent} {
		if err := r.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	r.runs(server)
	r.runs(visitor)
	r.runs(agent)
	t.Run("a pod on the node's network reaches the API server", func(*testing.T) {
		r.prints("reached", "exec", "agent", "--", "sh", "-c", "nc -w 5 172.30.0.1 443 </dev/null && echo reached")
	})
	t.Run("a pod reaches a Service of another node by its name", func(*testing.T) {
		r.prints("hello", "exec", "visitor", "--", "wget", "-qO-", "http://server.default.svc.cluster.local")
	})
	t.Run("a pod reaches the API server", func(*testing.T) {
		r.prints("reached", "exec", "visitor", "--", "sh", "-c", "nc -w 5 172.30.0.1 443 </dev/null && echo reached")
	})
	t.Run("a pod under restricted-v2 has a user, and others have that of their image", func(*testing.T) {
		r.prints("uid=1000680000 gid=0", "exec", "visitor", "--", "id")
		r.prints("uid=0", "exec", "server", "--", "id")
	})
	t.Run("logs can be read", func(t *testing.T) {
		visitor := pod("talker", "worker-2", "echo said; exec sleep 1000")
		if err := r.client.Create(ctx, visitor); err != nil {
			t.Fatal(err)
		}
		r.runs(visitor)
		r.prints("said", "logs", "talker")
	})
	t.Run("a node can be stopped and started again", func(t *testing.T) {
		name := cluster.Node + "worker-2"
		for _, word := range []string{"stop", "start"} {
			if got := devcluster(t, word, "--dir", r.dir, name); got.code != 0 {
				t.Fatalf("%s: exit code %d: %s", word, got.code, got.stderr)
			}
		}
		eventually(t, func() error {
			if err := r.client.Get(ctx, client.ObjectKeyFromObject(visitor), visitor); err != nil {
				return err
			}
			if statuses := visitor.Status.ContainerStatuses; len(statuses) != 1 || statuses[0].RestartCount == 0 || !statuses[0].Ready {
				return fmt.Errorf("the visitor's containers are %v, want one restarted and ready container", statuses)
			}
			return nil
		})
		r.prints("hello", "exec", "visitor", "--", "wget", "-qO-", "http://server")
	})
}

// Whichever process is killed, nothing is left after "down" but what was there before.
func TestNothingIsLeftOfRealNodes(t *testing.T) {
	realNodes(t)
	rounds, chosen := disturbed, uint64(seed)
	if given, err := strconv.Atoi(os.Getenv("FAULT_ROUNDS")); err == nil {
		rounds = min(given, soaked)
	}
	if given, err := strconv.ParseUint(os.Getenv("FAULT_SEED"), 10, 64); err == nil {
		chosen = given
	}
	random := rand.New(rand.NewPCG(chosen, chosen))
	for round := range rounds {
		dir := filepath.Join(t.TempDir(), "cluster")
		r := up(t, dir, "--topology", "SingleReplica", "--real-nodes", "1")
		p := pod("sleeper", "master-0", "exec sleep 1000")
		if err := r.client.Create(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		r.runs(p)
		state, _ := r.status()
		if remains(t, dir, state) == nil {
			t.Fatal("a cluster that runs has left nothing: the test does not see what there is")
		}
		victims := victims(t, state)
		victim := victims[random.IntN(len(victims))]
		if round == 0 {
			// No other part cleans up after it.
			victim = process(t, state, cluster.Supervisor)
		}
		t.Logf("round %d, seed %d: kill %s", round, chosen, victim.Name)
		if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := devcluster(t, "down", "--dir", dir); got.code != 0 {
			t.Fatalf("down: exit code %d: %s", got.code, got.stderr)
		}
		gone(t, dir, state.Processes)
		if err := remains(t, dir, state); err != nil {
			t.Error(err)
		}
	}
}

// victims are the supervisor, the network, a node, and what runs on it. TestTwoClustersLiveSideBySideUntilOneIsTakenDown kills others.
func victims(t *testing.T, state cluster.State) []supervise.Status {
	t.Helper()
	var all []supervise.Status
	for _, process := range state.Processes {
		if process.Name == cluster.Supervisor || process.Name == cluster.Network || strings.HasPrefix(process.Name, cluster.Node) {
			all = append(all, process)
		}
		if !strings.HasPrefix(process.Name, cluster.Node) {
			continue
		}
		for _, child := range children(t, process.PID) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			all = append(all, supervise.Status{PID: pid, Name: string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))})
		}
		for _, name := range []string{"containerd ", "devcluster kubelet "} {
			if !slices.ContainsFunc(all, func(one supervise.Status) bool { return strings.Contains(one.Name, name) }) {
				t.Errorf("the node runs no %s: %v", name, all)
			}
		}
	}
	return all
}

// children are the processes that any thread of a process has started.
func children(t *testing.T, pid int) []string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the kernel lists no children of process %d: %v", pid, err)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// remains says what a cluster with real nodes has left on this machine. Others may run beside it.
func remains(t *testing.T, dir string, state cluster.State) error {
	t.Helper()
	mounts, err := node.MountsBelow(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{
		"/sys/class/net/" + state.Network.Link, "/sys/fs/cgroup/" + state.Cgroup, "/sys/fs/cgroup/*/" + state.Cgroup, "/proc/[0-9]*/cgroup",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	left = slices.DeleteFunc(left, func(path string) bool {
		if !strings.HasPrefix(path, "/proc/") {
			return false
		}
		line, err := os.ReadFile(path)
		// A process that has ended, and waits for its new parent to take notice, has no arguments.
		arguments, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		return err != nil || len(arguments) == 0 || !bytes.Contains(line, []byte(state.Cgroup))
	})
	if left = append(left, mounts...); len(left) > 0 {
		return fmt.Errorf("left are %s", strings.Join(left, ", "))
	}
	return nil
}

func pod(name, node, script string) *corev1.Pod {
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: name, Image: "devcluster.local/busybox:1", Command: []string{"sh", "-c", script}}},
		},
	}
}

// runs waits until a pod is ready.
func (r *running) runs(p *corev1.Pod) {
	r.t.Helper()
	eventually(r.t, func() error {
		if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not ready: %+v", p.Name, p.Status)
	})
}

// prints waits until kubectl prints something.
func (r *running) prints(want string, args ...string) {
	r.t.Helper()
	eventually(r.t, func() error {
		got := devcluster(r.t, append([]string{"kubectl", "--dir", r.dir, "--"}, args...)...)
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			return fmt.Errorf("kubectl %s: exit code %d, %q, want %q; %s", strings.Join(args, " "), got.code, got.stdout, want, got.stderr)
		}
		return nil
	})
}
