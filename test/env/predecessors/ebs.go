package predecessors

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// What the EBS operator of OpenShift 4.5 calls itself and what it makes. OLM ran it anywhere, and it ran the driver in a namespace of
// the driver's own.
const (
	LegacyEBSOperator  = "aws-ebs-csi-driver-operator"
	LegacyEBSNamespace = "openshift-aws-ebs-csi-driver"
	EBSDriver          = "ebs.csi.aws.com"
	EBSNode            = "aws-ebs-csi-driver-node"
	EBSController      = "aws-ebs-csi-driver-controller"
)

// LegacyEBS is the EBS driver as OpenShift 4.5 ran it: its objects in the order in which they are made. First the objects that have no
// namespace.
func LegacyEBS() []client.Object {
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: LegacyEBSNamespace, Name: name}
	}
	const privileged, lease = "ebs-privileged-role", "aws-ebs-csi-driver-lease-leader-election"
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: LegacyEBSNamespace, Name: name}}
	}
	yes, no, filesystem := true, false, storagev1.FileFSGroupPolicy
	remove, late := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	return append([]client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: EBSDriver}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: &yes, PodInfoOnMount: &no, FSGroupPolicy: &filesystem,
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
		}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gp2-csi"}, Provisioner: EBSDriver, ReclaimPolicy: &remove, VolumeBindingMode: &late,
			AllowVolumeExpansion: &yes, Parameters: map[string]string{"type": "gp2", "encrypted": "true"},
		},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: privileged}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"},
			ResourceNames: []string{"privileged"}, Verbs: []string{"use"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "ebs-node-privileged-binding"}, Subjects: subject("aws-ebs-csi-driver-node-sa"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: privileged},
		},
		&corev1.ServiceAccount{ObjectMeta: in("aws-ebs-csi-driver-controller-sa")}, &corev1.ServiceAccount{ObjectMeta: in("aws-ebs-csi-driver-node-sa")},
		&rbacv1.Role{ObjectMeta: in(lease), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: in(lease), Subjects: subject("aws-ebs-csi-driver-controller-sa"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: lease},
		},
		&corev1.Secret{ObjectMeta: in("ebs-cloud-credentials"), StringData: map[string]string{"credentials": "not real"}},
		&corev1.Service{
			ObjectMeta: in(EBSController + "-metrics"),
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": EBSController}, Ports: []corev1.ServicePort{{Name: "m", Port: 443}}},
		},
	}, legacyEBSWorkloads()...)
}

func legacyEBSWorkloads() []client.Object {
	replicas := int32(1)
	template := func(app, account, argument string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": app}
		container := corev1.Container{
			Name: "csi-driver", Image: "registry.example/openshift-aws-ebs-csi-driver:4.5", Args: []string{argument, "--endpoint=unix:/csi/csi.sock"},
		}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: account, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Containers: []corev1.Container{container},
		}}
	}
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: LegacyEBSNamespace, Name: EBSNode}}
	daemonSet.Spec.Selector, daemonSet.Spec.Template = template(EBSNode, "aws-ebs-csi-driver-node-sa", "node")
	pod := &daemonSet.Spec.Template.Spec
	pod.HostNetwork, pod.PriorityClassName = true, "system-node-critical"
	pod.Volumes = []corev1.Volume{hostPath("socket-dir", "/var/lib/kubelet/plugins/ebs.csi.aws.com/", corev1.HostPathDirectoryOrCreate)}
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "socket-dir", MountPath: "/csi"}}
	pod.Containers[0].Ports = []corev1.ContainerPort{{Name: "healthz", ContainerPort: 10300, HostPort: 10300, Protocol: corev1.ProtocolTCP}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: LegacyEBSNamespace, Name: EBSController}}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector, deployment.Spec.Template = template(EBSController, "aws-ebs-csi-driver-controller-sa", "controller")
	return []client.Object{daemonSet, deployment}
}

// PutLegacyEBS makes the driver of OpenShift 4.5, as its operator did, and waits until it runs.
func PutLegacyEBS(ctx context.Context, c *env.Cluster) error {
	if err := c.Namespace(ctx, LegacyEBSNamespace); err != nil {
		return err
	}
	if err := c.Put(ctx, LegacyEBSOperator, LegacyEBS()...); err != nil {
		return err
	}
	return env.Await(ctx, "the legacy driver runs", func() error {
		daemonSet, deployment := &appsv1.DaemonSet{}, &appsv1.Deployment{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: LegacyEBSNamespace, Name: EBSNode}, daemonSet); err != nil {
			return err
		}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: LegacyEBSNamespace, Name: EBSController}, deployment); err != nil {
			return err
		}
		nodes := daemonSet.Status
		if nodes.DesiredNumberScheduled == 0 || nodes.NumberReady != nodes.DesiredNumberScheduled || deployment.Status.ReadyReplicas != 1 {
			return fmt.Errorf("%d of %d node pods and %d controllers are ready", nodes.NumberReady, nodes.DesiredNumberScheduled, deployment.Status.ReadyReplicas)
		}
		return nil
	})
}

// IsLegacyEBS is true for pods in the namespace that OpenShift 4.5 gave the driver.
func IsLegacyEBS(pod *corev1.Pod) bool { return pod.Namespace == LegacyEBSNamespace }

// SampleEBS looks at the EBS driver, and at the applications of projects.
func SampleEBS(budget int, projects ...string) *env.Sampler {
	return env.NewSampler(env.Sampled{
		Driver: EBSDriver, Controller: EBSController, Budget: budget, Projects: projects, IsOld: IsLegacyEBS,
		IsPlugin: func(pod *corev1.Pod) bool { return pod.Labels["app"] == EBSNode },
	})
}

// RemoveLegacyEBS deletes what may be left of the driver of OpenShift 4.5 in its namespace, which stays.
func RemoveLegacyEBS(ctx context.Context, c *env.Cluster) error {
	for _, object := range LegacyEBS() {
		if object.GetNamespace() == "" {
			continue
		}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove the legacy driver: %w", err)
		}
	}
	return env.Await(ctx, "no pods of the legacy driver", func() error {
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.InNamespace(LegacyEBSNamespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			if owner := metav1.GetControllerOf(&pods.Items[i]); owner == nil {
				// A hand-over that has not ended has left it.
				if err := c.Client.Delete(ctx, &pods.Items[i]); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d are left", len(pods.Items))
		}
		return nil
	})
}
