package driver

import (
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

// ManagedNamespace is the namespace in which OpenShift publishes configuration for all programs. The dashboards for OpenShift's console are also in
// this namespace.
const ManagedNamespace = "openshift-config-managed"

// Dashboard returns the name of the ConfigMap with the driver's dashboard.
func (d Driver) Dashboard() string { return d.Prefix + "-dashboard" }

// TokenPath is the mount path of the ServiceAccount token for STS.
const TokenPath = "/var/run/secrets/openshift/serviceaccount/token"

// CredentialsRequestKind returns the kind that asks the cloud-credential-operator for a Secret.
func CredentialsRequestKind() schema.GroupKind {
	return schema.GroupKind{Group: cloudcredentialv1.GroupVersion().Group, Kind: "CredentialsRequest"}
}

// ServiceMonitorKind returns the kind of the objects from which Prometheus learns what to scrape.
func ServiceMonitorKind() schema.GroupKind {
	return schema.GroupKind{Group: monitoringv1.SchemeGroupVersion.Group, Kind: monitoringv1.ServiceMonitorsKind}
}

// VolumeSnapshotClassKind returns the kind of classes of snapshots. Clusters without snapshots do not serve it.
func VolumeSnapshotClassKind() schema.GroupKind {
	return schema.GroupKind{Group: snapshotv1.GroupVersion().Group, Kind: "VolumeSnapshotClass"}
}

// OptionalKinds returns the kinds that not every cluster serves. Render returns objects of such a kind only if Config.Kinds has the kind.
func OptionalKinds() []schema.GroupKind {
	return []schema.GroupKind{CredentialsRequestKind(), ServiceMonitorKind(), VolumeSnapshotClassKind()}
}

// OptionalKinds returns the optional kinds that this driver can use: the kinds of its objects, and kind CredentialsRequest if the driver has
// credentials.
func (d Driver) OptionalKinds() []schema.GroupKind {
	kinds := []schema.GroupKind{ServiceMonitorKind()}
	if len(d.Credentials) > 0 {
		kinds = append(kinds, CredentialsRequestKind())
	}
	if slices.ContainsFunc(d.Sidecars, func(sidecar Sidecar) bool { return sidecar.Needs == VolumeSnapshotClassKind() }) {
		kinds = append(kinds, VolumeSnapshotClassKind())
	}
	return kinds
}

// Render returns every object of the driver in the order of applying. After an error, the caller must apply nothing.
func (d Driver) Render(scheme *runtime.Scheme, cfg Config) ([]client.Object, error) {
	if err := d.CheckImages(cfg.Images, cfg.Settings); err != nil {
		return nil, err
	}
	if err := d.checkSettings(cfg.Settings); err != nil {
		return nil, err
	}
	cfg, _ = d.accepted(cfg)
	values := d.values(cfg)
	d = d.without(cfg)
	objects, err := d.load(cfg, values, scheme)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Name, err)
	}
	if err := d.addSidecars(cfg, values, objects); err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Name, err)
	}
	d.addMetrics(cfg.Namespace, objects)
	requests, err := d.credentials(cfg, values, scheme)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Name, err)
	}
	objects = append(objects, requests...)
	if d.Derived != nil {
		// Only the operator knows the content of the Secret.
		objects = append(objects, d.Derived.Secret(cfg.Namespace))
	}
	objects = append(objects, d.cloudClasses(cfg)...)
	objects = d.wanted(served(objects, cfg), cfg)
	chooseDefaults(cfg, objects)
	if err := d.mutate(cfg, objects); err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Name, err)
	}
	manifest.Label(objects, openshift.ManagedByLabel, d.Operator)
	for _, object := range objects {
		if rank(object) < 0 {
			return nil, fmt.Errorf("render %s: the order in which to apply objects does not contain kind %s", d.Name, kindOf(object))
		}
	}
	sort.SliceStable(objects, func(i, j int) bool { return rank(objects[i]) < rank(objects[j]) })
	return objects, nil
}

