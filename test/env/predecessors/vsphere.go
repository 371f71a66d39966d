package predecessors

import (
	"cmp"
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
)

// VSphereImage is that of all containers of OpenShift's driver.
const VSphereImage = "quay.example/openshift/old:4.21"

// PutVSphere makes the driver of vSphere as OpenShift's operator has it (openshift/vmware-vsphere-csi-driver-operator 030ff0e3, assets): of the objects
// that ours renders, without our label. The sidecars have the roles of all drivers of the cluster, and the CSIDriver an annotation that says whose it
// is. Its ClusterCSIDriver is available, and has the conditions that only that operator writes.
func PutVSphere(ctx context.Context, cluster *env.Cluster, d driver.Driver, rendered []client.Object) error {
	by := client.FieldOwner(d.Operator)
	objects := []client.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: d.Obsolete.ConfigMaps[0]}, Data: map[string]string{"cloud.conf": "[Global]\n"},
	}}
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
			setImages(&typed.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			setImages(&typed.Spec.Template.Spec)
		case *storagev1.CSIDriver:
			metav1.SetMetaDataAnnotation(&typed.ObjectMeta, "csi.openshift.io/managed", "true")
		case *rbacv1.ClusterRoleBinding:
			typed.RoleRef.Name = cmp.Or(SharedRole(typed.Name), typed.RoleRef.Name)
		}
		objects = append(objects, object)
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
	for _, kind := range append([]string{"Available"}, d.LegacyConditions...) {
		cr.Status.Conditions = append(cr.Status.Conditions, operatorv1.OperatorCondition{
			Type: kind, Status: operatorv1.ConditionTrue, Reason: "AsExpected", LastTransitionTime: metav1.Now(),
		})
	}
	if err := cluster.Client.Status().Update(ctx, cr, by); err != nil {
		return fmt.Errorf("status of ClusterCSIDriver %s: %w", d.Name, err)
	}
	return nil
}

func setImages(pod *corev1.PodSpec) {
	for i := range pod.Containers {
		pod.Containers[i].Image = VSphereImage
	}
}
