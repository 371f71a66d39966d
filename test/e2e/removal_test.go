package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// Every test of this file relies on clean: the cluster must be the same before and after, object by object.

// An installation comes to a cluster with objects of others, also under names of the driver, and goes again while it is Unmanaged.
func deletionRemovesTheDriverAndNothingElse(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	forged := env.NewObject("v1", "ConfigMap", env.OperatorNamespace, "forged")
	forged.SetLabels(map[string]string{"app.kubernetes.io/managed-by": env.OperatorName})
	// Label and field manager are names that anybody can choose.
	env.Must(t, cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(forged), client.FieldOwner(env.OperatorName)))
	t.Cleanup(func() { env.Scene{Cluster: cluster, T: t}.Drop(forged) })
	retain := corev1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: "efs.csi.aws.com", ReclaimPolicy: &retain,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0"},
	}
	shared := earlierBinding("efs-csi-main-provisioner-binding", "efs-csi-provisioner-role", "aws-efs-csi-driver-controller-sa")
	// A ClusterRoleBinding that gives others permissions as well is theirs.
	shared.Subjects = append(shared.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"})
	for _, object := range append(env.Bystanders(), class, shared) {
		env.Scene{Cluster: cluster, T: t}.Keep(object)
	}
	version := class.ResourceVersion
	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	before, err := cluster.Take(t.Context())
	env.Must(t, err)
	// An older operator bound the name of ours to a role of somebody else.
	stolen := earlierBinding("efs-csi-provisioner-binding", "view", "default")
	env.Must(t, cluster.Client.Create(t.Context(), stolen))
	env.Must(t, cluster.Put(t.Context(), env.OperatorName, earlierBinding("efs-node-privileged-binding", "efs-privileged-role", predecessors.NodeAccount)))
	cr := env.EFS(operatorv1.Managed)
	cr.Finalizers = []string{
		"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverControllerServiceController",
		"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverNodeServiceController",
		"aws-efs-csi-driver-operator.operator.openshift.io/CSIStaticResourceController",
	}
	uninstallAtEnd(t, cluster)
	env.Must(t, cluster.Client.Create(t.Context(), cr))
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	if err := mentioned(t.Context(), cluster, "StorageClass efs-sc was not created by this operator"); err != nil {
		t.Errorf("the status does not say that the StorageClass is left alone: %v", err)
	}
	live := find(t, cluster, damage{kind: "clusterrolebinding", name: stolen.Name})
	if role, _, err := unstructured.NestedString(live.Object, "roleRef", "name"); err != nil || role != "efs-csi-provisioner-role" {
		t.Errorf("the binding refers to %s (%v)", role, err)
	}
	// The provisioner would make it.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "efs-csi-aws-com"}}
	env.Must(t, cluster.Client.Create(t.Context(), lease))
	play(t, cluster, operator, func(*testing.T) {}, []scene{{"TestUnmanagedTouchesNothingAndCanBeDeleted", unmanagedTouchesNothing}})
	env.Must(t, cluster.Uninstall(t.Context()))
	env.Must(t, cluster.Gone(t.Context(), lease))
	// The forged object looks like one of the driver.
	leftOf(t, cluster, 1)
	env.Must(t, cluster.AwaitSame(t.Context(), "the cluster as it was before the installation", before))
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	if class.ResourceVersion != version {
		t.Errorf("resource version %s, want %s: nobody may write to a StorageClass that is not ours", class.ResourceVersion, version)
	}
}

// OpenShift's documentation has administrators make a class of that name when the driver runs.
func theDocumentedStorageClassCanBeMadeBesideTheDriver(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: "efs.csi.aws.com",
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0", "directoryPerms": "700"},
	}
	env.Scene{Cluster: cluster, T: t}.Keep(class)
	version := class.ResourceVersion
	env.Quiet(t, operator)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	if class.ResourceVersion != version {
		t.Errorf("resource version %s, want %s: nobody may write to a StorageClass that is not ours", class.ResourceVersion, version)
	}
}

// removedTakesTheDriverAwayAndKeepsTheCR begins with a ClusterCSIDriver that was just set to Removed.
func removedTakesTheDriverAwayAndKeepsTheCR(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	env.Eventually(t, "driver removed", func() error {
		owned, err := cluster.OwnedMetadata(t.Context(), env.OperatorName)
		if err != nil || len(owned) > 0 {
			return fmt.Errorf("%d objects are left (%w)", len(owned), err)
		}
		return errors.Join(
			cluster.Condition(t.Context(), "Available", operatorv1.ConditionFalse),
			cluster.Condition(t.Context(), "Progressing", operatorv1.ConditionFalse),
			cluster.Condition(t.Context(), "Degraded", operatorv1.ConditionFalse))
	})
	requests := costOf(t, cluster, operator, func() error {
		_, err := cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", "efs.csi.aws.com", "example.com/note=x")
		return err
	})
	if len(requests) > 0 {
		t.Errorf("a driver that is removed costs requests:\n%s", env.Describe(requests))
	}
}

// unmanagedTouchesNothing leaves the driver Unmanaged, to be deleted.
func unmanagedTouchesNothing(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	setState(t, cluster, operatorv1.Unmanaged)
	env.Eventually(t, "state observed", func() error {
		return mentioned(t.Context(), cluster, "changes nothing while spec.managementState is Unmanaged")
	})
	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "set", "image", "daemonset/efs-csi-node", "csi-driver=registry.example/mine:1")
	env.Must(t, err)
	env.Quiet(t, operator)
	_, daemonSet := workloads(t, cluster)
	if image := daemonSet.Spec.Template.Spec.Containers[0].Image; image != "registry.example/mine:1" {
		env.Broken(t, "image %s: an unmanaged driver was touched", image)
	}
}

