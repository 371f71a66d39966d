package predecessors

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// LegacyVersion is the release of OpenShift whose operators LegacyCSO leaves behind.
const LegacyVersion = "4.20.0"

// LegacyCSO is what OpenShift's own cluster-storage-operator and its operator of EBS have made, without their reports, in the order in
// which it is made.
func LegacyCSO() []client.Object {
	const operator = LegacyEBSOperator
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: name}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: operator}}
	refer := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}}
	yes, no, file := true, false, storagev1.FileFSGroupPolicy
	remove, late := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	return append([]client.Object{
		&corev1.ServiceAccount{ObjectMeta: in(operator)},
		&rbacv1.Role{ObjectMeta: in(operator + "-role"), Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: in(operator + "-rolebinding"), Subjects: subjects, RoleRef: refer("Role", operator+"-role")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: operator + "-clusterrole"}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: operator + "-clusterrolebinding"}, Subjects: subjects,
			RoleRef: refer("ClusterRole", operator+"-clusterrole"),
		},
		env.CR(EBSDriver, operatorv1.Managed),
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: EBSDriver, Annotations: map[string]string{"csi.openshift.io/managed": "true"}},
			Spec: storagev1.CSIDriverSpec{
				AttachRequired: &yes, PodInfoOnMount: &no, FSGroupPolicy: &file, SELinuxMount: &yes,
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
			},
		},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gp3-csi", Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": "true",
			}},
			Provisioner: EBSDriver, ReclaimPolicy: &remove, VolumeBindingMode: &late,
			AllowVolumeExpansion: &yes, Parameters: map[string]string{"type": "gp3", "encrypted": "true"},
		},
		&corev1.ConfigMap{ObjectMeta: in("aws-ebs-csi-driver-trusted-ca-bundle"), Data: map[string]string{"ca-bundle.crt": "not real"}},
		&corev1.ServiceAccount{ObjectMeta: in(EBSController + "-sa")}, &corev1.ServiceAccount{ObjectMeta: in(EBSNode + "-sa")},
		legacyOperatorOfEBS(in(operator)),
	}, legacyWorkloadsOfEBS(in)...)
}

// legacyOperatorOfEBS rolls out with an overlap, unlike ours. Its image is no program.
func legacyOperatorOfEBS(meta metav1.ObjectMeta) *appsv1.Deployment {
	labels, replicas := map[string]string{"name": meta.Name}, int32(1)
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: meta.Name,
			Containers: []corev1.Container{{
				Name: meta.Name, Image: "quay.example/openshift/" + meta.Name + ":" + LegacyVersion, Args: []string{"start", "-v=2"},
			}},
		}},
	}}
}

func legacyWorkloadsOfEBS(in func(string) metav1.ObjectMeta) []client.Object {
	template := func(app string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": app}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: app + "-sa", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "csi-driver", Image: "quay.example/openshift/aws-ebs-csi-driver:" + LegacyVersion}},
		}}
	}
	replicas := int32(2)
	deployment, daemonSet := &appsv1.Deployment{ObjectMeta: in(EBSController)}, &appsv1.DaemonSet{ObjectMeta: in(EBSNode)}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector, deployment.Spec.Template = template(EBSController)
	daemonSet.Spec.Selector, daemonSet.Spec.Template = template(EBSNode)
	daemonSet.Spec.Template.Spec.HostNetwork = true
	return []client.Object{deployment, daemonSet}
}

// PutLegacyCSO makes all of LegacyCSO, waits until it runs, and puts the reports of OpenShift's operators: everything is well, but for
// conditions that were left as they were when their controllers ended.
func PutLegacyCSO(ctx context.Context, c *env.Cluster) error {
	if err := errors.Join(c.Namespace(ctx, env.CSONamespace), c.Namespace(ctx, env.OperatorNamespace)); err != nil {
		return err
	}
	if err := c.Put(ctx, env.CSO, LegacyCSO()...); err != nil {
		return err
	}
	err := env.Await(ctx, "the driver of OpenShift runs", func() error {
		daemonSet, deployment := &appsv1.DaemonSet{}, &appsv1.Deployment{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: EBSNode}, daemonSet); err != nil {
			return err
		}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: EBSController}, deployment); err != nil {
			return err
		}
		nodes := daemonSet.Status
		if nodes.DesiredNumberScheduled == 0 || nodes.NumberReady != nodes.DesiredNumberScheduled || deployment.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d of %d node pods and %d controllers are ready", nodes.NumberReady, nodes.DesiredNumberScheduled, deployment.Status.ReadyReplicas)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return putLegacyReports(ctx, c)
}