// Everything renders every object that the driver can ever have, for callers that only need names.
func (d Driver) Everything(scheme *runtime.Scheme, namespace string, settings map[string]string) ([]client.Object, error) {
	cfg := Config{Namespace: namespace, ServingCertificates: true, Kinds: map[schema.GroupKind]bool{}, RoleARNs: map[string]string{}}
	cfg.Settings = settings
	cfg.Images = map[string]string{}
	for _, name := range d.Images() {
		cfg.Images[name] = "any"
	}
	for _, kind := range OptionalKinds() {
		cfg.Kinds[kind] = true
	}
	d.Wanted = nil
	cfg.Classes = []Class{{Kind: storageClass, Name: d.StorageClass}}
	cfg.CloudCA = "any"
	for _, credentials := range d.Credentials {
		cfg.RoleARNs[credentials.RoleARNVariable] = "any"
	}
	return d.Render(scheme, cfg)
}

// values returns the placeholders of the assets, with their values.
func (d Driver) values(cfg Config) manifest.Values {
	values := manifest.Values{
		"DRIVER_NAME":  d.Name,
		"PREFIX":       d.Prefix,
		"SHORT_PREFIX": d.ShortPrefix,
		"DAEMONSET":    d.DaemonSet,
		"DEPLOYMENT":   d.Deployment,
		"NAMESPACE":    cfg.Namespace,
		"LOG_LEVEL":    fmt.Sprint(LogVerbosity(cfg.Spec.LogLevel)),
		// These are OpenShift's values. With them, a leader survives a minute without an API server. On a single node, a restart of the control plane takes
		// longer, so the values below are larger.
		"LEADER_ELECTION_LEASE_DURATION": "137s",
		"LEADER_ELECTION_RENEW_DEADLINE": "107s",
		"LEADER_ELECTION_RETRY_PERIOD":   "26s",
	}
	if cfg.ControlPlaneTopology == configv1.SingleReplicaTopologyMode {
		values["LEADER_ELECTION_LEASE_DURATION"] = "270s"
		values["LEADER_ELECTION_RENEW_DEADLINE"] = "240s"
		values["LEADER_ELECTION_RETRY_PERIOD"] = "60s"
	}
	for _, sidecar := range d.Sidecars {
		if sidecar.Name == livenessProbe {
			values[strings.ToUpper(string(sidecar.Workload))+"_HEALTH_PORT"] = fmt.Sprint(sidecar.HealthPort)
		}
	}
	// The values have only the images that the driver declares, so that a placeholder for any other image is an error.
	for _, name := range d.Images() {
		values[name] = cfg.Images[name]
	}
	return values
}

// load renders the objects that all drivers have, the objects of the sidecars, and the driver's own objects.
func (d Driver) load(cfg Config, values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	var folders []string
	if d.PrivilegedController {
		folders = append(folders, "privileged")
	}
	folders = append(folders, "objects")
	if d.usesCloudCA(cfg) {
		folders = append(folders, "cloudca")
	}
	var objects []client.Object
	add := func(loaded []client.Object, err error) error {
		objects = append(objects, loaded...)
		return err
	}
	for _, folder := range folders {
		if err := add(loadFolder(shared, "assets/"+folder, values, scheme)); err != nil {
			return nil, err
		}
	}
	if cfg.metrics() {
		if err := add(d.metricsObjects(values, scheme)); err != nil {
			return nil, err
		}
	}
	for _, sidecar := range d.Sidecars {
		if err := add(sidecar.objects(values, scheme)); err != nil {
			return nil, err
		}
	}
	if err := add(loadFolder(d.Assets, "assets", values, scheme)); err != nil {
		return nil, err
	}
	if _, err := fs.Stat(d.Assets, "assets/metrics"); err != nil || !cfg.metrics() {
		return objects, nil //nolint:nilerr // Not every driver has a dashboard.
	}
	return objects, add(loadFolder(d.Assets, "assets/metrics", values, scheme))
}

// loadFolder renders one folder of assets. A missing folder is an error, because the operator would prune all objects that it does not render.
func loadFolder(assets fs.FS, name string, values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	if _, err := fs.Stat(assets, name); err != nil {
		return nil, fmt.Errorf("assets: %w", err)
	}
	folder, err := fs.Sub(assets, name)
	if err != nil {
		return nil, fmt.Errorf("assets: %w", err)
	}
	return manifest.Load(folder, values, scheme)
}