// A removal waits for pods that use volumes, and then for a finalizer that another program has set.
func removalWaitsForPodsThatUseVolumes(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	install(t, cluster)
	pod := useVolume(t, cluster)
	env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
	env.Eventually(t, "the removal says what it waits for", func() error {
		return errors.Join(
			cluster.Says(t.Context(), efsDriver, "Progressing", "", "default/app", "operator.openshift.io/force-driver-removal=true"),
			cluster.Condition(t.Context(), "Available", operatorv1.ConditionTrue))
	})
	// Somebody else deletes the DaemonSet meanwhile: that is no reason to let the rest go.
	_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "delete", "daemonset", "efs-csi-node")
	env.Must(t, err)
	env.Eventually(t, "the driver kept up while a pod uses it", func() error {
		owned, err := cluster.OwnedMetadata(t.Context(), env.OperatorName)
		if err == nil && len(owned) != allObjects {
			err = fmt.Errorf("%d of %d objects", len(owned), allObjects)
		}
		return err
	})
	hold := func(finalizers string) error { return setFinalizers(cluster, "daemonset", "efs-csi-node", finalizers) }
	env.Must(t, hold(`["example.com/hold"]`))
	_, err = cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", "efs.csi.aws.com", "operator.openshift.io/force-driver-removal=true")
	env.Must(t, err)
	env.Eventually(t, "the finalizer named", func() error {
		return cluster.Says(t.Context(), efsDriver, "Progressing", "", "efs-csi-node (held by example.com/hold")
	})
	env.Quiet(t, operator)
	owned, err := cluster.OwnedMetadata(t.Context(), env.OperatorName)
	env.Must(t, err)
	if len(owned) < 20 {
		t.Errorf("%d objects are left: RBAC and identities must stay until the node pods have gone", len(owned))
	}
	env.Must(t, hold(`[]`))
	env.Eventually(t, "the forced removal", func() error { return cluster.Gone(t.Context(), env.EFS("")) })
	uid := pod.UID
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if pod.UID != uid || pod.DeletionTimestamp != nil {
		t.Error("the application's pod was touched")
	}
}

// An operator of the same name may run in another namespace. Its finalizers are its own to drop, until it has gone.
func finalizersOfAnotherOperatorThatRunsAreLeftToIt(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	install(t, cluster)
	const legacy = "aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverNodeServiceController"
	other := predecessors.OpenShiftOperator("default")
	var deployment client.Object
	for _, object := range other {
		if _, is := object.(*appsv1.Deployment); is {
			deployment = object
			// What is not there when ours is asked has no RBAC.
			continue
		}
		env.Scene{Cluster: cluster, T: t}.Keep(object)
	}
	env.Scene{Cluster: cluster, T: t}.Keep(deployment)
	// The operator watches Deployments and the ClusterCSIDriver apart: it may see a change of one of them before an older change of the other.
	env.Eventually(t, "the other operator seen", func() error {
		return cluster.Says(t.Context(), efsDriver, "Progressing", "", "default/"+env.OperatorName)
	})
	cr := env.EFS("")
	env.Must(t, cluster.Client.Patch(t.Context(), cr, client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"`+legacy+`"}]`))))
	env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
	env.Eventually(t, "the driver removed, and our finalizer dropped", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		if len(cr.Finalizers) != 1 || cr.Finalizers[0] != legacy {
			return fmt.Errorf("finalizers %v", cr.Finalizers)
		}
		return nil
	})
	env.Quiet(t, operator)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	if len(owned) > 0 || len(cr.Finalizers) != 1 {
		t.Errorf("%d objects are left, finalizers %v", len(owned), cr.Finalizers)
	}
	env.Scene{Cluster: cluster, T: t}.Drop(deployment)
	env.Eventually(t, "ClusterCSIDriver gone", func() error { return cluster.Gone(t.Context(), env.EFS("")) })
}

func setState(t *testing.T, cluster *env.Cluster, state operatorv1.ManagementState) {
	t.Helper()
	cr := env.EFS("")
	patch := fmt.Sprintf(`{"spec":{"managementState":%q}}`, state)
	env.Must(t, cluster.Client.Patch(t.Context(), cr, env.Merge(patch)))
}

// setFinalizers replaces the finalizers of an object in the operator's namespace by a JSON list.
func setFinalizers(cluster *env.Cluster, kind, name, finalizers string) error {
	_, err := cluster.Kubectl(context.Background(), "-n", env.OperatorNamespace, "patch", kind, name,
		"--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`)
	return err
}

func convert(object any) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}
}

func aManagedObjectThatCanNotGoIsReported(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	hold := func(finalizers string) error {
		return setFinalizers(cluster, "service", "aws-efs-csi-driver-controller-metrics", finalizers)
	}
	env.Must(t, hold(`["example.com/hold"]`))
	service := find(t, cluster, damage{kind: "service", name: "aws-efs-csi-driver-controller-metrics"})
	env.Must(t, cluster.Client.Delete(t.Context(), service.DeepCopy()))
	env.Eventually(t, "the finalizer named", func() error {
		return cluster.Says(t.Context(), efsDriver, "AWSEFSDriverControlPlaneStaticResourcesControllerDegraded", "", "[example.com/hold]")
	})
	env.Must(t, hold(`[]`))
	env.Eventually(t, "the Service made again", func() error {
		live := service.DeepCopy()
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(service), live); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if live.GetUID() == service.GetUID() {
			return errors.New("it is still the old one")
		}
		return cluster.Settled(t.Context())
	})
}
