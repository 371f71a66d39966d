// Package predecessors has what operators before this one have left in a cluster: the community's, OpenShift's of several versions, and
// operators that OLM installed. It also stands in for predecessors that still run.
package predecessors

import (
	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// What the community's operator calls itself and what it makes.
const (
	CommunityAccount    = "efs-csi-sa"
	CommunitySCC        = "efs-csi-scc"
	communityDriverName = "efs.csi.aws.com"
)

// Community is the driver as the community's operator installs it in a namespace: its objects in the order in which it makes
// them.
func Community(namespace string, crd types.UID) []client.Object {
	named := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: map[string]string{env.CommunityLabel: "true"},
			OwnerReferences: []metav1.OwnerReference{env.OfCRD(crd)},
		}
	}
	daemonSet := communityDaemonSet()
	daemonSet.ObjectMeta = named("efs-csi-node", namespace)
	constraints := communityConstraints(namespace)
	constraints.ObjectMeta = named(CommunitySCC, "")
	constraints.Annotations = map[string]string{"kubernetes.io/description": "for the node pods of the env.EFS driver"}
	remove, immediate := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: named(CommunityAccount, namespace)},
		constraints,
		daemonSet,
		&storagev1.CSIDriver{ObjectMeta: named(communityDriverName, ""), Spec: EFSDriverSpec()},
		&storagev1.StorageClass{
			ObjectMeta: named("efs-sc", ""), Provisioner: communityDriverName, ReclaimPolicy: &remove, VolumeBindingMode: &immediate,
		},
	}
}

// EFSDriverSpec is what all operators write into the CSIDriver.
func EFSDriverSpec() storagev1.CSIDriverSpec {
	no := false
	return storagev1.CSIDriverSpec{
		AttachRequired: &no, PodInfoOnMount: &no,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}
}

// communityConstraints allow everything.
func communityConstraints(namespace string) *securityv1.SecurityContextConstraints {
	yes := true
	return &securityv1.SecurityContextConstraints{
		AllowHostDirVolumePlugin: true, AllowHostIPC: true, AllowHostNetwork: true, AllowHostPID: true, AllowHostPorts: true,
		AllowPrivilegeEscalation: &yes, AllowPrivilegedContainer: true,
		AllowedCapabilities: []corev1.Capability{"*"}, AllowedUnsafeSysctls: []string{"*"}, SeccompProfiles: []string{"*"},
		Volumes:            []securityv1.FSType{securityv1.FSTypeAll},
		FSGroup:            securityv1.FSGroupStrategyOptions{Type: securityv1.FSGroupStrategyRunAsAny},
		RunAsUser:          securityv1.RunAsUserStrategyOptions{Type: securityv1.RunAsUserStrategyRunAsAny},
		SELinuxContext:     securityv1.SELinuxContextStrategyOptions{Type: securityv1.SELinuxStrategyRunAsAny},
		SupplementalGroups: securityv1.SupplementalGroupsStrategyOptions{Type: securityv1.SupplementalGroupsStrategyRunAsAny},
		Groups:             []string{"system:cluster-admins", "system:nodes", "system:masters"},
		Users:              []string{"system:admin", "system:serviceaccount:" + namespace + ":" + CommunityAccount},
	}
}

// communityDaemonSet runs on workers only. It has no update strategy of its own, no priority and no requests, and it keeps its
// tunnels and keys in the container.
func communityDaemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app": "efs-csi-node"}
	privileged, both := true, corev1.MountPropagationBidirectional
	plugin := corev1.Container{
		Name: "efs-plugin", Image: "registry.hub.docker.com/amazon/aws-efs-csi-driver:778131e", ImagePullPolicy: corev1.PullAlways,
		Args:            []string{"--endpoint=$(CSI_ENDPOINT)", "--logtostderr", "--v=5"},
		Env:             []corev1.EnvVar{{Name: "CSI_ENDPOINT", Value: "unix:/csi/csi.sock"}},
		Ports:           []corev1.ContainerPort{{Name: "healthz", ContainerPort: 9809, HostPort: 9809, Protocol: corev1.ProtocolTCP}},
		LivenessProbe:   healthz("", 10, 2),
		SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "kubelet-dir", MountPath: "/var/lib/kubelet", MountPropagation: &both},
			{Name: "plugin-dir", MountPath: "/csi"}, {Name: "efs-state-dir", MountPath: "/var/run/efs"},
		},
	}
	registrar := corev1.Container{
		Name: "csi-driver-registrar", Image: "quay.io/k8scsi/csi-node-driver-registrar:v1.3.0", ImagePullPolicy: corev1.PullAlways,
		Args: []string{"--csi-address=$(ADDRESS)", "--kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)", "--v=5"},
		Env: []corev1.EnvVar{
			{Name: "ADDRESS", Value: "/csi/csi.sock"},
			{Name: "DRIVER_REG_SOCK_PATH", Value: "/var/lib/kubelet/plugins/efs.csi.aws.com/csi.sock"},
			{Name: "KUBE_NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "plugin-dir", MountPath: "/csi"}, {Name: "registration-dir", MountPath: "/registration"}},
	}
	probe := corev1.Container{
		Name: "liveness-probe", Image: "quay.io/k8scsi/livenessprobe:v2.0.0", ImagePullPolicy: corev1.PullAlways,
		Args:         []string{"--csi-address=/csi/csi.sock", "--health-port=9809"},
		VolumeMounts: []corev1.VolumeMount{{Name: "plugin-dir", MountPath: "/csi"}},
	}
	return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: CommunityAccount, HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet,
				NodeSelector: map[string]string{
					corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "node-role.kubernetes.io/worker": "",
				},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers:  []corev1.Container{plugin, registrar, probe},
				Volumes: []corev1.Volume{
					hostPath("kubelet-dir", "/var/lib/kubelet", corev1.HostPathDirectory),
					hostPath("registration-dir", "/var/lib/kubelet/plugins_registry/", corev1.HostPathDirectory),
					hostPath("plugin-dir", "/var/lib/kubelet/plugins/efs.csi.aws.com/", corev1.HostPathDirectoryOrCreate),
					hostPath("efs-state-dir", "/var/run/efs", corev1.HostPathDirectoryOrCreate),
				},
			},
		},
	}}
}

// CommunityOperator is the community's operator itself. Its account may do nearly everything, and its fake pods do nothing.
func CommunityOperator(namespace string) []client.Object {
	all := []string{"*"}
	return oldOperator(namespace, env.CommunityName, env.CommunityName, "quay.io/app-sre/aws-efs-operator:9c87267", []rbacv1.PolicyRule{
		{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: all, Verbs: all},
		{APIGroups: []string{""}, Verbs: all, Resources: []string{
			"pods", "services", "persistentvolumes", "persistentvolumeclaims", "events", "configmaps", "secrets", "serviceaccounts",
		}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "daemonsets", "replicasets", "statefulsets"}, Verbs: all},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers", "storageclasses"}, Verbs: all},
		{APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"}, Verbs: all},
	})
}

// oldOperator is a Deployment, its account and what this may do in the whole cluster.
func oldOperator(namespace, name, role, image string, rules []rbacv1.PolicyRule) []client.Object {
	labels := map[string]string{"name": name}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						ServiceAccountName: name, Containers: []corev1.Container{{Name: name, Image: image}},
					},
				},
			},
		},
	}
}

// healthz asks a container how it is, on one address of the node or on all.
func healthz(host string, delay, period int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: host, Path: "/healthz", Port: intstr.FromString("healthz"),
		}},
		InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: 3, FailureThreshold: 5,
	}
}

func hostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}