// credentials renders the CredentialsRequests that this cluster can fulfil.
func (d Driver) credentials(cfg Config, values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	var objects []client.Object
	for _, request := range d.Credentials {
		if !cfg.Requests(request) {
			continue
		}
		typed, err := d.request(request, values, scheme)
		if err != nil {
			return nil, err
		}
		if role := cfg.RoleARNs[request.RoleARNVariable]; role != "" {
			typed.Spec.CloudTokenPath = TokenPath
			typed.Spec.ProviderSpec.STSIAMRoleARN = role
		}
		objects = append(objects, typed)
	}
	return objects, nil
}

// request renders one CredentialsRequest.
func (d Driver) request(credentials Credentials, values manifest.Values, scheme *runtime.Scheme) (*cloudcredentialv1.CredentialsRequest, error) {
	loaded, err := manifest.LoadFile(d.Assets, "assets/credentials/"+credentials.Asset, values, scheme)
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 {
		return nil, fmt.Errorf("asset credentials/%s has %d objects instead of one CredentialsRequest", credentials.Asset, len(loaded))
	}
	typed, ok := loaded[0].(*cloudcredentialv1.CredentialsRequest)
	if !ok || typed.Spec.ProviderSpec == nil {
		return nil, fmt.Errorf("asset credentials/%s: %T is not a CredentialsRequest with a providerSpec", credentials.Asset, loaded[0])
	}
	return typed, nil
}

// PayloadRequests renders the CredentialsRequests of the release manifests. Argument "namespace" is the namespace of the operator.
func (d Driver) PayloadRequests(scheme *runtime.Scheme, namespace string) ([]client.Object, error) {
	var objects []client.Object
	for _, credentials := range d.Credentials {
		if !credentials.Payload {
			continue
		}
		typed, err := d.request(credentials, d.values(Config{Namespace: d.OperandNamespace(namespace)}), scheme)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", d.Name, err)
		}
		// All drivers mount the token at this path.
		typed.Spec.CloudTokenPath = TokenPath
		objects = append(objects, typed)
	}
	return objects, nil
}

func (d Driver) mutate(cfg Config, objects []client.Object) error {
	for _, change := range append(d.standardMutations(), d.Mutations...) {
		for _, object := range objects {
			if err := change(d, cfg, object); err != nil {
				return fmt.Errorf("%s %s: %w", kindOf(object), object.GetName(), err)
			}
		}
	}
	return nil
}

// served drops objects of optional kinds that the cluster does not serve.
func served(objects []client.Object, cfg Config) []client.Object {
	return slices.DeleteFunc(objects, func(object client.Object) bool {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		return slices.Contains(OptionalKinds(), kind) && !cfg.Kinds[kind]
	})
}

// wanted drops all StorageClasses if the user asked to remove them. It also drops Driver.StorageClass if the cluster lacks it, and all objects that
// Driver.Wanted rejects.
func (d Driver) wanted(objects []client.Object, cfg Config) []client.Object {
	return slices.DeleteFunc(objects, func(object client.Object) bool {
		isRemoved := kindOf(object) == storageClass && (cfg.Spec.StorageClassState == operatorv1.RemovedStorageClass || d.lacks(cfg, object))
		return isRemoved || (d.Wanted != nil && !d.Wanted(cfg, object))
	})
}

// lacks reports whether a class is Driver.StorageClass and the cluster lacks it. The operator never creates this class.
func (d Driver) lacks(cfg Config, class client.Object) bool {
	return class.GetName() == d.StorageClass && !slices.ContainsFunc(cfg.Classes, func(found Class) bool {
		return found.Kind == storageClass && found.Name == d.StorageClass
	})
}

// rank orders kinds: identity and RBAC, objects that pods refer to, node pods, the controller, and the webhook. The controller can depend on reports
// of the node pods, and the webhook needs its Deployment. The rank of an unknown kind is negative.
func rank(object client.Object) int {
	order := []string{
		"ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "CredentialsRequest", "ConfigMap", "Secret",
		"CSIDriver", storageClass, "VolumeSnapshotClass", "Service", "ServiceMonitor", "PodDisruptionBudget", "DaemonSet", "Deployment",
		"ValidatingWebhookConfiguration",
	}
	return slices.Index(order, kindOf(object))
}

func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }
