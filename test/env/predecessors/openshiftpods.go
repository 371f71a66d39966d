package predecessors

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// oldImage is one of an image of OpenShift.
func oldImage(name string) string { return "registry.example/openshift-" + name + ":4.16" }

func openShiftDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": controllerName}
	socket := corev1.VolumeMount{Name: "socket-dir", MountPath: "/var/lib/csi/sockets/pluginproxy/"}
	driver := openShiftContainer("csi-driver", "aws-efs-csi-driver", "--endpoint=$(CSI_ENDPOINT)", "--logtostderr",
		"--tags=kubernetes.io/cluster/old:owned", "--delete-access-point-root-dir=true", "--v=2")
	driver.Env = []corev1.EnvVar{
		{Name: "CSI_ENDPOINT", Value: "unix:///var/lib/csi/sockets/pluginproxy/csi.sock"},
		{Name: "AWS_SDK_LOAD_CONFIG", Value: "1"}, {Name: "AWS_CONFIG_FILE", Value: "/var/run/aws/auth/credentials"},
	}
	driver.Ports = []corev1.ContainerPort{{Name: "healthz", ContainerPort: 10302, HostPort: 10302, Protocol: corev1.ProtocolTCP}}
	driver.LivenessProbe = healthz("", 10, 10)
	driver.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	driver.VolumeMounts = append(credentialMounts(), socket, corev1.VolumeMount{Name: "log-dir", MountPath: "/var/log/amazon/efs"})
	provisioner := openShiftContainer("csi-provisioner", "csi-provisioner", "--csi-address=/var/lib/csi/sockets/pluginproxy/csi.sock",
		"--http-endpoint=localhost:8212", "--leader-election", "--leader-election-namespace="+namespace, "--feature-gates=Topology=true",
		"--extra-create-metadata=true", "--timeout=5m", "--worker-threads=1")
	provisioner.VolumeMounts = []corev1.VolumeMount{socket}
	proxy := openShiftContainer("provisioner-kube-rbac-proxy", "kube-rbac-proxy", "--secure-listen-address=0.0.0.0:9212",
		"--upstream=http://127.0.0.1:8212/", "--tls-cert-file=/etc/tls/private/tls.crt", "--tls-private-key-file=/etc/tls/private/tls.key")
	proxy.Ports = []corev1.ContainerPort{{Name: "provisioner-m", ContainerPort: 9212, HostPort: 9212, Protocol: corev1.ProtocolTCP}}
	proxy.VolumeMounts = []corev1.VolumeMount{{Name: "metrics-serving-cert", MountPath: "/etc/tls/private"}}
	probe := openShiftContainer("csi-liveness-probe", "livenessprobe", "--csi-address=/csi/csi.sock", "--health-port=10302", "--probe-timeout=3s")
	probe.VolumeMounts = []corev1.VolumeMount{{Name: "socket-dir", MountPath: "/csi"}}

	replicas, none, one := int32(2), intstr.FromInt32(0), intstr.FromInt32(1)
	volumes := append(credentialVolumes("aws-efs-cloud-credentials", false), emptyDir("socket-dir"), emptyDir("log-dir"))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllerName, Annotations: openShiftAnnotations()},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &one},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"openshift.io/required-scc": "privileged"}},
				Spec: corev1.PodSpec{
					HostNetwork: true, ServiceAccountName: controllerAccount, PriorityClassName: "system-cluster-critical",
					NodeSelector: map[string]string{"node-role.kubernetes.io/master": ""},
					Tolerations: []corev1.Toleration{
						{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
						{Key: "node-role.kubernetes.io/master", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
					},
					InitContainers: credentialsFile(), Containers: []corev1.Container{driver, provisioner, proxy, probe},
					Volumes: append(volumes, fromSecret("metrics-serving-cert", controllerName+"-metrics-serving-cert", false)),
				},
			},
		},
	}
}

