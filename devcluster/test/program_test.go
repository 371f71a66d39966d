package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
)

// journal is the variable that makes this test's binary a program of a pod. It names the file in which all such programs write
// when they begin and when they end.
const journal = "DEVCLUSTER_TEST_JOURNAL"

const image = "registry.example/program:1"

// runAsProgram is what a pod's program does: it ends when it is told to, or at once.
func runAsProgram(path string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	note := func(word string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(file, "%s %s %d\n", word, os.Getenv("POD_NAME"), os.Getpid())
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	note("begin")
	fmt.Println(strings.Join(os.Args[1:], " "))
	if slices.Contains(os.Args, "crash") {
		return 3
	}
	<-signals
	note("end")
	return 0
}

// programScene is a cluster that runs this test's binary for pods of the image.
type programScene struct {
	*running
	journal string
}

func (s *programScene) deployment(name string, args ...string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: name}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "program", Image: image, Args: args, Env: []corev1.EnvVar{
				{Name: journal, Value: s.journal},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			}}},
		}},
	}}
}

// lines are those of the journal that speak of the Deployment's pods.
func (s *programScene) lines(name string) []string {
	data, err := os.ReadFile(s.journal)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, " "+name+"-") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// pod returns the only pod of a Deployment, with the number of its process.
func (s *programScene) pod(name string) (*corev1.Pod, int, error) {
	list := &corev1.PodList{}
	err := s.client.List(context.Background(), list, client.InNamespace(openshift.DriverNamespace), client.MatchingLabels{"app": name})
	if err != nil || len(list.Items) != 1 {
		return nil, 0, fmt.Errorf("%d pods of %s (%w)", len(list.Items), name, err)
	}
	pod := &list.Items[0]
	pid, err := strconv.Atoi(pod.Annotations[program.PIDAnnotation])
	if err != nil || !alive(pid) {
		return nil, 0, fmt.Errorf("pod %s has no process: annotations %v", pod.Name, pod.Annotations)
	}
	return pod, pid, nil
}

func (s *programScene) waitForPod(name string) (*corev1.Pod, int) {
	s.t.Helper()
	var pod *corev1.Pod
	var pid int
	eventually(s.t, func() (err error) {
		pod, pid, err = s.pod(name)
		return err
	})
	return pod, pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func (s *programScene) waitForEnd(pid int) {
	s.t.Helper()
	eventually(s.t, func() error {
		if alive(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

func TestPodsOfAKnownImageArePrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := up(t, filepath.Join(dir, "cluster"), "--nodes", "2", "--platform", "Moon", "--program", image+"="+self)
	s := &programScene{running: r, journal: filepath.Join(dir, "journal")}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *programScene)
	}{
		{"it has the pod's arguments and the rights of its ServiceAccount", programHasArgumentsAndRights},
		{"a roll-out ends one process before the next one begins", rollOutReplacesProcesses},
		{"a program that ends is started again, and its pod is not ready meanwhile", endedProgramIsStartedAgain},
		{"the component takes its programs along", programsEndWithTheComponent},
		{"a pod that goes takes its process along", processEndsWithThePod},
		{"nothing is left of a killed cluster", processesEndWithTheSupervisor},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := *s
			r := *s.running
			r.t = t
			own.running = &r
			test.run(t, &own)
		})
	}
}

func programHasArgumentsAndRights(t *testing.T, s *programScene) {
	s.create(s.deployment("first", "start", "--metrics-cert-dir=/certs", "--name=$(POD_NAME)"))
	pod, _ := s.waitForPod("first")
	name := pod.Namespace + "-" + pod.Name
	want := "start --name=" + pod.Name + " --namespace=" + pod.Namespace + " --health-probe-bind-address=0 --metrics-bind-address=0\n"
	eventually(t, func() error {
		if got, err := os.ReadFile(filepath.Join(s.dir, "logs", name+".log")); err != nil || string(got) != want {
			return fmt.Errorf("it printed %q (%w), want %q", got, err, want)
		}
		return nil
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "programs", name+".kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := client.New(config, client.Options{Scheme: s.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := own.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	user := review.Status.UserInfo
	if user.Username != "system:serviceaccount:"+pod.Namespace+":default" || !slices.Contains(user.Extra["authentication.kubernetes.io/pod-name"], pod.Name) {
		t.Errorf("it is %+v", user)
	}
}

func rollOutReplacesProcesses(t *testing.T, s *programScene) {
	before, old := s.waitForPod("first")
	deployment := s.deployment("first")
	s.change(deployment, func() {
		metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, "example.com/again", "yes")
	})
	var after *corev1.Pod
	eventually(t, func() (err error) {
		if after, _, err = s.pod("first"); err == nil && after.Name == before.Name {
			err = errors.New("the old pod is still there")
		}
		return err
	})
	_, pid := s.waitForPod("first")
	want := []string{
		fmt.Sprintf("begin %s %d", before.Name, old), fmt.Sprintf("end %s %d", before.Name, old), fmt.Sprintf("begin %s %d", after.Name, pid),
	}
	eventually(t, func() error {
		if got := s.lines("first"); !slices.Equal(got, want) {
			return fmt.Errorf("journal %q, want %q", got, want)
		}
		return nil
	})
}

func endedProgramIsStartedAgain(t *testing.T, s *programScene) {
	deployment := s.deployment("crashing", "crash")
	s.create(deployment)
	list := &corev1.PodList{}
	eventually(t, func() error {
		err := s.client.List(context.Background(), list, client.InNamespace(openshift.DriverNamespace), client.MatchingLabels{"app": "crashing"})
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%d pods (%w)", len(list.Items), err)
		}
		status := list.Items[0].Status.ContainerStatuses[0]
		if status.RestartCount < 2 || status.Ready || status.State.Waiting == nil || !strings.Contains(status.State.Waiting.Message, "exit status 3") {
			return fmt.Errorf("container %+v", status)
		}
		return nil
	})
	s.expect(deployment, func() error {
		if deployment.Status.AvailableReplicas != 0 {
			return fmt.Errorf("%d replicas are available", deployment.Status.AvailableReplicas)
		}
		return nil
	})
	if began := len(s.lines("crashing")); began < 2 {
		t.Errorf("it began %d times", began)
	}
	s.delete(deployment)
	s.expectGone(&list.Items[0])
}

func programsEndWithTheComponent(t *testing.T, s *programScene) {
	pod, old := s.waitForPod("first")
	if got := devcluster(t, "stop", "--dir", s.dir, cluster.Programs); got.code != 0 {
		t.Fatalf("stop: exit code %d: %s", got.code, got.stderr)
	}
	if alive(old) {
		t.Errorf("process %d still runs", old)
	}
	if got := devcluster(t, "start", "--dir", s.dir, cluster.Programs); got.code != 0 {
		t.Fatalf("start: exit code %d: %s", got.code, got.stderr)
	}
	if again, _ := s.waitForPod("first"); again.Name != pod.Name {
		t.Errorf("pod %s, want %s", again.Name, pod.Name)
	}
}

func processEndsWithThePod(_ *testing.T, s *programScene) {
	pod, pid := s.waitForPod("first")
	s.delete(s.deployment("first"))
	s.expectGone(pod)
	s.waitForEnd(pid)
}

func processesEndWithTheSupervisor(t *testing.T, s *programScene) {
	s.create(s.deployment("last"))
	_, pid := s.waitForPod("last")
	state, _ := s.status()
	if err := syscall.Kill(state.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.waitForEnd(pid)
}