func putLegacyReports(ctx context.Context, c *env.Cluster) error {
	driver := env.CR(EBSDriver, "")
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(driver), driver); err != nil {
		return err
	}
	driver.Status.Conditions = legacyConditions(
		"AWSEBSDriverControllerServiceControllerAvailable", "AWSEBSDriverNodeServiceControllerAvailable",
	)
	driver.Status.Conditions = append(driver.Status.Conditions, legacyDenials(
		"AWSEBSDriverControllerServiceControllerProgressing", "AWSEBSDriverControllerServiceControllerDegraded",
		"AWSEBSDriverNodeServiceControllerProgressing", "AWSEBSDriverNodeServiceControllerDegraded",
		"AWSEBSDriverControlPlaneStaticResourcesControllerDegraded", "StorageClassControllerDegraded", "ManagementStateDegraded",
	)...)
	conditions := append(legacyConditions(append([]string{"VolumeDataSourceValidatorDeploymentControllerProgressing"}, legacyHealthy()...)...),
		legacyDenials(LegacyStale()[1:]...)...)
	return putReports(ctx, c, driver, append(conditions, legacyDenials(
		"AWSEBSCSIDriverOperatorCRProgressing", "AWSEBSCSIDriverOperatorCRDegraded", "DefaultStorageClassControllerProgressing",
		"DefaultStorageClassControllerDegraded", "CSIDriverStarterDegraded", "ManagementStateDegraded",
	)...))
}

// PutVSphereDisabled puts the reports of OpenShift's operators in a cluster whose vCenter never answered them: they installed no driver, and are well
// (openshift/vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/vspherecontroller/vspherecontroller.go, updateConditions).
func PutVSphereDisabled(ctx context.Context, c *env.Cluster) error {
	const why = "Failed to connect to vSphere: no such host"
	driver := env.CR("csi.vsphere.vmware.com", operatorv1.Managed)
	if err := c.Client.Create(ctx, driver); err != nil {
		return fmt.Errorf("ClusterCSIDriver %s: %w", driver.Name, err)
	}
	told := func(kind string, status operatorv1.ConditionStatus, reason string) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: kind, Status: status, Reason: reason, Message: why, LastTransitionTime: metav1.Now()}
	}
	driver.Status.Conditions = append(legacyDenials("VMwareVSphereOperatorCheckDegraded", "VMwareVSphereControllerDegraded"),
		told("VMwareVSphereControllerDisabled", operatorv1.ConditionTrue, ""),
		told("VMwareVSphereControllerUpgradeable", operatorv1.ConditionUnknown, "vsphere_connection_failed"))
	return putReports(ctx, c, driver, append(legacyDenials("VSphereCSIDriverOperatorCRProgressing", "VSphereCSIDriverOperatorCRDegraded"),
		told("VSphereCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "DriverDisabled"),
		told("VSphereCSIDriverOperatorCRUpgradeable", operatorv1.ConditionUnknown, "vsphere_connection_failed")))
}

// putReports puts the status of a driver, of the Storage, and of a ClusterOperator that is well.
func putReports(ctx context.Context, c *env.Cluster, driver *operatorv1.ClusterCSIDriver, conditions []operatorv1.OperatorCondition) error {
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	storage.Spec.ManagementState = operatorv1.Managed
	if err := c.Client.Create(ctx, storage, client.FieldOwner(env.VersionOperator)); err != nil {
		return err
	}
	storage.Status.Conditions = conditions
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}
	if err := c.Client.Create(ctx, operator, client.FieldOwner(env.VersionOperator)); err != nil {
		return err
	}
	now := metav1.Now()
	for kind, state := range map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
		configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorProgressing: configv1.ConditionFalse,
		configv1.OperatorDegraded: configv1.ConditionFalse, configv1.OperatorUpgradeable: configv1.ConditionTrue,
	} {
		operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
			Type: kind, Status: state, Reason: "AsExpected", LastTransitionTime: now,
		})
	}
	operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: LegacyVersion}}
	for _, object := range []client.Object{driver, storage, operator} {
		if err := c.Client.Status().Update(ctx, object, client.FieldOwner(env.CSO)); err != nil {
			return fmt.Errorf("report as OpenShift's operators in %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// LegacyStale are conditions in the Storage that only OpenShift's operator writes. The first was left True.
func LegacyStale() []string {
	return []string{
		"VolumeDataSourceValidatorDeploymentControllerProgressing", "VolumeDataSourceValidatorDeploymentControllerDegraded",
		"VolumeDataSourceValidatorStarterDegraded", "AWSEBSProgressing", "AWSEBSCSIDriverOperatorDegraded", "ConfigObservationDegraded",
		"SELinuxMountGAReadinessControllerDegraded",
	}
}

func legacyHealthy() []string {
	return []string{"AWSEBSCSIDriverOperatorCRAvailable", "AWSEBSCSIDriverOperatorCRUpgradeable", "DefaultStorageClassControllerAvailable"}
}

func legacyConditions(types ...string) []operatorv1.OperatorCondition {
	return conditionsWith(operatorv1.ConditionTrue, types)
}

func legacyDenials(types ...string) []operatorv1.OperatorCondition {
	return conditionsWith(operatorv1.ConditionFalse, types)
}

func conditionsWith(status operatorv1.ConditionStatus, types []string) []operatorv1.OperatorCondition {
	var conditions []operatorv1.OperatorCondition
	for _, kind := range types {
		conditions = append(conditions, operatorv1.OperatorCondition{Type: kind, Status: status, Reason: "AsExpected", LastTransitionTime: metav1.Now()})
	}
	return conditions
}
