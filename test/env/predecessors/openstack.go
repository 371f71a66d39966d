package predecessors

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
)

// OpenStackImage is that of all containers of OpenShift's drivers.
const OpenStackImage = "quay.example/openshift/old:4.21"

// OpenStackConfigMaps are the ConfigMaps that the pods of a driver mount. All but the first one are optional.
func OpenStackConfigMaps(d driver.Driver) []client.Object {
	var found []client.Object
	for _, name := range d.Obsolete.ConfigMaps {
		found = append(found, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.OperandNamespace(env.OperatorNamespace), Name: name},
			Data:       map[string]string{"cloud.conf": "[Global]\n", "enable_topology": "true"},
		})
	}
	return found
}

// PutOpenStack makes a driver of OpenStack as OpenShift's operator has it (csi-operator f7f9dc59,
// assets/overlays/openstack-*/generated/standalone): of the objects that ours renders, without our label. The pods mount ConfigMaps, and the
// sidecars have the roles of all drivers of the cluster.
func PutOpenStack(ctx context.Context, cluster *env.Cluster, d driver.Driver, rendered []client.Object) error {
	by := client.FieldOwner(d.Operator)
	objects := OpenStackConfigMaps(d)
	for _, object := range rendered {
		name := object.GetName()
		if isOnlyOurs(object) || strings.Contains(name, "-csi-volumeattributesclass-reader-") || strings.HasSuffix(name, "-secret-reader") {
			continue
		}
		labels := object.GetLabels()
		delete(labels, openshift.ManagedByLabel)
		object.SetLabels(labels)
		switch typed := object.(type) {
		case *corev1.Secret:
			if d.Namespace == "" {
				continue
			}
			typed.StringData = map[string]string{"os-cloud": "openstack", "os-cloudsFile": "/etc/openstack/clouds.yaml", "os-useClouds": "true"}
		case *appsv1.Deployment:
			mountConfigMap(d, &typed.Spec.Template.Spec)
		case *appsv1.DaemonSet:
			mountConfigMap(d, &typed.Spec.Template.Spec)
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

// mountConfigMap lets pods have what ours have in a Secret, with images of theirs.
func mountConfigMap(d driver.Driver, pod *corev1.PodSpec) {
	for i := range pod.Volumes {
		if volume := &pod.Volumes[i]; volume.Secret != nil && volume.Secret.SecretName == d.Derived.Name {
			volume.VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: d.Obsolete.ConfigMaps[0]}, Optional: new(true),
			}}
		}
	}
	for i := range pod.Containers {
		pod.Containers[i].Image = OpenStackImage
		for j := range pod.Containers[i].Env {
			if from := pod.Containers[i].Env[j].ValueFrom; from != nil && from.SecretKeyRef != nil {
				pod.Containers[i].Env[j] = corev1.EnvVar{Name: pod.Containers[i].Env[j].Name, Value: "true"}
			}
		}
	}
}
