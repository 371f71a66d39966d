package collect

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// kind is a kind to read. A test checks that the list of kinds does not contain Secrets.
type kind struct {
	schema.GroupVersionKind
	// namespaced means that objects of the kind are in namespaces. everywhere means that collect reads such a kind in all namespaces, and not only in
	// the namespaces of drivers.
	namespaced, everywhere bool
}

// scope says where the archive is complete for the kind. For pods, the archive is complete only in the namespaces of drivers, because it has no pods
// without volumes from other namespaces.
func (k kind) scope() string {
	if k.Kind == "Pod" || k.namespaced && !k.everywhere {
		return mustgather.InNamespaces
	}
	return mustgather.Everywhere
}

func kinds() []kind {
	of := func(group, version, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
	}
	cluster := func(gvk schema.GroupVersionKind) kind { return kind{GroupVersionKind: gvk} }
	local := func(gvk schema.GroupVersionKind) kind { return kind{GroupVersionKind: gvk, namespaced: true} }
	everywhere := func(gvk schema.GroupVersionKind) kind {
		return kind{GroupVersionKind: gvk, namespaced: true, everywhere: true}
	}
	return []kind{
		cluster(of("operator.openshift.io", "v1", "ClusterCSIDriver")),
		cluster(of("operator.openshift.io", "v1", "Storage")),
		cluster(of("config.openshift.io", "v1", "ClusterOperator")),
		cluster(of("config.openshift.io", "v1", "ClusterVersion")),
		cluster(of("config.openshift.io", "v1", "Infrastructure")),
		cluster(of("config.openshift.io", "v1", "Proxy")),
		cluster(of("storage.k8s.io", "v1", "CSIDriver")),
		cluster(of("storage.k8s.io", "v1", "CSINode")),
		cluster(of("storage.k8s.io", "v1", "StorageClass")),
		cluster(of("storage.k8s.io", "v1", "VolumeAttachment")),
		cluster(of("", "v1", "PersistentVolume")),
		cluster(of("", "v1", "Node")),
		everywhere(of("", "v1", "PersistentVolumeClaim")),
		everywhere(of("aws-efs.managed.openshift.io", "v1alpha1", "SharedVolume")),
		everywhere(of("", "v1", "Pod")),
		everywhere(of("", "v1", "Event")),
		local(of("", "v1", "ServiceAccount")),
		local(of("apps", "v1", "DaemonSet")),
		local(of("apps", "v1", "Deployment")),
		local(of("coordination.k8s.io", "v1", "Lease")),
		everywhere(of("operators.coreos.com", "v1alpha1", "CatalogSource")),
		everywhere(of("operators.coreos.com", "v1alpha1", "Subscription")),
		local(of("operators.coreos.com", "v1alpha1", "ClusterServiceVersion")),
		local(of("operators.coreos.com", "v1alpha1", "InstallPlan")),
		local(of("operators.coreos.com", "v1", "OperatorGroup")),
		{GroupVersionKind: of("cloudcredential.openshift.io", "v1", "CredentialsRequest"), namespaced: true, everywhere: true},
	}
}

// isWanted reports whether an object belongs in the archive. collect reads some kinds in all namespaces. Of these kinds, the archive has only objects
// that concern volumes or drivers.
func isWanted(kind string, object map[string]any, namespacesOfDrivers []string) bool {
	namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace")
	switch {
	case kind == "Event":
		return isAboutVolumes(object, namespacesOfDrivers)
	case kind == "Subscription":
		return isOfDriver(object)
	case kind != "Pod" || slices.Contains(namespacesOfDrivers, namespace):
		return true
	}
	volumes, _, _ := unstructured.NestedSlice(object, "spec", "volumes")
	uses := slices.ContainsFunc(volumes, func(one any) bool {
		source, _ := one.(map[string]any)
		return source["persistentVolumeClaim"] != nil || source["ephemeral"] != nil || source["csi"] != nil
	})
	if uses {
		hideProgram(object)
	}
	return uses
}

// hideProgram removes the commands, arguments, environment variables and probes of the containers from an application's pod. It also removes the
// pod's annotations.
func hideProgram(pod map[string]any) {
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		containers, _, _ := unstructured.NestedSlice(pod, "spec", list)
		for _, one := range containers {
			if container, is := one.(map[string]any); is {
				for _, field := range []string{"env", "envFrom", "command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
					delete(container, field)
				}
			}
		}
		if len(containers) > 0 {
			_ = unstructured.SetNestedSlice(pod, containers, "spec", list)
		}
	}
	unstructured.RemoveNestedField(pod, "metadata", "annotations")
}

// isOfDriver reports whether a Subscription is for an operator of a driver.
func isOfDriver(subscription map[string]any) bool {
	name, _, _ := unstructured.NestedString(subscription, "spec", "name")
	return namesOf(all.Drivers())[name]
}

// namesOf returns the names of workloads that identify the namespaces of drivers.
func namesOf(drivers []driver.Driver) map[string]bool {
	names := map[string]bool{"cluster-storage-operator": true}
	for _, one := range drivers {
		names[one.DaemonSet], names[one.Deployment], names[one.Operator] = true, true, true
		for _, predecessor := range one.Predecessors {
			names[predecessor.DaemonSet], names[predecessor.Operator] = true, true
		}
	}
	delete(names, "")
	return names
}

// isAboutVolumes reports whether an event is in the namespace of a driver, is about a volume, or says why a pod does not exist or has no node. A test
// checks that isAboutVolumes returns true for all events that doctor understands.
func isAboutVolumes(event map[string]any, namespacesOfDrivers []string) bool {
	namespace, _, _ := unstructured.NestedString(event, "metadata", "namespace")
	about, _, _ := unstructured.NestedString(event, "involvedObject", "kind")
	reason, _, _ := unstructured.NestedString(event, "reason")
	return slices.Contains(namespacesOfDrivers, namespace) ||
		slices.Contains([]string{"FailedBinding", "FailedCreate", "FailedScheduling", "FileSystemResizeFailed"}, reason) ||
		slices.Contains([]string{"PersistentVolumeClaim", "PersistentVolume", "SharedVolume", "ClusterCSIDriver", "StorageClass"}, about) ||
		slices.ContainsFunc([]string{"Mount", "Attach", "Volume", "Provisioning"}, func(part string) bool { return strings.Contains(reason, part) })
}

// logFile is the log of a container.
type logFile struct {
	pod       *corev1.Pod
	container string
	previous  bool
}

// name returns the path of this log in the archive.
func (l logFile) name() string {
	name := l.container
	if l.previous {
		name += ".previous"
	}
	return path.Join("logs", l.pod.Namespace, l.pod.Name, name+".log")
}

// logsOf returns the logs of all containers, and the previous logs of restarted containers.
func logsOf(pods []corev1.Pod) []logFile {
	var files []logFile
	for i := range pods {
		pod := &pods[i]
		restarted := map[string]bool{}
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			restarted[status.Name] = status.RestartCount > 0
		}
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			files = append(files, logFile{pod: pod, container: container.Name})
			if restarted[container.Name] {
				files = append(files, logFile{pod: pod, container: container.Name, previous: true})
			}
		}
	}
	return files
}
