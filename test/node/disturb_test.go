package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	absentImage     = "registry.example/absent:v1"
	nodeService     = "AWSEFSDriverNodeServiceController"
	rolloutPolicy   = "operator.openshift.io/node-rollout-policy"
	watchdog, proxy = "amazon-efs-mount-watchdog", "proxy"
)

// proxyKilled ends the process that every write goes through, and keeps the watchdog from starting another. The writer stalls until the watchdog
// goes on.
func (w *writing) proxyKilled(t *testing.T) {
	guard, tunnel := w.process(t, watchdog), w.process(t, proxy)
	env.Must(t, syscall.Kill(guard, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(guard, syscall.SIGCONT) }()
	killed := uptime()
	err := syscall.Kill(tunnel, syscall.SIGKILL)
	w.happens(t, "waits", killed)
	seen := uptime()
	_, kubectl := suite.cluster.Kubectl(t.Context(), "get", "nodes")
	goesOn := uptime()
	env.Must(t, errors.Join(err, kubectl, syscall.Kill(guard, syscall.SIGCONT)))
	w.happens(t, "goes on", goesOn)
	if count := w.within(t, env.Span{From: seen, To: goesOn}); count > 0 {
		t.Errorf("%d lines while no process takes them", count)
	}
}

// process is one of the driver's container in the node pod, by its first argument or its name.
func (w *writing) process(t *testing.T, name string) int {
	t.Helper()
	found := 0
	eventually(t, "process "+name, func() error {
		pod, err := nodePod(t.Context())
		if err != nil {
			return err
		}
		all, err := processes()
		if err != nil {
			return err
		}
		_, id, _ := strings.Cut(statusOf(pod, "csi-driver").ContainerID, "://")
		for _, one := range all[id] {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", one.pid))
			arguments := strings.Split(strings.Trim(string(line), "\x00"), "\x00")
			if filepath.Base(arguments[0]) == name && len(arguments) == 1 || len(arguments) == 2 && arguments[1] == name {
				found = one.pid
			}
		}
		if found == 0 {
			return fmt.Errorf("it is not among the %d of the container", len(all[id]))
		}
		return nil
	})
	return found
}

// diskFull fills the file system. The writer gets errors until there is space again.
func (w *writing) diskFull(t *testing.T) {
	filler := filepath.Join(w.share(), "filler")
	block := make([]byte, 4096)
	file, err := os.Create(filler)
	env.Must(t, err)
	for err == nil {
		_, err = file.Write(block)
	}
	if err = errors.Join(err, file.Close()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	eventually(t, "the writer finds no space", func() error {
		output, err := suite.cluster.Kubectl(t.Context(), "logs", "-n", shop, w.pod.Name)
		if err == nil && !strings.Contains(output, "No space left on device") {
			err = errors.New("it says " + output)
		}
		return err
	})
	env.Must(t, os.Remove(filler))
}

// pullFails gives the operator an image that no node has. It reports that, and the node pod stays.
func (w *writing) pullFails(t *testing.T) {
	before := now(t)
	setImage(t, absentImage)
	eventually(t, "the failed pull is reported", func() error {
		return suite.cluster.Says(t.Context(), efsName, nodeService+"Degraded", "True/ImagePullFailed", suite.nodes[0], absentImage)
	})
	stays(t, before)
	setImage(t, before.Spec.Containers[0].Image)
	eventually(t, "the driver settles", func() error { return suite.cluster.Settled(t.Context()) })
}

// idleFirst rolls out an image of a slow registry. The node waits for the registry before its old node pod ends, and the writer does not notice.
func (w *writing) idleFirst(t *testing.T) {
	begun, before := len(w.lines(t)), now(t)
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	tag := w.registry.tag(slow)
	setImage(t, registryAddress+"/efs:"+tag)
	replaced(t, before, tag)
	pull, gap := w.registry.pulled(t, tag), env.LongestPause(w.lines(t)[begun-1:])
	if pull.To > gap.From {
		t.Errorf("the pull lies in %+v, and the longest stall in %+v", pull, gap)
	}
	if w.within(t, pull) == 0 {
		t.Errorf("no line was written during the pull")
	}
	requests, err := suite.cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	puller := driver.ImagesOf("efs-csi-node")
	applied := slices.IndexFunc(requests, func(r env.Request) bool { return r.IsWrite() && r.Object.Name == puller })
	deleted := slices.IndexFunc(requests, func(r env.Request) bool { return r.Verb == "delete" && r.Object.Name == before.Name })
	if applied < 0 || deleted < applied {
		t.Errorf("%s is request %d, and the deletion of the node pod %d", puller, applied, deleted)
	}
	eventually(t, "no pod pulls", func() error {
		pods := &corev1.PodList{}
		err := suite.cluster.Client.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": puller})
		if len(pods.Items) > 0 {
			err = errors.Join(err, fmt.Errorf("%d do", len(pods.Items)))
		}
		return err
	})
}

// rollingUpdate lets Kubernetes replace the node pod. The node pulls after the old one has ended, and the writer stalls until the end of the pull. The
// proxy of the old node pod can outlive the pod by a moment, so the first lines of the pull can still come through.
func (w *writing) rollingUpdate(t *testing.T) {
	before, begun := now(t), len(w.lines(t))
	policy(t, driver.RollingUpdate)
	tag := w.registry.tag(slow)
	setImage(t, registryAddress+"/efs:"+tag)
	replaced(t, before, tag)
	policy(t, driver.IdleFirst)
	pull := w.registry.pulled(t, tag)
	eventually(t, "a line after the pull", func() error {
		if lines := w.lines(t); lines[len(lines)-1] <= pull.To {
			return fmt.Errorf("the last line is of %.2f, and the pull ended at %.2f", lines[len(lines)-1], pull.To)
		}
		return nil
	})
	if gap := env.LongestPause(w.lines(t)[begun-1:]); pull.To < gap.From || pull.To > gap.To {
		t.Errorf("the pull lies in %+v, and does not end in the longest stall, %+v", pull, gap)
	}
}

// whenDrained keeps the node pod, because a pod uses its volume. With another policy it is replaced.
func (w *writing) whenDrained(t *testing.T) {
	before := now(t)
	policy(t, driver.WhenDrained)
	tag := w.registry.tag("new-")
	setImage(t, registryAddress+"/efs:"+tag)
	eventually(t, "the roll-out waits", func() error {
		return suite.cluster.Says(t.Context(), efsName, nodeService+"Progressing", "True/NodesInUse", shop+"/"+w.pod.Name)
	})
	stays(t, before)
	policy(t, driver.IdleFirst)
	replaced(t, before, tag)
}

// now is the node pod.
func now(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := nodePod(t.Context())
	env.Must(t, err)
	return pod
}

func stays(t *testing.T, before *corev1.Pod) {
	t.Helper()
	if after := now(t); after.UID != before.UID {
		t.Errorf("node pod %s was replaced by %s", before.Name, after.Name)
	}
}

// replaced waits for a node pod with an image whose name ends like that.
func replaced(t *testing.T, before *corev1.Pod, image string) {
	t.Helper()
	eventually(t, "a node pod with "+image, func() error {
		after, err := nodePod(t.Context())
		if err != nil {
			return err
		}
		if after.UID == before.UID || !strings.HasSuffix(after.Spec.Containers[0].Image, image) {
			return errors.New("pod " + after.Name + " has " + after.Spec.Containers[0].Image)
		}
		return errors.Join(suite.cluster.Settled(t.Context()), registered(t, efsName, true))
	})
}

// setImage gives the operator another image of the driver, as a new version would.
func setImage(t *testing.T, image string) {
	t.Helper()
	_, err := suite.cluster.Kubectl(t.Context(), "set", "env", "-n", namespace, "deployment/"+env.OperatorName, "DRIVER_IMAGE="+image)
	env.Must(t, err)
}

func policy(t *testing.T, policy driver.RolloutPolicy) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, rolloutPolicy, policy)
	env.Must(t, suite.cluster.Client.Patch(t.Context(), env.EFS(""), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// fewRestarts is after how many restarts of a container the kubelet makes it wait 40 s, then ever longer.
const fewRestarts = 3

// operatorKilled kills the operator. A pod that was killed often is replaced first, or the kubelet would wait with its restart.
func (w *writing) operatorKilled(t *testing.T) {
	operatorReady(t)
	pod, err := podOf(t.Context(), env.OperatorName)
	env.Must(t, err)
	if statusOf(pod, pod.Spec.Containers[0].Name).RestartCount >= fewRestarts {
		env.Must(t, suite.cluster.Client.Delete(t.Context(), pod))
		eventually(t, "the pod of the operator replaced", func() error { return suite.cluster.Gone(t.Context(), pod) })
		operatorReady(t)
	}
	killed(t, env.OperatorName)
	operatorReady(t)
}

func (w *writing) driverKilled(t *testing.T) {
	killed(t, "efs-csi-node")
	eventually(t, "the driver settles", func() error { return errors.Join(suite.cluster.Settled(t.Context()), registered(t, efsName, true)) })
}

// killed kills the processes of the first container of a pod, and waits until it runs again.
func killed(t *testing.T, app string) {
	t.Helper()
	pod, err := podOf(t.Context(), app)
	env.Must(t, err)
	name := pod.Spec.Containers[0].Name
	all, err := processes()
	env.Must(t, err)
	before := statusOf(pod, name)
	_, id, _ := strings.Cut(before.ContainerID, "://")
	if len(all[id]) == 0 {
		t.Fatalf("container %s has no process", name)
	}
	for _, one := range all[id] {
		// A process may end with its parent.
		if err := syscall.Kill(one.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	eventually(t, "container "+name+" again", func() error {
		if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if now := statusOf(pod, name); now.RestartCount == before.RestartCount || !now.Ready {
			return fmt.Errorf("%d restarts, ready %t", now.RestartCount, now.Ready)
		}
		return nil
	})
}

// programKilled kills the kubelet or containerd. The next one works: the node says that it is ready, and a command runs in the writer's pod.
func programKilled(t *testing.T, name string) {
	before := program(t, name)
	if before == 0 {
		t.Fatalf("%s does not run", name)
	}
	began := time.Now().Truncate(time.Second)
	env.Must(t, syscall.Kill(before, syscall.SIGKILL))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: suite.nodes[0]}}
	eventually(t, name+" works", func() error {
		if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		// A kubelet reports the conditions when it starts, and then every five minutes.
		reported := slices.ContainsFunc(node.Status.Conditions, func(one corev1.NodeCondition) bool {
			return one.Type == corev1.NodeReady && one.Status == corev1.ConditionTrue && (name != "kubelet" || !one.LastHeartbeatTime.Time.Before(began))
		})
		if after := program(t, name); !reported || after == before || after == 0 {
			return fmt.Errorf("the node is ready: %t; process %d after %d", reported, after, before)
		}
		_, err := suite.cluster.Kubectl(t.Context(), "exec", "-n", shop, "writer", "--", "true")
		return err
	})
}

// program is the process of a program of the node; 0 if none runs.
func program(t *testing.T, name string) int {
	t.Helper()
	programs, err := nodePrograms()
	env.Must(t, err)
	for pid, program := range programs {
		if program == "node: "+name {
			return pid
		}
	}
	return 0
}

// removalWaits deletes the ClusterCSIDriver. The operator names the pod, and keeps the driver until the kubelet has deleted the pod.
func (w *writing) removalWaits(t *testing.T) {
	before, begun := now(t), len(w.lines(t))
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	env.Must(t, suite.cluster.Client.Delete(t.Context(), env.EFS("")))
	eventually(t, "the removal waits", func() error {
		return suite.cluster.Says(t.Context(), efsName, nodeService+"Progressing", "True/VolumesInUse", shop+"/"+w.pod.Name)
	})
	stays(t, before)
	eventually(t, "the pod goes on writing", func() error { return w.goesOn(begun + 5) })
	env.Must(t, suite.cluster.Client.Delete(t.Context(), w.pod.DeepCopy()))
	eventually(t, "the driver gone", func() error { return suite.cluster.Gone(t.Context(), env.EFS("")) })
	env.Must(t, mounted())
	kubelet := "system:node:" + suite.nodes[0]
	requests, err := suite.cluster.Audit.Since(mark, kubelet, env.OperatorUser)
	env.Must(t, err)
	ended := slices.IndexFunc(requests, func(r env.Request) bool {
		return r.User.Username == kubelet && r.Verb == "delete" && r.Object.Name == w.pod.Name
	})
	removed := slices.IndexFunc(requests, func(r env.Request) bool {
		return r.User.Username == env.OperatorUser && r.Verb == "delete" && r.Object.Resource == "daemonsets" && r.Object.Name == "efs-csi-node"
	})
	if ended < 0 || removed < ended {
		t.Errorf("the kubelet's deletion of the pod is request %d, and the operator's deletion of the DaemonSet %d", ended, removed)
	}
}
