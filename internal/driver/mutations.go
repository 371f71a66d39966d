package driver

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

const (
	// proxyAnnotation on a workload lists the containers that talk to the cloud, separated by commas.
	proxyAnnotation = "config.openshift.io/inject-proxy"
	// trustedCAAnnotation lists the containers that get the cluster's CA certificates.
	trustedCAAnnotation = "config.openshift.io/inject-proxy-cabundle"
	// DependencyHashAnnotation is the prefix of pod annotations with the hash of a Secret or ConfigMap. A change of the hash restarts
	// the pods, which read the object only when they start.
	DependencyHashAnnotation = "operator.openshift.io/hash-of-"
	// TrustedCAKey is the key of the trusted CA bundle in its ConfigMap.
	TrustedCAKey = "ca-bundle.crt"
)

// standardMutations change the objects of every driver, before the driver's own mutations.
func (d Driver) standardMutations() []Mutation {
	return []Mutation{
		Mutate(d.setReplicas),
		Mutate(d.nameLeases),
		Mutate(d.selectPods),
		Mutate(d.selectControllers),
		MutatePods(d.placeController),
		MutatePods(openEgress),
		MutatePods(shortenGracePeriod),
		MutatePods(d.withholdSecrets),
		MutatePods(d.restrictController),
		MutatePods(dropHostPorts),
		MutatePods(addStartupProbes),
		Mutate(d.holdNodePods),
		MutatePods(d.avoidPredecessor),
		MutatePods(addProxy),
		MutatePods(d.addTrustedCA),
		Mutate(d.fillCloudCA),
		Mutate(requireDriver),
		MutatePods(d.addCloudCA),
		MutatePods(addInputs),
	}
}

// ReadNodes allows the node pods to read Nodes. Drivers need this permission if they read labels of their own Node, or can't reach the instance
// metadata. RBAC can't restrict the permission to the pod's own Node.
func ReadNodes(verbs ...string) Mutation {
	return Mutate(func(_ Config, role *rbacv1.ClusterRole) error {
		if strings.HasSuffix(role.Name, "-privileged-role") {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs})
		}
		return nil
	})
}

// Pods is the pod template of a workload.
type Pods struct {
	// Workload is empty for a Deployment or DaemonSet that is neither the controller nor the node pods.
	Workload Workload
	// Name is the name of the Deployment or DaemonSet.
	Name string
	// Annotations are the annotations of the workload itself, not of its pods.
	Annotations map[string]string
	Meta        *metav1.ObjectMeta
	Spec        *corev1.PodSpec
}

// MutatePods makes a Mutation for the pods of all workloads.
func MutatePods(change func(cfg Config, pods Pods) error) Mutation {
	return func(d Driver, cfg Config, object client.Object) error {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			return change(cfg, Pods{d.WorkloadOf(object), typed.Name, typed.Annotations, &typed.Spec.Template.ObjectMeta, &typed.Spec.Template.Spec})
		case *appsv1.DaemonSet:
			return change(cfg, Pods{d.WorkloadOf(object), typed.Name, typed.Annotations, &typed.Spec.Template.ObjectMeta, &typed.Spec.Template.Spec})
		default:
			return nil
		}
	}
}

// Container finds a container by its name.
func (p Pods) Container(name string) (*corev1.Container, error) {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("the %s pods have no container %q", p.Workload, name)
}

// each calls the function change for every container that an annotation of the workload lists.
func (p Pods) each(annotation string, change func(*corev1.Container)) error {
	if p.Annotations[annotation] == "" {
		return nil
	}
	for _, name := range strings.Split(p.Annotations[annotation], ",") {
		container, err := p.Container(strings.TrimSpace(name))
		if err != nil {
			return fmt.Errorf("annotation %s: %w", annotation, err)
		}
		change(container)
	}
	return nil
}

// addFile adds a volume with one key of a ConfigMap.
func (p Pods) addFile(volume, configMap, key, path string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Items: []corev1.KeyToPath{{Key: key, Path: path}},
		},
	}})
}

// withholdSecrets removes a Secret with optional credentials from the pods until the operator has checked the Secret's content. Without
// withholdSecrets, pods would mount any Secret of this name.
func (d Driver) withholdSecrets(cfg Config, pods Pods) error {
	for _, credentials := range d.Credentials {
		if !credentials.Optional || credentials.Workload != pods.Workload || cfg.DependencyHashes[pods.Workload][credentials.Secret] != "" {
			continue
		}
		pods.dropSecret(credentials.Secret)
	}
	return nil
}

// dropSecret removes the volumes and environment variables of a Secret.
func (p Pods) dropSecret(name string) {
	volumes := map[string]bool{}
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(volume corev1.Volume) bool {
		volumes[volume.Name] = volume.Secret != nil && volume.Secret.SecretName == name
		return volumes[volume.Name]
	})
	for i := range p.Spec.Containers {
		container := &p.Spec.Containers[i]
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return volumes[mount.Name] })
		container.Env = slices.DeleteFunc(container.Env, func(variable corev1.EnvVar) bool {
			return variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil && variable.ValueFrom.SecretKeyRef.Name == name
		})
	}
}

