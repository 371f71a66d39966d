package driver

import (
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// without returns the driver without what this cluster can't have: sidecars that need a kind which is not served, and metrics that
// nobody can scrape.
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
		d.Metrics = nil
	}
	return d
}

// endpoints are the metrics of the driver itself, if it has any, and of its sidecars.
func (d Driver) endpoints() []Metrics {
	var all []Metrics
	if d.Metrics != nil {
		all = append(all, *d.Metrics)
	}
	for _, sidecar := range d.Sidecars {
		if sidecar.Metrics != nil {
			all = append(all, *sidecar.Metrics)
		}
	}
	return all
}

// addMetrics adds all metrics to the driver's Service and ServiceMonitor, and the certificate of the Service to the controller. A driver may
// have other Services and Deployments.
func (d Driver) addMetrics(namespace string, objects []client.Object) {
	service := d.Deployment + "-metrics"
	for _, object := range objects {
		if !slices.Contains([]string{d.Deployment, service, d.Deployment + "-monitor"}, object.GetName()) {
			continue
		}
		for _, metrics := range d.endpoints() {
			switch typed := object.(type) {
			case *appsv1.Deployment:
				d.addServingCertificate(&typed.Spec.Template.Spec)
			case *corev1.Service:
				typed.Spec.Ports = append(typed.Spec.Ports, metrics.servicePort())
			case *monitoringv1.ServiceMonitor:
				typed.Spec.Endpoints = append(typed.Spec.Endpoints, metrics.endpoint(service+"."+namespace+".svc"))
			}
		}
	}
}

// addServingCertificate adds the volume that the proxies in front of the metrics mount, once.
func (d Driver) addServingCertificate(pod *corev1.PodSpec) {
	const name = "metrics-serving-cert"
	if slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool { return volume.Name == name }) {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: d.Deployment + "-metrics-serving-cert"},
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

// endpoint is what Prometheus scrapes. The paths are those of OpenShift's Prometheus pod.
func (m Metrics) endpoint(serverName string) monitoringv1.Endpoint {
	// In small letters: CRDs before prometheus-operator 0.87 allow no other (enum: http, https), and newer ones allow both.
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
