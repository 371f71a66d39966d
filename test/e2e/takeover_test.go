package e2e

import (
	"context"
	"errors"
	"testing"

	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// A migration needs RBAC of its own. What it must do, and must never do, is tested in test/takeover.
func TestAMigrationNeedsNoOtherRBAC(t *testing.T) {
	cluster := clean(t)
	crd, err := cluster.CRDUID(t.Context())
	env.Must(t, err)
	old := predecessors.Community(env.OperatorNamespace, crd)
	// The one that OpenShift ships, on no node.
	idle := &appsv1.DaemonSet{}
	for _, object := range predecessors.OpenShift(env.OperatorNamespace) {
		if daemonSet, ok := object.(*appsv1.DaemonSet); ok {
			idle = daemonSet
			idle.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/nowhere": "true"}
		}
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}}
	t.Cleanup(func() {
		// It is never ours.
		if err := cluster.Client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
	// What an earlier version of this operator made, with the binding of the provisioner under its old name.
	binding := earlierBinding("efs-csi-main-provisioner-binding", "efs-csi-provisioner-role", "aws-efs-csi-driver-controller-sa")
	env.Must(t, cluster.Put(t.Context(), env.OperatorName, binding, earlierBinding("efs-node-privileged-binding", "efs-privileged-role", predecessors.NodeAccount)))
	env.Must(t, cluster.Put(t.Context(), env.CommunityName, append(old, idle)...))
	env.Eventually(t, "the old driver runs", func() error { return ready(t.Context(), cluster) })
	operate(t, cluster)
	install(t, cluster)
	env.Eventually(t, "what the old driver needed has gone", func() error {
		return errors.Join(
			cluster.Gone(t.Context(), idle.DeepCopy()), cluster.Gone(t.Context(), binding.DeepCopy()),
			cluster.Gone(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "efs-csi-sa"}}),
			cluster.Gone(t.Context(), &securityv1.SecurityContextConstraints{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-scc"}}),
		)
	})
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	if len(class.OwnerReferences) > 0 {
		t.Errorf("the StorageClass goes with %v", class.OwnerReferences)
	}
}

// keepEarlierClass creates the StorageClass as an earlier version created it, and waits until the operator manages it.
func keepEarlierClass(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	class := env.NewObject("storage.k8s.io/v1", "StorageClass", "", "efs-sc")
	class.SetLabels(map[string]string{"app.kubernetes.io/managed-by": env.OperatorName})
	class.Object["provisioner"] = "efs.csi.aws.com"
	configuration := client.ApplyConfigurationFromUnstructured(class)
	env.Must(t, cluster.Client.Apply(t.Context(), configuration, client.FieldOwner(env.OperatorName)))
	env.Eventually(t, "the StorageClass kept", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			return err
		}
		if len(class.GetAnnotations()) == 0 {
			return errors.New("the operator has not applied it")
		}
		return nil
	})
}

// dropEarlierClass has the operator remove that class, and puts the setting back.
func dropEarlierClass(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	class := env.NewObject("storage.k8s.io/v1", "StorageClass", "", "efs-sc")
	err := patch(cluster, env.EFS(""), `{"spec":{"storageClassState":"Removed"}}`)
	if err == nil {
		err = env.Await(context.Background(), "the StorageClass gone", func() error { return cluster.Gone(context.Background(), class) })
	}
	if err = errors.Join(err, patch(cluster, env.EFS(""), `{"spec":{"storageClassState":""}}`)); err != nil {
		t.Error(err)
	}
}

func earlierBinding(name, role, account string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": env.OperatorName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: account}},
	}
}

// ready checks that all node pods are.
func ready(ctx context.Context, cluster *env.Cluster) error {
	daemonSet := &appsv1.DaemonSet{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: "efs-csi-node"}, daemonSet); err != nil {
		return err
	}
	if state := daemonSet.Status; state.DesiredNumberScheduled == 0 || state.NumberReady < state.DesiredNumberScheduled {
		return errors.New("not all pods are ready")
	}
	return nil
}
