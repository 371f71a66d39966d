package catalogue

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// deployment renders the operator's Deployment.
func (e Entry) deployment(folder fs.FS, values manifest.Values, scheme *runtime.Scheme, cfg Config) (*appsv1.Deployment, error) {
	loaded, err := manifest.LoadFile(folder, "assets/deployment.yaml", values, scheme)
	if err != nil {
		return nil, err
	}
	file := "assets/container-external.yaml"
	if e.Builtin {
		file = "assets/container-builtin.yaml"
	}
	container := corev1.Container{}
	if err := manifest.LoadInto(folder, file, values, &container); err != nil {
		return nil, err
	}
	if len(loaded) != 1 {
		return nil, fmt.Errorf("asset deployment.yaml has %d objects instead of one", len(loaded))
	}
	operator, ok := loaded[0].(*appsv1.Deployment)
	if !ok {
		return nil, fmt.Errorf("asset deployment.yaml: %T is not a Deployment", loaded[0])
	}
	pod := &operator.Spec.Template
	topology := cfg.Infrastructure.ControlPlaneTopology
	if !openshift.HasControlPlane(topology) {
		pod.Spec.Affinity = nil
	}
	openshift.OpenEgress(pod.Labels, topology)
	if e.Cloud {
		openshift.OpenAllEgress(pod.Labels)
	}
	container.Env = append(container.Env, e.environment(cfg)...)
	if !e.Builtin {
		e.startAsExternal(pod, &container)
	}
	pod.Spec.Containers = []corev1.Container{container}
	return operator, nil
}

// environment returns the environment variables of the operator's container.
func (e Entry) environment(cfg Config) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	variables := []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_UID", "metadata.uid"),
		{Name: "OPERATOR_IMAGE_VERSION", Value: cfg.Version},
		{Name: "OPERAND_IMAGE_VERSION", Value: cfg.Version},
	}
	for _, name := range slices.Sorted(maps.Keys(e.Images)) {
		variables = append(variables, corev1.EnvVar{Name: name, Value: cfg.Images[e.Images[name]]})
	}
	return append(variables, openshift.ProxyVariables(cfg.Proxy)...)
}

// startAsExternal adds what only an External operator needs.
func (e Entry) startAsExternal(pod *corev1.PodTemplateSpec, container *corev1.Container) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "operator-config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: e.Operator + "-config"}},
	}})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
	}})
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"})
}
