package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// migrating is how long a migration may take.
const migrating = 5 * time.Minute

// acceptRemount is the annotation that lets the operator replace node pods on nodes in use.
const acceptRemount = "operator.openshift.io/accept-remount"

// A pod writes to a volume of a predecessor's driver while this operator migrates the driver.
func TestAPodWritesThroughAMigration(t *testing.T) {
	env.OnlySoak(t)
	open(t, "--topology", "SingleReplica", "--real-nodes", "1")
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	if !t.Run("the operator of the bundle is ready", installEFS) {
		return
	}
	for _, predecessor := range []string{env.CommunityName, env.OperatorName} {
		t.Run("from "+predecessor, func(t *testing.T) { migrated(t, predecessor) })
		t.Run("EFS removed", removeEFS)
	}
	env.Must(t, suite.cluster.Audit.NoRefusals(mark, env.OperatorUser))
}

// migrated lets a pod write to a volume of a predecessor's driver, and migrates the driver. The predecessor's node pod stays, and the pod writes,
// until the administrator accepts that the mount hangs. Then the operator replaces the node pod, the pod goes on writing, and no line is lost.
func migrated(t *testing.T, predecessor string) {
	daemonSet := putPredecessor(t, predecessor)
	w := startWriting(t)
	old := w.theirs(t, daemonSet)
	mark, err := suite.cluster.Audit.Now()
	env.Must(t, err)
	createCR(t, predecessor)
	eventually(t, "the migration waits for the pod that writes", func() error {
		return suite.cluster.Says(t.Context(), efsName, nodeService+"Progressing", "True/TakingOver", suite.nodes[0], shop+"/"+w.pod.Name)
	})
	waits := len(w.lines(t))
	eventually(t, "lines while the migration waits", func() error { return w.goesOn(waits + 20) })
	if now := w.theirs(t, daemonSet); now.UID != old.UID || now.DeletionTimestamp != nil {
		t.Errorf("the predecessor's node pod %s was replaced by %s before anybody accepted that", old.Name, now.Name)
	}
	accepted := len(w.lines(t))
	env.Must(t, suite.cluster.Client.Patch(t.Context(), env.EFS(""), env.Merge(fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, acceptRemount))))
	err = env.AwaitFor(t.Context(), migrating, "the migration is complete", func() error {
		return errors.Join(suite.cluster.Gone(t.Context(), old.DeepCopy()), suite.cluster.Settled(t.Context()), registered(t, efsName, true))
	})
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	after := len(w.lines(t))
	eventually(t, "the pod goes on writing", func() error { return w.goesOn(after + 20) })
	times := w.lines(t)
	t.Logf("migration from %s: %d lines, none lost; longest pause before %.2f s, in the replacement %.2f s",
		predecessor, len(times), env.LongestPause(times[:accepted]).Length(), env.LongestPause(times[accepted-1:]).Length())
	replacedInOrder(t, mark, old)
	t.Run("status and doctor find nothing wrong", healthy)
	w.end(t)
}

// replacedInOrder looks the order up in the audit log: the acceptance, the deletion of the predecessor's node pod by the operator, and the first
// report of the kubelet about this operator's node pod. It may come before the kubelet deletes the old pod, whose containers have ended.
func replacedInOrder(t *testing.T, mark env.Mark, old *corev1.Pod) {
	t.Helper()
	const administrator = "admin"
	kubelet, next := "system:node:"+suite.nodes[0], now(t)
	requests, err := suite.cluster.Audit.Since(mark, administrator, kubelet, env.OperatorUser)
	env.Must(t, err)
	found := []int{
		slices.IndexFunc(requests, func(r env.Request) bool {
			return r.Verb == "patch" && r.Object.Resource == "clustercsidrivers" && r.User.Username == administrator
		}),
		slices.IndexFunc(requests, func(r env.Request) bool {
			return r.Verb == "delete" && r.Object.Name == old.Name && r.User.Username == env.OperatorUser
		}),
		slices.IndexFunc(requests, func(r env.Request) bool {
			return r.Verb == "patch" && r.Object.Name == next.Name && r.Object.Subresource == "status" && r.User.Username == kubelet
		}),
	}
	if found[0] < 0 || !slices.IsSorted(found) {
		t.Errorf("acceptance, the operator's deletion and the first status of the next pod are requests %v", found)
	}
}

