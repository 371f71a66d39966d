package driver

import (
	"maps"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
)

// Metrics is a plain HTTP endpoint on loopback and the port on which kube-rbac-proxy offers it over HTTPS.
type Metrics struct {
	// Name is part of the names of the port, "<Name>-m", and of the proxy's container, "<Name>-kube-rbac-proxy". The proxy of the driver's own metrics
	// is "kube-rbac-proxy-<Loopback>", as in openshift/csi-operator f7f9dc59 assets/overlays/*/generated/standalone/controller.yaml.
	Name string
	// Loopback is the port of the plain endpoint. Port is the HTTPS port that Prometheus scrapes.
	Loopback, Port int32
	// Flag is the container's flag for the address of the plain endpoint. If Flag is empty, the flag is --http-endpoint, which all CSI sidecars have.
	Flag string
	// Fixed means that the container has no flag for the address, and always uses port Loopback.
	Fixed bool
	// Since is the first version of the driver that has the flag, or empty if all versions have it. Older versions exit if they get the flag. So the
	// driver gets the flag only if the administrator names the version in VersionVariable. The tag of the image is not enough, because it can be the
	// version of another program.
	Since string
}

// without returns a copy of the driver. The copy omits sidecars whose optional kind the cluster does not serve, and metrics that the driver's version
// does not have. If Prometheus can't scrape metrics, the copy omits all metrics.
func (d Driver) without(cfg Config) Driver {
	sidecars := make([]Sidecar, 0, len(d.Sidecars))
	for _, sidecar := range d.Sidecars {
		if !cfg.metrics() {
			sidecar.Metrics = nil
		}
		if sidecar.Needs.Empty() || cfg.Kinds[sidecar.Needs] {
			sidecars = append(sidecars, sidecar)
		}
	}
	d.Sidecars = sidecars
	if !cfg.metrics() {
		d.Metrics, d.FurtherMetrics = nil, nil
	}
	d.Metrics = maps.Clone(d.Metrics)
	maps.DeleteFunc(d.Metrics, func(_ Workload, metrics Metrics) bool {
		return metrics.Since != "" && !accept.AtLeast(cfg.Settings[VersionVariable], metrics.Since)
	})
	return d
}

// endpoints returns the metrics of a workload: of the driver, of its other containers, and of the sidecars.
func (d Driver) endpoints(workload Workload) []Metrics {
	var all []Metrics
	if metrics, serves := d.Metrics[workload]; serves {
		all = append(all, metrics)
	}
	all = append(all, d.FurtherMetrics[workload]...)
	for _, sidecar := range d.Sidecars {
		if sidecar.Workload == workload && sidecar.Metrics != nil {
			all = append(all, *sidecar.Metrics)
		}
	}
	return all
}

// scraped maps each workload to a prefix. The names of the workload's Service, ServiceMonitor and other objects for Prometheus begin with this
// prefix.
func (d Driver) scraped() map[Workload]string {
	return map[Workload]string{Controller: d.Prefix + "-controller", Node: d.DaemonSet}
}

// metricsObjects renders the objects for Prometheus, without the ports.
func (d Driver) metricsObjects(values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	objects, err := loadFolder(shared, "assets/metrics", values, scheme)
	scraped := d.scraped()
	for _, of := range []struct {
		workload            Workload
		name, rbac, account string
	}{
		{Controller, scraped[Controller], d.ShortPrefix, d.Prefix + "-controller-sa"},
		{Node, scraped[Node], d.ShortPrefix + "-node", d.Prefix + "-node-sa"},
	} {
		if err != nil || (of.workload == Node && len(d.endpoints(Node)) == 0) {
			break
		}
		var more []client.Object
		values := values.With(manifest.Values{"SCRAPED": of.name, "SCRAPED_RBAC": of.rbac, "SCRAPED_ACCOUNT": of.account})
		more, err = loadFolder(shared, "assets/metrics/workload", values, scheme)
		objects = append(objects, more...)
	}
	return objects, err
}

// addMetrics adds the ports of metrics to the Services and ServiceMonitors. It does not set field serviceDiscoveryRole of the ServiceMonitors. CRDs
// before October 2025 lack this field (prometheus-operator/prometheus-operator#7982), and server-side apply would then fail. The operators have no
// permission to read the CRD, so they can't find out whether it has the field. Without the field, Prometheus uses Endpoints, and finds 1,000 nodes at
// most.
func (d Driver) addMetrics(namespace string, objects []client.Object) {
	for workload, name := range d.scraped() {
		service := name + "-metrics"
		for _, object := range objects {
			for _, metrics := range d.endpoints(workload) {
				switch typed := object.(type) {
				case *corev1.Service:
					if typed.Name == service {
						typed.Spec.Ports = append(typed.Spec.Ports, metrics.servicePort())
					}
				case *monitoringv1.ServiceMonitor:
					if typed.Name == name+"-monitor" {
						typed.Spec.Endpoints = append(typed.Spec.Endpoints, metrics.endpoint(service+"."+namespace+".svc"))
					}
				}
			}
		}
	}
}

// addServingCertificate adds the volume that the proxies in front of the metrics mount.
func (p Pods) addServingCertificate(scraped string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "metrics-serving-cert", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: scraped + "-metrics-serving-cert"},
	}})
}

func (m Metrics) portName() string { return m.Name + "-m" }

func (m Metrics) servicePort() corev1.ServicePort {
	return corev1.ServicePort{
		Name:       m.portName(),
		Port:       m.Port,
		Protocol:   corev1.ProtocolTCP,
		TargetPort: intstr.FromString(m.portName()),
	}
}

// endpoint returns the endpoint of a ServiceMonitor, from which Prometheus scrapes the metrics. The file names in the endpoint are paths in
// OpenShift's Prometheus pod.
func (m Metrics) endpoint(serverName string) monitoringv1.Endpoint {
	// The scheme is in lower case, because CRDs before prometheus-operator 0.87 allow only http and https. Newer CRDs allow both cases.
	https := monitoringv1.Scheme("https")
	var endpoint monitoringv1.Endpoint
	endpoint.Port = m.portName()
	endpoint.Path = "/metrics"
	endpoint.Interval = "30s"
	endpoint.Scheme = &https
	//nolint:staticcheck // Authorization wants a Secret; OpenShift's Prometheus has the token of its pod.
	endpoint.BearerTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	endpoint.TLSConfig = &monitoringv1.TLSConfig{}
	endpoint.TLSConfig.CAFile = "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"
	endpoint.TLSConfig.ServerName = &serverName
	return endpoint
}
