package program

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// outside returns the flags that an operator of this repository needs outside of a pod. Outside of a pod, the operator has no ServiceAccount file
// that names its namespace, and all programs share the ports of the machine. If a flag is given twice, the last one takes effect, so these flags come
// after the pod's own flags.
func outside(pod *corev1.Pod) []string {
	return []string{"--namespace=" + pod.Namespace, "--health-probe-bind-address=0", "--metrics-bind-address=0"}
}

// inside returns the names of flags that the process must not get. Such a flag names files that exist only in a pod.
func inside() []string { return []string{"metrics-cert-dir"} }

// arguments returns the arguments of the pod's process. It expands variables in the same way as a kubelet.
func (p Program) arguments(pod *corev1.Pod, environment map[string]string) []string {
	container := pod.Spec.Containers[0]
	given := container.Args
	if len(container.Command) > 0 {
		// The first word of the command is the program in the image.
		given = append(append([]string{}, container.Command[1:]...), container.Args...)
	}
	var all []string
	mapping := expansion.MappingFuncFor(environment)
	for _, argument := range given {
		all = append(all, expansion.Expand(argument, mapping))
	}
	if p.Foreign {
		return all
	}
	for _, name := range inside() {
		all = without(all, name)
	}
	return append(all, outside(pod)...)
}

// without removes a flag and its value. The value is in the same argument, or is the next argument.
func without(arguments []string, name string) []string {
	var kept []string
	for i := 0; i < len(arguments); i++ {
		flag, found := strings.CutPrefix(arguments[i], "-")
		flag = strings.TrimPrefix(flag, "-")
		switch {
		case found && flag == name:
			i++
		case found && strings.HasPrefix(flag, name+"="):
		default:
			kept = append(kept, arguments[i])
		}
	}
	return kept
}

// environment returns the variables of the container. If a variable's value is not known outside of a pod, it returns an error.
func environment(pod *corev1.Pod) (map[string]string, error) {
	container := pod.Spec.Containers[0]
	if len(container.EnvFrom) > 0 {
		return nil, fmt.Errorf("container %s has envFrom, which devcluster does not support", container.Name)
	}
	all := map[string]string{}
	mapping := expansion.MappingFuncFor(all)
	for _, variable := range container.Env {
		switch from := variable.ValueFrom; {
		case from == nil:
			all[variable.Name] = expansion.Expand(variable.Value, mapping)
		case from.FieldRef != nil:
			value, known := fields(pod)[from.FieldRef.FieldPath]
			if !known {
				return nil, fmt.Errorf("variable %s comes from field %s, which devcluster does not support", variable.Name, from.FieldRef.FieldPath)
			}
			all[variable.Name] = value
		default:
			return nil, fmt.Errorf("variable %s comes from a source that devcluster does not support: use a value or a field of the pod",
				variable.Name)
		}
	}
	return all, nil
}

func fields(pod *corev1.Pod) map[string]string {
	return map[string]string{
		"metadata.name":           pod.Name,
		"metadata.namespace":      pod.Namespace,
		"metadata.uid":            string(pod.UID),
		"spec.nodeName":           pod.Spec.NodeName,
		"spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP":            pod.Status.PodIP,
		"status.hostIP":           pod.Status.HostIP,
	}
}

// variables returns the whole environment of the process. Of the environment of devcluster, the process gets only PATH.
func variables(container map[string]string, home, kubeconfig string) []string {
	all := []string{
		"PATH=" + os.Getenv("PATH"), //nolint:forbidigo // Programs are found in the PATH.
		"HOME=" + home,
		// GORACE is for programs with the race detector. With these options, such a program exits at the first race, and does not sleep for a second when
		// it exits.
		"GORACE=halt_on_error=1 atexit_sleep_ms=20",
	}
	for name, value := range container {
		all = append(all, name+"="+value)
	}
	return append(all, "KUBECONFIG="+kubeconfig)
}
