// Package watch has the only list of the objects that the operator of a driver watches. The caches, the events, the inventory and the operator's RBAC
// follow from this list.
//
// If a cluster can lack a kind, the kind must be Optional here. Otherwise the manager does not start in such a cluster. The operator watches an
// optional kind of the driver's objects only if the driver has such objects. The caches hold only hashes of Secrets, so code must not compare or
// print the content of a Secret.
package watch

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/kube"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Watched is one kind of objects whose events trigger reconciles. It also says which objects of the kind the manager caches.
type Watched struct {
	Object client.Object
	// Namespace is the namespace to watch. It is empty for cluster-scoped kinds.
	Namespace string
	// Others are the keys of single objects in other namespaces. The manager also caches these objects.
	Others []client.ObjectKey
	// ForeignTransform, if set, drops fields of Others that the operator does not need. It is set only if Others belong to OpenShift and so lack our
	// label.
	ForeignTransform toolscache.TransformFunc
	// Name, if set, selects one object of the kind. If Name is empty and All is true, every object is selected. If Name is empty and All is false, our
	// label selects the objects.
	Name string
	All  bool
	// Apps, if set, selects the objects by these values of the label app.
	Apps []string
	// Optional is the kind of Object if a cluster may lack this kind. It is empty for a kind that every cluster serves. The operator watches an
	// optional kind only if the cluster serves it.
	Optional schema.GroupKind
	// Transform, if set, drops fields that the operator does not need.
	Transform toolscache.TransformFunc
	// Matters, if set, reports whether an update triggers a delayed reconcile. If Matters is set, creations and deletions trigger no reconcile.
	Matters func(before, after client.Object) bool
	// Pending is true if Object is the CRD of a kind that the cluster does not serve yet. The operator restarts once the cluster serves the kind.
	Pending bool
}

// watches returns the only list of watches. The kinds that the operator applies are in the order in which it applies them.
func watches(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) []Watched {
	return append([]Watched{
		// The user's configuration.
		{Object: &operatorv1.ClusterCSIDriver{}, Name: d.Name},
		// The operator reads the cluster's name, topology and credentials mode from these objects.
		{Object: &configv1.Infrastructure{}, Name: openshift.Singleton, Optional: openshift.InfrastructureKind()},
		{Object: &operatorv1.CloudCredential{}, Name: openshift.Singleton, Optional: openshift.CloudCredentialKind()},
		// The operator reads the proxy and the TLS profile of servers from these objects.
		{Object: &configv1.Proxy{}, Name: openshift.Singleton, Optional: openshift.ProxyKind()},
		{Object: openshift.APIServer(), Name: openshift.Singleton, Optional: openshift.APIServerKind().GroupKind()},
		// The FeatureGate shows which fields the API server would drop. The operator omits these fields (Driver.Gates).
		{Object: &configv1.FeatureGate{}, Name: openshift.Singleton, Optional: openshift.FeatureGateKind()},
		// The operator applies these objects, and reverts changes by other clients.
		{Object: &corev1.ServiceAccount{}, Namespace: namespace},
		{Object: &rbacv1.ClusterRole{}},
		{Object: &rbacv1.Role{}, Namespace: namespace},
		{Object: &rbacv1.ClusterRoleBinding{}},
		{Object: &rbacv1.RoleBinding{}, Namespace: namespace},
		requests(d),
		configMaps(d, namespace, kinds),
		// The operator selects this object by name, because a selector of our label would hide a CSIDriver of another owner.
		{Object: &storagev1.CSIDriver{}, Name: d.Name},
		// The operator watches all StorageClasses, because its own class becomes the default only if no other class is the default.
		{Object: &storagev1.StorageClass{}, Name: d.StorageClass, All: d.StorageClass == ""},
		{Object: &corev1.Service{}, Namespace: namespace},
		{Object: &monitoringv1.ServiceMonitor{}, Namespace: namespace, Optional: driver.ServiceMonitorKind()},
		{Object: &policyv1.PodDisruptionBudget{}, Namespace: namespace},
		// The status reports the roll-out of these workloads.
		{Object: &appsv1.DaemonSet{}, Namespace: namespace},
		{Object: &appsv1.Deployment{}, Namespace: namespace},
		// The problems of these pods explain a stalled roll-out.
		{
			Object: &corev1.Pod{}, Namespace: namespace, Apps: apps(d),
			Transform: stripPod, Matters: changesHealth,
		},
	}, slices.Concat(derived(d, namespace), webhooks(d), Snapshots(d, kinds))...)
}

