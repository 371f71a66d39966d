package predecessors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
)

// AzureCloudConfig is the ConfigMap that the pods of both drivers of Azure mount.
func AzureCloudConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "azure-cloud-config"}, Data: map[string]string{"config": "{}"},
	}
}

// PutAzure makes a driver of Azure as OpenShift's operator has it (csi-operator f7f9dc59, assets/overlays/azure-*/generated/standalone): of the
// objects that ours renders, without our label. An init container merges the configuration, the sidecars have the roles of all drivers of the
// cluster, Azure File has an attacher, keeps keys of storage accounts and may use all Secrets. Its ClusterCSIDriver is available.
func PutAzure(ctx context.Context, cluster *env.Cluster, d driver.Driver, rendered []client.Object) error {
	by := client.FieldOwner(d.Operator)
	objects := []client.Object{AzureCloudConfig()}
	for _, object := range rendered {
		if isOnlyOurs(object) {
			continue
		}
		labels := object.GetLabels()
		delete(labels, openshift.ManagedByLabel)
		object.SetLabels(labels)
		switch typed := object.(type) {
		case *corev1.Secret:
			continue
		case *appsv1.Deployment:
			mergeInContainer(d, &typed.Spec.Template.Spec)
			addAttacher(&typed.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			mergeInContainer(d, &typed.Spec.Template.Spec)
		case *storagev1.StorageClass:
			delete(typed.Parameters, "storeAccountKey")
		case *rbacv1.ClusterRoleBinding:
			typed.RoleRef.Name = cmp.Or(SharedRole(typed.Name), typed.RoleRef.Name)
		}
		objects = append(objects, object)
	}
	for _, name := range d.Obsolete.ClusterRoles {
		objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete", "patch"},
		}}})
	}
	for _, name := range d.Obsolete.ClusterRoleBindings {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cmp.Or(SharedRole(name), d.Obsolete.ClusterRoles[0]),
			},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: d.ControllerServiceAccount()}},
		})
	}
	for _, object := range objects {
		if err := cluster.Client.Create(ctx, object, by); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("OpenShift's driver %s: %w", d.Name, err)
		}
	}
	cr := env.CR(d.Name, operatorv1.Managed)
	if err := cluster.Client.Create(ctx, cr); err != nil {
		return fmt.Errorf("ClusterCSIDriver %s: %w", d.Name, err)
	}
	for _, kind := range []string{"Available", d.ConditionPrefix + "DriverCSIConfigObserverControllerAvailable"} {
		cr.Status.Conditions = append(cr.Status.Conditions, operatorv1.OperatorCondition{
			Type: kind, Status: operatorv1.ConditionTrue, Reason: "AsExpected", LastTransitionTime: metav1.Now(),
		})
	}
	cr.Status.Conditions = append(cr.Status.Conditions, operatorv1.OperatorCondition{
		Type: azure.PredecessorCondition, Status: operatorv1.ConditionTrue, Reason: "Error", LastTransitionTime: metav1.Now(),
	})
	if err := cluster.Client.Status().Update(ctx, cr, by); err != nil {
		return fmt.Errorf("status of ClusterCSIDriver %s: %w", d.Name, err)
	}
	return nil
}

// shared are OpenShift's ClusterRoles for the sidecars of all drivers, by the end of the names of the bindings that each driver has.
var shared = map[string]string{
	"-csi-main-attacher-binding":                            "openshift-csi-main-attacher-role",
	"-csi-main-provisioner-binding":                         "openshift-csi-main-provisioner-role",
	"-csi-main-resizer-binding":                             "openshift-csi-main-resizer-role",
	"-csi-main-snapshotter-binding":                         "openshift-csi-main-snapshotter-role",
	"-csi-storageclass-reader-resizer-binding":              "openshift-csi-resizer-storageclass-reader-role",
	"-csi-volumeattributesclass-reader-provisioner-binding": "openshift-csi-provisioner-volumeattributesclass-reader-role",
	"-csi-volumeattributesclass-reader-resizer-binding":     "openshift-csi-resizer-volumeattributesclass-reader-role",
	"-csi-volumesnapshot-reader-provisioner-binding":        "openshift-csi-provisioner-volumesnapshot-reader-role",
}

// SharedRole is the ClusterRole that a binding of one driver names in OpenShift, and other drivers use too; empty if there is none.
func SharedRole(binding string) string {
	for ending, role := range shared {
		if strings.HasSuffix(binding, ending) {
			return role
		}
	}
	return ""
}

// isOnlyOurs tells whether OpenShift has no such object: roles of the sidecars of one driver, and what Azure File has of no use there.
func isOnlyOurs(object client.Object) bool {
	name := object.GetName()
	switch object.(type) {
	case *rbacv1.ClusterRole:
		return strings.Contains(name, "-csi-") && !strings.Contains(name, "-csi-driver-") || strings.HasPrefix(name, "azure-file-node-kube-rbac-proxy")
	case *rbacv1.ClusterRoleBinding:
		return strings.HasPrefix(name, "azure-file-csi-volumeattributesclass") || strings.HasPrefix(name, "azure-file-node-kube-rbac-proxy")
	}
	return false
}

// addAttacher gives a controller the sidecar if it has none.
func addAttacher(pod *corev1.PodSpec) {
	const name = "csi-attacher"
	if !slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool { return container.Name == name }) {
		pod.Containers = append(pod.Containers, corev1.Container{Name: name, Image: "quay.example/openshift/attacher:4.21"})
	}
}

// mergeInContainer lets pods make their configuration of a ConfigMap and a Secret.
func mergeInContainer(d driver.Driver, pod *corev1.PodSpec) {
	for i := range pod.Volumes {
		if volume := &pod.Volumes[i]; volume.Secret != nil && volume.Secret.SecretName == d.Derived.Name {
			volume.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	pod.Volumes = append(
		pod.Volumes,
		corev1.Volume{Name: "src-cloud-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: AzureCloudConfig().Name},
		}}},
		corev1.Volume{Name: "cloud-sa-volume", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: d.Credentials[0].Secret}}},
	)
	pod.InitContainers = append(pod.InitContainers, corev1.Container{
		Name: "azure-inject-credentials", Image: "quay.example/openshift/cloud-operator:4.21", Command: []string{"/azure-config-credentials-injector"},
	})
	for i := range pod.Containers {
		pod.Containers[i].Image = "quay.example/openshift/old:4.21"
	}
}