func openShiftDaemonSet(namespace string) *appsv1.DaemonSet {
	labels := map[string]string{"app": OpenShiftDaemonSet}
	both, tenth := corev1.MountPropagationBidirectional, intstr.FromString("10%")
	driver := openShiftContainer("csi-driver", "aws-efs-csi-driver", "--endpoint=$(CSI_ENDPOINT)", "--logtostderr", "--v=2")
	driver.Env = []corev1.EnvVar{
		{Name: "CSI_ENDPOINT", Value: "unix:/csi/csi.sock"},
		{Name: "AWS_SDK_LOAD_CONFIG", Value: "1"}, {Name: "AWS_CONFIG_FILE", Value: "/var/run/aws/auth/credentials"},
	}
	driver.Ports = []corev1.ContainerPort{{Name: "healthz", ContainerPort: 10303, HostPort: 10303, Protocol: corev1.ProtocolTCP}}
	driver.LivenessProbe = healthz("127.0.0.1", 10, 10)
	driver.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	driver.VolumeMounts = append(credentialMounts(),
		corev1.VolumeMount{Name: "kubelet-dir", MountPath: "/var/lib/kubelet", MountPropagation: &both},
		corev1.VolumeMount{Name: "socket-dir", MountPath: "/csi"}, corev1.VolumeMount{Name: "efs-state-dir", MountPath: "/var/run/efs"},
		corev1.VolumeMount{Name: "efs-utils-config", MountPath: "/var/amazon/efs"},
		corev1.VolumeMount{Name: "efs-utils-config-legacy", MountPath: "/etc/amazon/efs-legacy"},
		corev1.VolumeMount{Name: "etc-amazon", MountPath: "/etc/amazon"}, corev1.VolumeMount{Name: "log-dir", MountPath: "/var/log/amazon/efs"},
		corev1.VolumeMount{Name: "etc-selinux", MountPath: "/etc/selinux"}, corev1.VolumeMount{Name: "sys-fs", MountPath: "/sys/fs"})
	registrar := openShiftContainer("csi-node-driver-registrar", "csi-node-driver-registrar", "--csi-address=/csi/csi.sock",
		"--kubelet-registration-path=/var/lib/kubelet/plugins/efs.csi.aws.com/csi.sock", "--http-endpoint=127.0.0.1:10305", "--v=2")
	// On the network of the host each port is one of the node. So is that of ours: two node pods never are on a node.
	registrar.Ports = []corev1.ContainerPort{{Name: "rhealthz", ContainerPort: 10305, HostPort: 10305, Protocol: corev1.ProtocolTCP}}
	// It removes the sockets by their names, also when they are those of another pod already.
	registrar.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{
		"rm", "-f", "/registration/efs.csi.aws.com-reg.sock", "/csi/csi.sock",
	}}}}
	registrar.VolumeMounts = []corev1.VolumeMount{{Name: "socket-dir", MountPath: "/csi"}, {Name: "registration-dir", MountPath: "/registration"}}
	probe := openShiftContainer("csi-liveness-probe", "livenessprobe", "--csi-address=/csi/csi.sock", "--http-endpoint=127.0.0.1:10303", "--v=2")
	probe.VolumeMounts = []corev1.VolumeMount{{Name: "socket-dir", MountPath: "/csi"}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: OpenShiftDaemonSet, Annotations: openShiftAnnotations()},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &tenth},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"openshift.io/required-scc": "privileged"}},
				Spec: corev1.PodSpec{
					HostNetwork: true, DNSPolicy: corev1.DNSDefault, ServiceAccountName: NodeAccount, PriorityClassName: "system-node-critical",
					NodeSelector:   map[string]string{corev1.LabelOSStable: "linux"},
					Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					InitContainers: credentialsFile(), Containers: []corev1.Container{driver, registrar, probe}, Volumes: openShiftVolumes(),
				},
			},
		},
	}
}

func openShiftVolumes() []corev1.Volume {
	return append(credentialVolumes("node-aws-efs-cloud-credentials", true),
		hostPath("kubelet-dir", "/var/lib/kubelet", corev1.HostPathDirectory),
		hostPath("socket-dir", "/var/lib/kubelet/plugins/efs.csi.aws.com/", corev1.HostPathDirectoryOrCreate),
		hostPath("registration-dir", "/var/lib/kubelet/plugins_registry/", corev1.HostPathDirectory),
		hostPath("device-dir", "/dev", corev1.HostPathDirectory),
		hostPath("etc-selinux", "/etc/selinux", corev1.HostPathDirectoryOrCreate),
		hostPath("sys-fs", "/sys/fs", corev1.HostPathDirectory),
		hostPath("efs-state-dir", "/var/run/efs", corev1.HostPathDirectoryOrCreate),
		hostPath("efs-utils-config", "/var/amazon/efs", corev1.HostPathDirectoryOrCreate),
		hostPath("efs-utils-config-legacy", "/etc/amazon/efs", corev1.HostPathDirectoryOrCreate),
		emptyDir("etc-amazon"), emptyDir("log-dir"),
		// Nothing makes this Secret and nothing mounts it.
		fromSecret("metrics-serving-cert", OpenShiftDaemonSet+"-metrics-serving-cert", false))
}

func openShiftAnnotations() map[string]string {
	annotations := specHash("9d41")
	annotations["config.openshift.io/inject-proxy-cabundle"] = "csi-driver"
	return annotations
}

func openShiftContainer(name, image string, args ...string) corev1.Container {
	privileged := true
	return corev1.Container{
		Name: name, Image: oldImage(image), ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          &corev1.SecurityContext{Privileged: &privileged, ReadOnlyRootFilesystem: &privileged},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("50Mi"),
		}},
	}
}

// credentialsFile is the init container that writes a file of what the Secret holds.
func credentialsFile() []corev1.Container {
	return []corev1.Container{{
		Name: "init-aws-credentials-file", Image: oldImage("tools"), Command: []string{"bash", "-c", "write the credentials file"},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "aws-keys", MountPath: "/var/run/aws/keys", ReadOnly: true}, {Name: "aws-auth", MountPath: "/var/run/aws/auth"},
		},
	}}
}

func credentialMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: "aws-auth", MountPath: "/var/run/aws/auth", ReadOnly: true},
		{Name: "bound-sa-token", MountPath: "/var/run/secrets/openshift/serviceaccount", ReadOnly: true},
	}
}

func credentialVolumes(secret string, optional bool) []corev1.Volume {
	return []corev1.Volume{
		fromSecret("aws-keys", secret, optional), emptyDir("aws-auth"),
		{Name: "bound-sa-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "openshift", Path: "token"}},
		}}}},
	}
}

func fromSecret(name, secret string, optional bool) corev1.Volume {
	source := &corev1.SecretVolumeSource{SecretName: secret}
	if optional {
		source.Optional = &optional
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}}
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}
