package node

import (
	"bytes"
	"context"
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

// tryClass tries the class of EBS with "oc storage test". A test that is killed leaves its objects to the next one, which deletes all.
func tryClass(t *testing.T) {
	ctx := t.Context()
	const space = "trial"
	env.Must(t, suite.cluster.Namespace(ctx, space))
	classes := &storagev1.StorageClassList{}
	env.Must(t, suite.cluster.Client.List(ctx, classes))
	class := slices.IndexFunc(classes.Items, func(one storagev1.StorageClass) bool { return one.Provisioner == ebsName })
	if class < 0 {
		t.Fatal("EBS has no StorageClass")
	}
	binary, err := env.Binary("oc-storage")
	env.Must(t, err)
	command := func(ctx context.Context) *exec.Cmd {
		made := exec.CommandContext(ctx, filepath.Clean(binary), "test", classes.Items[class].Name, "-n", space, "--image", tried, "--yes", "--timeout", "2m")
		made.Env = append(os.Environ(), "KUBECONFIG="+suite.cluster.Kubeconfig())
		return made
	}
	pvcs := func() int {
		list := &corev1.PersistentVolumeClaimList{}
		env.Must(t, suite.cluster.Client.List(ctx, list, client.InNamespace(space)))
		return len(list.Items)
	}

	killed := command(ctx)
	var said bytes.Buffer
	killed.Stdout, killed.Stderr = &said, &said
	env.Must(t, killed.Start())
	if err := env.AwaitFor(ctx, soon, "the test has created a PVC", func() error {
		if pvcs() == 0 {
			return errors.New("namespace " + space + " has none")
		}
		return nil
	}); err != nil {
		_ = killed.Process.Kill()
		_ = killed.Wait()
		t.Fatalf("%v:\n%s", err, said.String())
	}
	env.Must(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	if pvcs() == 0 {
		t.Error("the killed test has left nothing: this shows nothing")
	}

	output, err := command(ctx).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "works") {
		show(t)
		t.Errorf("oc storage test: %v\n%s", err, output)
	}
	t.Logf("oc storage test:\n%s", output)
	volumes := &corev1.PersistentVolumeList{}
	env.Must(t, suite.cluster.Client.List(ctx, volumes))
	for _, volume := range volumes.Items {
		if volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == space {
			t.Errorf("PersistentVolume %s is left", volume.Name)
		}
	}
	if left := pvcs(); left > 0 {
		t.Errorf("%d PVCs are left", left)
	}
}
