package guide

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/test/env"
)

// The commands of the README, against the stand-in of OLM and the real operator.
func TestThePluginInstallsAndUninstallsTheDriver(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	cluster, _ := reader(t, root)
	text, code := storage(t, cluster, "install", "efs", "--yes")
	says(t, text, code, plugin.Wrong, "the cluster serves no Subscription", "nothing was done, because these checks failed: OLM", "docs/guide/install-without-olm.md")
	lifecycle := startLifecycle(t, cluster, root)
	text, code = storage(t, cluster, "install", "efs", "--yes", "--watch")
	says(t, text, code, 0, "3/3 the driver is available")
	env.Must(t, cluster.Settled(t.Context()))
	text, code = storage(t, cluster, "install", "efs", "--yes", "--watch")
	says(t, text, code, 0, "3/3 the driver is available")
	pod := application(t, cluster)
	text, code = storage(t, cluster, "uninstall", "efs", "--yes")
	says(t, text, code, plugin.Wrong, "nothing was done: 1 pods use volumes of the driver", pod.Name)
	env.Must(t, cluster.Client.Delete(t.Context(), pod))
	env.Eventually(t, "the application gone", func() error { return cluster.Gone(t.Context(), pod.DeepCopy()) })
	text, code = storage(t, cluster, "uninstall", "efs", "--yes")
	says(t, text, code, 0, "delete subscriptions.operators.coreos.com aws-efs-csi-driver-operator", "1 PersistentVolumes")
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	for i := range owned {
		t.Errorf("%s %s/%s is left", owned[i].GetKind(), owned[i].GetNamespace(), owned[i].GetName())
	}
	if diff := cmp.Diff(1, len(lifecycle.stop())); diff != "" {
		t.Errorf("installations by OLM (-want +got):\n%s", diff)
	}
}

// storage runs a command of the plugin, and returns what it prints and its exit code.
func storage(t *testing.T, cluster *env.Cluster, args ...string) (string, int) {
	t.Helper()
	out := &bytes.Buffer{}
	p := plugin.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out})
	root := p.Root("oc storage", "1", install.Command(p), install.UninstallCommand(p))
	root.SetArgs(append(args, "--kubeconfig", cluster.Kubeconfig(), "--timeout", "3m"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	err := root.ExecuteContext(ctx)
	if err != nil {
		out.WriteString(err.Error())
	}
	return out.String(), plugin.Code(err)
}

func says(t *testing.T, text string, code, want int, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if code != want || !strings.Contains(text, part) {
			t.Fatalf("exit code %d, want %d and %q:\n%s", code, want, part, text)
		}
	}
}

// application is a pod with a volume of the driver.
func application(t *testing.T, cluster *env.Cluster) *corev1.Pod {
	t.Helper()
	volume, pvc, pod := env.Workload()
	for _, object := range []client.Object{volume, pvc} {
		env.Must(t, cluster.Client.Create(t.Context(), object))
	}
	cluster.RunPod(t, pod)
	return pod
}