// apps returns the values that the label app has on the driver's pods.
func apps(d driver.Driver) []string {
	controllers, nodes := d.SelectorOf(driver.Controller)["app"], d.NodeApps()
	if d.MountsInPods {
		nodes = append(nodes, driver.ImagesOf(d.DaemonSet))
	}
	if slices.Contains(nodes, controllers) {
		return nodes
	}
	return append([]string{controllers}, nodes...)
}

// requests returns the watch of CredentialsRequests. The watch selects the CredentialsRequests that we create by our label. If the driver's
// CredentialsRequest comes from the OpenShift release payload, it lacks our label, and the watch selects it by name.
func requests(d driver.Driver) Watched {
	watched := Watched{
		Object: &cloudcredentialv1.CredentialsRequest{}, Namespace: cloudcredentialv1.Namespace, Optional: driver.CredentialsRequestKind(),
	}
	for _, credentials := range d.Credentials {
		if credentials.Payload {
			watched.Name = credentials.Request
		}
	}
	return watched
}

// derived returns the watch of the Secret of Driver.Derived. The watch selects the Secret by name, because the operator has no right to read other
// Secrets.
func derived(d driver.Driver, namespace string) []Watched {
	if d.Derived == nil {
		return nil
	}
	return []Watched{{Object: &corev1.Secret{}, Namespace: namespace, Name: d.Derived.Name, Transform: hashDerived}}
}

// webhooks returns the watch of the driver's webhook configuration. The watch selects the configuration by name.
func webhooks(d driver.Driver) []Watched {
	if d.Webhook == "" {
		return nil
	}
	return []Watched{{Object: &admissionv1.ValidatingWebhookConfiguration{}, Name: d.Webhook}}
}

// configMaps returns the watch of our ConfigMaps, and of single ConfigMaps in namespaces of OpenShift. A cache has only one selector for each
// namespace. So the cache can hold only one ConfigMap of each namespace of OpenShift.
func configMaps(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) Watched {
	watched := Watched{Object: &corev1.ConfigMap{}, Namespace: namespace}
	switch {
	case d.Derived != nil:
		watched.ForeignTransform = keepData
		for _, config := range d.Derived.ConfigMaps {
			watched.Others = append(watched.Others, config.ObjectKey)
		}
	case !kinds[openshift.InfrastructureKind()]:
	case d.CloudCAVariable != "":
		watched.Others, watched.ForeignTransform = []client.ObjectKey{CloudConfig()}, keepCloudCA
	default:
		watched.Others = []client.ObjectKey{{Namespace: driver.ManagedNamespace, Name: d.Dashboard()}}
	}
	return watched
}

// Snapshots returns the watch of VolumeSnapshotClasses, for drivers with snapshots. If the cluster does not serve VolumeSnapshotClasses yet, it
// returns the watch of their CRD.
func Snapshots(d driver.Driver, kinds map[schema.GroupKind]bool) []Watched {
	kind := driver.VolumeSnapshotClassKind()
	switch {
	case !slices.Contains(d.OptionalKinds(), kind):
		return nil
	case kinds[kind]:
		return []Watched{{Object: &snapshotv1.VolumeSnapshotClass{}, All: true, Optional: kind}}
	default:
		return []Watched{{Object: apply.CRD(), Name: snapshotv1.CRD, Pending: true}}
	}
}

// stripPod keeps only the fields that the status of a pod depends on.
func stripPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations = nil, nil
		kept := corev1.PodSpec{NodeName: pod.Spec.NodeName, ServiceAccountName: pod.Spec.ServiceAccountName}
		if pod.Spec.NodeName == "" {
			// The affinity contains the target node of a DaemonSet pod.
			kept.Affinity = pod.Spec.Affinity
		}
		pod.Spec = kept
		for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range containers {
				containers[i] = corev1.ContainerStatus{State: containers[i].State}
			}
		}
	}
	return object, nil
}

// changesHealth reports whether an update changes the problem of a pod. The creation or deletion of a pod needs no event here, because it also
// changes the status of the pod's workload, which the operator watches.
func changesHealth(before, after client.Object) bool {
	old, isPod := before.(*corev1.Pod)
	pod, stillPod := after.(*corev1.Pod)
	return !isPod || !stillPod || status.PodProblem(old) != status.PodProblem(pod)
}

// Served returns the list of watches without the kinds that this cluster does not serve.
func Served(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) []Watched {
	return slices.DeleteFunc(watches(d, namespace, kinds), func(watched Watched) bool {
		return watched.Optional != schema.GroupKind{} && !kinds[watched.Optional]
	})
}

// CacheOptions selects the part of each kind that the manager caches.
func CacheOptions(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) map[client.Object]cache.ByObject {
	options := map[client.Object]cache.ByObject{}
	for _, watched := range Served(d, namespace, kinds) {
		config := cache.ByObject{Transform: watched.Transform}
		switch {
		case watched.Name != "":
			config.Field = fields.OneTermEqualSelector("metadata.name", watched.Name)
		case len(watched.Apps) > 0:
			config.Label = driver.WithApp(watched.Apps...)
		case watched.All:
		default:
			config.Label = labels.SelectorFromSet(Labels(d))
		}
		if watched.Namespace != "" {
			config.Namespaces = map[string]cache.Config{watched.Namespace: {}}
		}
		for _, other := range watched.Others {
			one := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", other.Name)}
			if watched.ForeignTransform != nil {
				one.LabelSelector, one.Transform = labels.Everything(), watched.ForeignTransform
			}
			config.Namespaces[other.Namespace] = one
		}
		options[watched.Object] = config
	}
	return options
}

// SecretCaches returns a cache for each Secret of the driver. The caches hold only hashes. Each cache selects one name, because the operator has no
// right to read other Secrets.
func SecretCaches(manager ctrl.Manager, d driver.Driver, namespace string) (map[string]cache.Cache, error) {
	caches := map[string]cache.Cache{}
	for _, credentials := range d.Credentials {
		one, err := informer.NewCache(manager, "Secret "+credentials.Secret, map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Field:      fields.OneTermEqualSelector("metadata.name", credentials.Secret),
			Namespaces: map[string]cache.Config{namespace: {}},
			Transform:  HashSecret,
		}})
		if err != nil {
			return nil, err
		}
		caches[credentials.Secret] = one
	}
	return caches, nil
}

// Labels returns the labels that all objects of a driver have.
func Labels(d driver.Driver) labels.Set {
	return labels.Set{openshift.ManagedByLabel: d.Operator}
}

// OptionalKinds returns the kinds that some clusters do not serve, each with the version that the operator of a driver uses.
func OptionalKinds(d driver.Driver) map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{
		openshift.InfrastructureKind():        configv1.GroupVersion.Version,
		openshift.ProxyKind():                 configv1.GroupVersion.Version,
		openshift.APIServerKind().GroupKind(): configv1.GroupVersion.Version,
		openshift.CloudCredentialKind():       operatorv1.GroupVersion.Version,
		openshift.FeatureGateKind():           configv1.GroupVersion.Version,
	}
	for _, kind := range d.OptionalKinds() {
		kinds[kind] = "v1"
	}
	return kinds
}

// ServedKinds maps each of the OptionalKinds to true if the cluster serves the kind, and to false otherwise.
func ServedKinds(cluster kube.Preflight, d driver.Driver) (map[schema.GroupKind]bool, error) {
	found := map[schema.GroupKind]bool{}
	for kind, version := range OptionalKinds(d) {
		var err error
		if found[kind], err = cluster.Serves(kind, version); err != nil {
			return nil, err
		}
	}
	return found, nil
}
