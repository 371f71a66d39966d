package catalogue

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

//go:embed assets
var assets embed.FS

// Config is everything that rendering depends on.
type Config struct {
	// Images maps variables of the cluster-storage-operator's environment to images.
	Images         map[string]string
	Version        string
	Infrastructure configv1.InfrastructureStatus
	// Proxy is the cluster's proxy. It is empty if the cluster has no proxy.
	Proxy configv1.ProxyStatus
	// TLSMinVersion and TLSCiphers are the cluster's TLS profile for servers, in the form in which OpenShift's operators read it.
	TLSMinVersion string
	TLSCiphers    []string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
}

// ServiceMonitorKind returns the only optional kind that Render uses.
func ServiceMonitorKind() schema.GroupKind {
	return schema.GroupKind{Group: monitoringv1.SchemeGroupVersion.Group, Kind: monitoringv1.ServiceMonitorsKind}
}

// Missing returns the image variables that the entry needs and that are empty, sorted.
func (e Entry) Missing(images map[string]string) []string {
	return slices.DeleteFunc(e.Variables(), func(variable string) bool { return images[variable] != "" })
}

// Variables returns the variables of the cluster-storage-operator's environment that name images for the entry, sorted.
func (e Entry) Variables() []string {
	variables := append(slices.Collect(maps.Values(e.Images)), e.Image)
	slices.Sort(variables)
	return slices.Compact(variables)
}

// Render returns the objects that run the operator of the entry, without its ClusterCSIDriver. The objects are in the order of applying. After an
// error, the caller must apply nothing.
func (e Entry) Render(scheme *runtime.Scheme, cfg Config) ([]client.Object, error) {
	if missing := e.Missing(cfg.Images); len(missing) > 0 {
		return nil, fmt.Errorf("%s (%s) is not started, because environment variables %s of the %s are empty: set each to an image in its Deployment",
			e.Title, e.Name, strings.Join(missing, ", "), Operator)
	}
	objects, err := e.load(assets, scheme, cfg)
	if err != nil {
		return nil, fmt.Errorf("render the operator of %s: %w", e.Name, err)
	}
	objects = slices.DeleteFunc(objects, func(object client.Object) bool {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		return kind == ServiceMonitorKind() && !cfg.Kinds[kind]
	})
	manifest.Label(objects, openshift.ManagedByLabel, Operator)
	slices.SortStableFunc(objects, func(a, b client.Object) int { return rank(a) - rank(b) })
	return objects, nil
}

// Everything renders every object that the entry can ever have. It is for callers that only need names.
func (e Entry) Everything(scheme *runtime.Scheme) ([]client.Object, error) {
	cfg := Config{
		Images: map[string]string{}, Version: "any", TLSMinVersion: "VersionTLS12",
		Kinds: map[schema.GroupKind]bool{ServiceMonitorKind(): true},
	}
	for _, variable := range e.Variables() {
		cfg.Images[variable] = "any"
	}
	return e.Render(scheme, cfg)
}

func (e Entry) load(folder fs.FS, scheme *runtime.Scheme, cfg Config) ([]client.Object, error) {
	values := e.values(cfg)
	folders := []string{"objects"}
	if e.Namespace != "" {
		folders = append(folders, "namespace")
	}
	if !e.Builtin {
		folders = append(folders, "external")
	}
	var objects []client.Object
	for _, name := range folders {
		part, err := fs.Sub(folder, "assets/"+name)
		if err != nil {
			return nil, fmt.Errorf("assets: %w", err)
		}
		loaded, err := manifest.Load(part, values, scheme)
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	for _, binding := range e.Bindings {
		loaded, err := manifest.LoadFile(folder, "assets/binding.yaml", values.With(manifest.Values{
			"BINDING": binding.Role + "binding", "BINDING_NAMESPACE": binding.Namespace, "ROLE": binding.Role,
		}), scheme)
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	if err := e.addConfiguration(objects, cfg); err != nil {
		return nil, err
	}
	workload, err := e.deployment(folder, values, scheme, cfg)
	if err != nil {
		return nil, err
	}
	return append(objects, workload), nil
}

// values returns the placeholders of the assets, with their values.
func (e Entry) values(cfg Config) manifest.Values {
	return manifest.Values{
		"DRIVER_NAME":       e.Name,
		"OPERAND_NAMESPACE": e.Namespace,
		"NAMESPACE":         Namespace,
		"OPERATOR":          e.Operator,
		"OPERATOR_IMAGE":    cfg.Images[e.Image],
		"SERVING_CERT":      e.Operator + "-serving-cert",
	}
}

// addConfiguration writes the configuration file of an External operator.
func (e Entry) addConfiguration(objects []client.Object, cfg Config) error {
	serving := map[string]any{"minTLSVersion": cfg.TLSMinVersion}
	if len(cfg.TLSCiphers) > 0 {
		serving["cipherSuites"] = cfg.TLSCiphers
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "operator.openshift.io/v1alpha1", "kind": "GenericOperatorConfig", "servingInfo": serving,
	})
	if err != nil {
		return fmt.Errorf("write the operator's configuration: %w", err)
	}
	for _, object := range objects {
		if configuration, ok := object.(*corev1.ConfigMap); ok && configuration.Name == e.Operator+"-config" {
			configuration.Data = map[string]string{"config.yaml": string(text)}
		}
	}
	return nil
}

// rank returns the position of an object's kind in the order of applying. Namespaces and accounts come first, then RBAC, then objects that pods refer
// to. Deployments come last.
func rank(object client.Object) int {
	order := []string{
		"Namespace", "ServiceAccount", "ClusterRoleBinding", "RoleBinding", "ConfigMap", "Service", "ServiceMonitor", deployment,
	}
	return slices.Index(order, object.GetObjectKind().GroupVersionKind().Kind)
}
