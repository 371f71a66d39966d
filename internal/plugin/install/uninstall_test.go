package install

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

func used() []client.Object {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: awsefs.Name}
	pv.Spec.ClaimRef, pv.Status.Phase = &corev1.ObjectReference{Namespace: "my-project", Name: "data"}, corev1.VolumeBound
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "web-0"}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: awsefs.Name, UID: "cr"}}
	cr.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Progressing", Status: operatorv1.ConditionTrue, Message: "removing the driver"}}
	return []client.Object{pv, cr, subscription("efs.v1"), pod}
}

func TestWhatIsInTheWayOfAnUninstallationIsSaidFirst(t *testing.T) {
	uninstall := func(cluster client.Client, answer string, line ...string) string {
		make := func(p *plugin.Plugin) *cobra.Command { return UninstallCommand(p) }
		return plugintest.Run(t, cluster, answer, make, append([]string{"uninstall", "efs"}, line...)...).Text()
	}
	cluster := plugintest.Cluster(t, used()...)
	golden.CompareText(t, "uninstall-used.txt", uninstall(cluster, "y\n"))
	cluster.Objects = cluster.Objects[:3]
	golden.CompareText(t, "uninstall-no.txt", uninstall(cluster, "n\n"))
	if len(cluster.Writes) > 0 {
		t.Errorf("it writes %q", cluster.Writes)
	}
	golden.CompareText(t, "uninstall-late.txt", uninstall(cluster, "y\n", "--timeout", "5ms"))
	// The user has confirmed: a new status must not ask again.
	if diff := cmp.Diff([]string{"delete ClusterCSIDriver efs.csi.aws.com, whatever it has become"}, cluster.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	going := &changing{Cluster: cluster}
	going.after = func(c *canned.Cluster, reads int) {
		if reads == 5 {
			c.Objects = slices.Delete(c.Objects, 1, 2)
		}
	}
	golden.CompareText(t, "uninstall.txt", uninstall(going, "y\n"))
	uninstall(cluster, "", "-o", "json")
	uninstall(plugintest.Cluster(t), "", "-o", "json")
	golden.CompareText(t, "uninstall-nothing.txt", uninstall(plugintest.Cluster(t), ""))
	other := plugintest.Cluster(t, chart("kube-system"))
	if text := uninstall(other, ""); !strings.Contains(text, "  DaemonSet kube-system/efs-csi-node, which runs the driver for another owner\n") {
		t.Error(text)
	}
	blind := &changing{Cluster: plugintest.Cluster(t, used()[1])}
	blind.after = func(c *canned.Cluster, reads int) {
		if reads > 2 {
			c.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "clustercsidrivers"}, "", errors.New("no right")), "get ClusterCSIDriver")
		}
	}
	if text := uninstall(blind, "", "--yes"); !strings.Contains(text, "you no longer have permission to read ClusterCSIDriver efs.csi.aws.com") {
		t.Error(text)
	}
	cluster.Refuse(errors.New("denied"), "delete")
	cluster.Objects = append(cluster.Objects, used()[1])
	golden.CompareText(t, "uninstall-denied.txt", uninstall(cluster, "", "--yes"))
}

func TestTheNamespaceOfTheOperatorIsNotThatOfTheUser(t *testing.T) {
	for name, make := range map[string]func(*plugin.Plugin) *cobra.Command{"install": Command, "uninstall": UninstallCommand} {
		cluster := plugintest.Cluster(t)
		got := plugintest.Run(t, cluster, "y\n", make, name, "efs", "-n", "my-project")
		want := "--namespace has no effect on oc storage " + name + " efs: --operator-namespace sets the namespace of the operator and the driver"
		if got.Code != plugin.WrongUsage || got.Err.Error() != want || len(cluster.Reads)+len(cluster.Writes) > 0 {
			t.Errorf("%s reads %q, writes %q, and says:\n%s", name, cluster.Reads, cluster.Writes, got.Text())
		}
	}
}
