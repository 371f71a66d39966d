package node

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// tried is the image of the pods of "oc storage test", which suite.archive has.
const tried = "registry.example/oc-storage:test"

// trial runs "oc storage test" with a class.
type trial struct {
	*testing.T

	class, binary string
}

// trialSpace is the namespace of the pods and PVCs of a trial.
const trialSpace = "trial"

// tryClass tries the class of EBS with "oc storage test". A test that is killed leaves its objects to the next one. A test that gets Ctrl-C leaves
// nothing.
func tryClass(t *testing.T) {
	ctx := t.Context()
	env.Must(t, suite.cluster.Namespace(ctx, trialSpace))
	classes := &storagev1.StorageClassList{}
	env.Must(t, suite.cluster.Client.List(ctx, classes))
	class := slices.IndexFunc(classes.Items, func(one storagev1.StorageClass) bool { return one.Provisioner == ebsName })
	if class < 0 {
		t.Fatal("EBS has no StorageClass")
	}
	binary, err := env.Binary("oc-storage")
	env.Must(t, err)
	one := trial{T: t, class: classes.Items[class].Name, binary: binary}

	_, _ = one.midway(syscall.SIGKILL)
	if len(one.pvcs()) == 0 {
		t.Error("the killed test has left nothing: this shows nothing")
	}
	// This test first deletes what the killed one has left.
	if said, err := one.midway(syscall.SIGINT); !strings.Contains(said, "Interrupted.") {
		t.Errorf("Ctrl-C: %v\n%s", err, said)
	}
	one.nothingLeft()

	output, err := one.command().CombinedOutput()
	if err != nil || !strings.Contains(string(output), "works") {
		show(t)
		t.Errorf("oc storage test: %v\n%s", err, output)
	}
	t.Logf("oc storage test:\n%s", output)
	one.nothingLeft()
}

func (t trial) command() *exec.Cmd {
	made := exec.CommandContext(t.Context(), filepath.Clean(t.binary), "test", t.class, "-n", trialSpace, "--image", tried, "--yes", "--timeout", "2m")
	made.Env = append(os.Environ(), "KUBECONFIG="+suite.cluster.Kubeconfig())
	return made
}

// midway sends a signal to a test that has created a PVC. It returns what the test says, and how it ends.
func (t trial) midway(signal syscall.Signal) (string, error) {
	command, before := t.command(), t.pvcs()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	env.Must(t.T, command.Start())
	err := env.AwaitFor(t.Context(), soon, "the test has created a PVC", func() error {
		if !slices.ContainsFunc(t.pvcs(), func(name string) bool { return !slices.Contains(before, name) }) {
			return errors.New("namespace " + trialSpace + " has no new PVC")
		}
		return nil
	})
	if err != nil {
		signal = syscall.SIGKILL
	}
	_ = command.Process.Signal(signal)
	ended := command.Wait()
	if err != nil {
		t.Fatalf("%v:\n%s", err, said.String())
	}
	return said.String(), ended
}

func (t trial) pvcs() (names []string) {
	list := &corev1.PersistentVolumeClaimList{}
	env.Must(t.T, suite.cluster.Client.List(t.Context(), list, client.InNamespace(trialSpace)))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (t trial) nothingLeft() {
	t.Helper()
	if left := t.pvcs(); len(left) > 0 {
		t.Errorf("PVCs %v are left", left)
	}
	volumes := &corev1.PersistentVolumeList{}
	env.Must(t.T, suite.cluster.Client.List(t.Context(), volumes))
	for i := range volumes.Items {
		if of := volumes.Items[i].Spec.ClaimRef; of != nil && of.Namespace == trialSpace {
			t.Errorf("PersistentVolume %s is left", volumes.Items[i].Name)
		}
	}
}