// runsAsController reports whether pods belong to the controller, or to a further Deployment.
func (d Driver) runsAsController(workload Workload, name string) bool {
	return workload == Controller || (workload == "" && slices.Contains(d.Deployments, name))
}

// setReplicas sets two replicas. It sets one replica if the topology is SingleReplica or unknown. Host ports allow only one controller pod on each
// node.
func (d Driver) setReplicas(cfg Config, deployment *appsv1.Deployment) error {
	if !d.runsAsController(d.WorkloadOf(deployment), deployment.Name) {
		return nil
	}
	topology := cfg.ControlPlaneTopology
	if topology == configv1.ExternalTopologyMode {
		topology = cfg.InfrastructureTopology
	}
	replicas := int32(2)
	if topology == configv1.SingleReplicaTopologyMode || topology == "" {
		// On a single node, a second pod would stay Pending.
		replicas = 1
	}
	deployment.Spec.Replicas = &replicas
	return nil
}

// placeController lets the controller run on workers, unless the operator knows that the control plane runs on nodes of the cluster. Without an
// Infrastructure, the cluster is not OpenShift, and the operator does not know where the control plane runs.
func (d Driver) placeController(cfg Config, pods Pods) error {
	if d.runsAsController(pods.Workload, pods.Name) && !openshift.HasControlPlane(cfg.ControlPlaneTopology) {
		pods.Spec.NodeSelector = nil
	}
	return nil
}

func openEgress(cfg Config, pods Pods) error {
	openshift.OpenEgress(pods.Meta.Labels, cfg.ControlPlaneTopology)
	return nil
}

// restrictController sets the security context that OpenShift's SCCs restricted-v2 and hostnetwork-v2 require.
func (d Driver) restrictController(_ Config, pods Pods) error {
	if d.PrivilegedController || !d.runsAsController(pods.Workload, pods.Name) {
		return nil
	}
	yes, no := true, false
	pods.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for _, containers := range [][]corev1.Container{pods.Spec.InitContainers, pods.Spec.Containers} {
		for i := range containers {
			containers[i].SecurityContext = &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
		}
	}
	return nil
}

// dropHostPorts removes the host ports of pods on the pod network.
func dropHostPorts(_ Config, pods Pods) error {
	if pods.Spec.HostNetwork {
		return nil
	}
	for i := range pods.Spec.Containers {
		for j := range pods.Spec.Containers[i].Ports {
			pods.Spec.Containers[i].Ports[j].HostPort = 0
		}
	}
	return nil
}

// startTime is the maximum time for the start of a container, in seconds. During this time, the kubelet may also pull the image of the sidecar that
// answers the probe.
const startTime = 150

// addStartupProbes adds startup probes, so that a pod becomes ready as soon as its containers serve. Without a startup probe, a readiness probe that
// comes too early delays the pod by a whole period. The kubelet probes readiness immediately after the startup probe, and liveness from then on
// (kubernetes v1.36.3, pkg/kubelet/prober/prober_manager.go UpdatePodStatus, worker.go doProbe).
//
// If the container refuses an attempt, the next attempt follows after the period. If an attempt hangs until its timeout, the next attempt follows at
// once (worker.go run). With half of the timeout as the period, a hanging driver gets at most twice startTime.
func addStartupProbes(_ Config, pods Pods) error {
	for i := range pods.Spec.Containers {
		container := &pods.Spec.Containers[i]
		if ready := container.ReadinessProbe; ready != nil {
			period := (max(1, ready.TimeoutSeconds) + 1) / 2
			container.StartupProbe = &corev1.Probe{
				ProbeHandler:  *ready.ProbeHandler.DeepCopy(),
				PeriodSeconds: period, TimeoutSeconds: ready.TimeoutSeconds, FailureThreshold: startTime / period,
			}
		}
	}
	return nil
}

// addProxy sets the proxy variables of containers that call the cloud. Some node pods also call the cloud, to look up mount targets.
func addProxy(cfg Config, pods Pods) error {
	return pods.each(proxyAnnotation, func(container *corev1.Container) {
		container.Env = append(container.Env, openshift.ProxyVariables(cfg.Proxy)...)
	})
}

// addTrustedCA mounts the CA certificates that the cluster trusts over the CA certificates of the image. It does nothing until the ConfigMap has CA
// certificates, because an empty mount would hide the image's certificates.
func (d Driver) addTrustedCA(cfg Config, pods Pods) error {
	if cfg.DependencyHashes[pods.Workload][d.TrustedCABundle()] == "" || pods.Annotations[trustedCAAnnotation] == "" {
		return nil
	}
	const name = "trusted-ca-bundle"
	pods.addFile(name, d.TrustedCABundle(), TrustedCAKey, "tls-ca-bundle.pem")
	return pods.each(trustedCAAnnotation, func(container *corev1.Container) {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: "/etc/pki/ca-trust/extracted/pem", ReadOnly: true,
		})
	})
}

// addInputs writes Config.DependencyHashes into the pod template, so that a change of a hash restarts the pods.
func addInputs(cfg Config, pods Pods) error {
	for name, hash := range cfg.DependencyHashes[pods.Workload] {
		metav1.SetMetaDataAnnotation(pods.Meta, DependencyHashAnnotation+name, hash)
	}
	return nil
}