// healthy lets the plugin judge the driver.
func healthy(t *testing.T) {
	binary, err := env.Binary("oc-storage")
	env.Must(t, err)
	for _, args := range [][]string{{"status"}, {"doctor"}} {
		command := exec.CommandContext(t.Context(), binary, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+suite.cluster.Kubeconfig())
		output, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("oc storage %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		t.Logf("oc storage %s:\n%s", strings.Join(args, " "), output)
	}
}

// putPredecessor makes the objects of a predecessor's driver, and waits until the kubelet has registered it.
func putPredecessor(t *testing.T, predecessor string) *appsv1.DaemonSet {
	t.Helper()
	ctx := t.Context()
	objects, manager := predecessors.OpenShift(namespace), env.OperatorName
	if predecessor == env.CommunityName {
		uid, err := suite.cluster.CRDUID(ctx)
		env.Must(t, err)
		objects, manager = predecessors.Community(namespace, uid), env.CommunityName
	}
	var found *appsv1.DaemonSet
	for _, object := range append(objects, nodesAreRead()...) {
		switch typed := object.(type) {
		case *appsv1.DaemonSet:
			found = typed
			runnable(&typed.Spec.Template.Spec)
		case *appsv1.Deployment:
			runnable(&typed.Spec.Template.Spec)
			typed.Spec.Replicas = new(int32(1))
		}
		env.Must(t, suite.cluster.Put(ctx, manager, object))
	}
	eventually(t, "the predecessor's driver registered", func() error { return registered(t, efsName, true) })
	return found
}

// createCR makes the ClusterCSIDriver, as the predecessor leaves it.
func createCR(t *testing.T, predecessor string) {
	t.Helper()
	cr := env.EFS(operatorv1.Managed)
	if predecessor != env.CommunityName {
		cr.Finalizers = predecessors.OpenShiftFinalizers()
	}
	env.Must(t, suite.cluster.Client.Create(t.Context(), cr))
}

// nodesAreRead lets the predecessors' pods read nodes: EFS 1.7.7 asks the API server for the region and the zone when no metadata service answers.
func nodesAreRead() []client.Object {
	const role = "predecessor-reads-nodes"
	accounts := []rbacv1.Subject{}
	for _, name := range []string{predecessors.CommunityAccount, predecessors.NodeAccount, "aws-efs-csi-driver-controller-sa"} {
		accounts = append(accounts, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: accounts,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		},
	}
}

// runnable gives a predecessor's pod the images that the node has, and what these need: docs/contribute/devcluster.md names the differences.
func runnable(pod *corev1.PodSpec) {
	for i := range pod.InitContainers {
		// It writes the file of a Secret that holds no real key.
		pod.InitContainers[i].Image, pod.InitContainers[i].Command = env.WriterImage, []string{"true"}
	}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		container.Image, container.ImagePullPolicy = "registry.example/"+imageFor(container.Name)+":v1", corev1.PullIfNotPresent
		for j, argument := range container.Args {
			// The stand-in for the liveness probe has the newer flag only.
			if port, is := strings.CutPrefix(argument, "--health-port="); is {
				container.Args[j] = "--http-endpoint=:" + port
			}
		}
		if strings.HasSuffix(container.Image, "/driver:v1") {
			container.Env = append(container.Env, corev1.EnvVar{
				Name: "CSI_NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}},
			})
			// The image of v1.7.7 has files below /etc/amazon, and makes a folder there.
			container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.MountPath == "/etc/amazon" })
			container.SecurityContext.ReadOnlyRootFilesystem = nil
		}
	}
}

// imageFor is the image of the golden files for a container of a predecessor.
func imageFor(container string) string {
	for _, known := range []struct{ part, image string }{
		{"rbac-proxy", "kube-rbac-proxy"}, {"provisioner", "provisioner"}, {"registrar", "registrar"}, {"liveness", "livenessprobe"},
	} {
		if strings.Contains(container, known.part) {
			return known.image
		}
	}
	return "driver"
}

// theirs is the predecessor's node pod.
func (w *writing) theirs(t *testing.T, daemonSet *appsv1.DaemonSet) *corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	labels := client.MatchingLabels(daemonSet.Spec.Template.Labels)
	env.Must(t, suite.cluster.Client.List(t.Context(), pods, client.InNamespace(daemonSet.Namespace), labels))
	if len(pods.Items) != 1 {
		t.Fatalf("%d node pods of %s, want 1", len(pods.Items), daemonSet.Name)
	}
	return &pods.Items[0]
}
