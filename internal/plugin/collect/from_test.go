package collect

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/drivers"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

// brokenCluster has a Subscription whose InstallPlan waits for an approval, and a pod whose PVC has no class.
func brokenCluster() []client.Object {
	in := metav1.ObjectMeta{Namespace: "my-project", Name: "data"}
	class := "missing"
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: in, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
	pvc.Status.Phase = corev1.ClaimPending
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "web"}}
	web.Status.Phase = corev1.PodPending
	web.Spec.Containers = []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "GREETING", Value: "planted-greeting"}}, Args: []string{"planted-argument"}}}
	web.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "without-volumes"}}
	subscription, plan, group := &unstructured.Unstructured{}, &unstructured.Unstructured{}, &unstructured.Unstructured{}
	for kind, one := range map[string]*unstructured.Unstructured{"Subscription": subscription, "InstallPlan": plan, "OperatorGroup": group} {
		one.SetAPIVersion("operators.coreos.com/v1alpha1")
		one.SetKind(kind)
		one.SetNamespace("efs-here")
		one.SetName("one")
	}
	group.SetAPIVersion("operators.coreos.com/v1")
	subscription.Object["spec"] = map[string]any{"name": "aws-efs-csi-driver-operator", "source": "a", "sourceNamespace": "b"}
	subscription.Object["status"] = map[string]any{"installPlanRef": map[string]any{"name": "one"}}
	plan.Object["status"] = map[string]any{"phase": "RequiresApproval"}
	return []client.Object{
		pvc, web, other, subscription, plan, group,
		&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "efs.csi.aws.com"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs"}, Provisioner: "efs.csi.aws.com"},
	}
}

// A reader of an archive gets the answers that the cluster gives.
func TestDoctorSaysTheSameOfAnArchiveAsOfItsCluster(t *testing.T) {
	t.Chdir(t.TempDir())
	cluster := plugintest.Cluster(t, brokenCluster()...)
	made := plugintest.Run(t, cluster, "", func(p *plugin.Plugin) *cobra.Command {
		return command(p, func(*plugin.Cluster) (logs, error) { return &cannedLogs{}, nil }, drivers.Command, doctor.Command)
	}, "collect", "--file", "case.tar.gz")
	if made.Code != 0 {
		t.Fatal(made.Text())
	}
	files := contentOf(t, "case.tar.gz")
	none := plugintest.Cluster(t)
	for line, make := range map[string]func(*plugin.Plugin) *cobra.Command{
		"status": drivers.Command, "doctor": doctor.Command, "doctor pvc data": doctor.Command, "doctor pod web": doctor.Command,
		"doctor pvc no-such-claim": doctor.Command, "doctor node no-such-node": doctor.Command,
	} {
		words := strings.Fields(line)
		live := plugintest.Run(t, cluster, "", make, append(words, "-n", "my-project")...)
		for _, from := range []string{"case.tar.gz", unpacked(t, files)} {
			archived := plugintest.Run(t, none, "", make, append(words, "-n", "my-project", "--from", from)...)
			// Only the commands to copy differ.
			if live.Text() != strings.ReplaceAll(archived.Text(), " --from "+from+"\n", "\n") {
				t.Errorf("%s --from %s:\n%s\nof the cluster:\n%s", line, from, archived.Text(), live.Text())
			}
		}
		if archived := plugintest.Run(t, none, "", make, append(words, "--from", "case.tar.gz")...); line == "doctor" &&
			!strings.Contains(archived.Out, "  oc storage doctor pvc data -n my-project --from case.tar.gz\n") {
			t.Errorf("a command to copy lacks --from:\n%s", archived.Out)
		}
		if name := "case/" + line + ".txt"; len(words) == 1 && files[name] != live.Out {
			t.Errorf("%s: %s", name, files[name])
		}
	}
	if len(none.Reads) > 0 {
		t.Errorf("the cluster of the kubeconfig is asked %q", none.Reads)
	}
	text := strings.Join(slices.Collect(maps.Values(files)), "\n")
	if strings.Contains(text, "planted") || strings.Contains(text, "without-volumes") || !strings.Contains(text, "name: web") {
		t.Error("of pods of applications, the archive has more or less than the volumes")
	}
}

// An archive has only those pods of applications that use volumes. It can't show that another pod does not exist.
func TestDoctorDoesNotTakeWhatAnArchiveLacksForAbsent(t *testing.T) {
	t.Chdir(t.TempDir())
	plugintest.Run(t, plugintest.Cluster(t, brokenCluster()...), "", with(&cannedLogs{}), "collect", "--file", "case.tar.gz")
	got := plugintest.Run(t, plugintest.Cluster(t), "", doctor.Command, "doctor", "pod", "without-volumes", "-n", "my-project", "--from", "case.tar.gz")
	if want := "The must-gather folder has no Pod my-project/without-volumes, and does not show whether the cluster had this object."; got.Code != 1 || !strings.Contains(got.Out, want) {
		t.Errorf("want %q, got %s", want, got.Text())
	}
}

// unpacked writes the files of an archive into a folder.
func unpacked(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
