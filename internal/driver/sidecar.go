package driver

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/manifest"
)

//go:embed assets
var shared embed.FS

// imageVariable names the environment variable with the sidecar's image; "provisioner" gives PROVISIONER_IMAGE.
func (s Sidecar) imageVariable() string {
	return strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + "_IMAGE"
}

// containers renders the sidecar and, if it has metrics, the proxy in front of them.
func (s Sidecar) containers(values manifest.Values) ([]corev1.Container, error) {
	values = values.With(manifest.Values{"HEALTH_PORT": fmt.Sprint(s.HealthPort)})
	if s.Metrics != nil {
		values = values.With(manifest.Values{
			"METRICS_NAME":          s.Metrics.Name,
			"METRICS_PORT":          fmt.Sprint(s.Metrics.Port),
			"METRICS_LOOPBACK_PORT": fmt.Sprint(s.Metrics.Loopback),
		})
	}
	var sidecar corev1.Container
	if err := manifest.LoadInto(shared, "assets/sidecars/"+s.Name+".yaml", values, &sidecar); err != nil {
		return nil, err
	}
	sidecar.Args = append(sidecar.Args, s.Args...)
	containers := []corev1.Container{sidecar}
	if s.Metrics != nil {
		var proxy corev1.Container
		if err := manifest.LoadInto(shared, "assets/sidecars/kube-rbac-proxy.yaml", values, &proxy); err != nil {
			return nil, err
		}
		containers = append(containers, proxy)
	}
	return containers, nil
}

// objects renders what the sidecar needs besides its container.
func (s Sidecar) objects(values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	folder := "assets/sidecars/" + s.Name
	if _, err := fs.Stat(shared, folder); err != nil {
		return nil, nil //nolint:nilerr // No folder means that the sidecar needs nothing but its container.
	}
	sub, err := fs.Sub(shared, folder)
	if err != nil {
		return nil, fmt.Errorf("assets of sidecar %s: %w", s.Name, err)
	}
	return manifest.Load(sub, values, scheme)
}

// addSidecars appends the driver's sidecars to its workloads.
func (d Driver) addSidecars(values manifest.Values, objects []client.Object) error {
	for _, sidecar := range d.Sidecars {
		containers, err := sidecar.containers(values)
		if err != nil {
			return err
		}
		for _, object := range objects {
			switch workload := object.(type) {
			case *appsv1.Deployment:
				if sidecar.Workload == Controller {
					pod := &workload.Spec.Template.Spec
					pod.Containers = append(pod.Containers, containers...)
				}
			case *appsv1.DaemonSet:
				if sidecar.Workload == Node {
					pod := &workload.Spec.Template.Spec
					pod.Containers = append(pod.Containers, containers...)
				}
			}
		}
	}
	return nil
}

// addMetrics adds the metrics of the driver's sidecars to its Service and ServiceMonitor.
func (d Driver) addMetrics(namespace string, objects []client.Object) {
	for _, sidecar := range d.Sidecars {
		if sidecar.Metrics == nil {
			continue
		}
		for _, object := range objects {
			switch typed := object.(type) {
			case *corev1.Service:
				typed.Spec.Ports = append(typed.Spec.Ports, sidecar.Metrics.servicePort())
			case *monitoringv1.ServiceMonitor:
				service := d.Deployment + "-metrics." + namespace + ".svc"
				typed.Spec.Endpoints = append(typed.Spec.Endpoints, sidecar.Metrics.endpoint(service))
			}
		}
	}
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
	https := monitoringv1.SchemeHTTPS
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
