package driver

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

//go:embed assets
var shared embed.FS

const (
	// livenessProbe is the sidecar that serves the driver's health.
	livenessProbe = "liveness-probe"
	// rbacProxy is the container that serves the metrics of another container over HTTPS, to authorized clients.
	rbacProxy = "kube-rbac-proxy"
)

// sidecarAsset returns the name of the file with a sidecar's container.
func sidecarAsset(name string) string { return "assets/sidecars/" + name + ".yaml" }

// containers renders the sidecar's container. If the sidecar has metrics, it also renders the container of the proxy in front of the metrics.
func (s Sidecar) containers(cfg Config, values manifest.Values, pod *corev1.PodSpec) ([]corev1.Container, error) {
	health := fmt.Sprintf("127.0.0.1:%d", s.HealthPort)
	if !pod.HostNetwork {
		// The kubelet can't reach the loopback address of a pod on the pod network.
		health = fmt.Sprintf(":%d", s.HealthPort)
	}
	values = values.With(manifest.Values{
		"HEALTH_PORT": fmt.Sprint(s.HealthPort), "HEALTH_ADDRESS": health, "PROBE_TIMEOUT": cmp.Or(s.ProbeTimeout, "3s"),
	})
	var sidecar corev1.Container
	if err := manifest.LoadInto(shared, sidecarAsset(s.Name), values, &sidecar); err != nil {
		return nil, err
	}
	sidecar.Args = append(sidecar.Args, s.Args...)
	if s.Metrics != nil {
		sidecar.Args = append(sidecar.Args, s.Metrics.flags()...)
		sidecar.Ports = append(sidecar.Ports, s.Metrics.loopback(pod)...)
	}
	if s.Options != nil {
		sidecar.Args = append(sidecar.Args, s.Options(cfg)...)
	}
	if s.Metrics == nil {
		return []corev1.Container{sidecar}, nil
	}
	proxy, err := s.Metrics.proxy(cfg, values)
	return []corev1.Container{sidecar, proxy}, err
}

// flags returns the arguments that set the address of the metrics in the container. It returns no arguments if Fixed is true.
//
// The address is numeric, because a container may fail to resolve localhost. Before each container of a pod starts, the kubelet truncates and
// rewrites the pod's /etc/hosts (Kubernetes v1.36.3, pkg/kubelet/kubelet_pods.go, ensureHostsFile). A container that resolves localhost during a
// rewrite may get no address. Then csi-provisioner ends with exit code 255 (v6.3.0, cmd/csi-provisioner/csi-provisioner.go). Pods of IPv6 clusters
// have 127.0.0.1, too, because Linux adds this address to lo when lo comes up (net/ipv4/devinet.c, inetdev_event).
func (m Metrics) flags() []string {
	if m.Fixed {
		return nil
	}
	return []string{fmt.Sprintf("%s=127.0.0.1:%d", cmp.Or(m.Flag, "--http-endpoint"), m.Loopback)}
}

// loopback returns the port behind the proxy if the pod is on the host network. With this host port, the scheduler places no other pod with the same
// port on the node.
func (m Metrics) loopback(pod *corev1.PodSpec) []corev1.ContainerPort {
	if !pod.HostNetwork {
		return nil
	}
	return []corev1.ContainerPort{{ContainerPort: m.Loopback, HostPort: m.Loopback, HostIP: "127.0.0.1", Protocol: corev1.ProtocolTCP}}
}

// proxy renders the container kube-rbac-proxy, which offers the metrics over HTTPS.
func (m Metrics) proxy(cfg Config, values manifest.Values) (corev1.Container, error) {
	values = values.With(manifest.Values{
		"METRICS_NAME":          m.Name,
		"METRICS_PORT":          fmt.Sprint(m.Port),
		"METRICS_LOOPBACK_PORT": fmt.Sprint(m.Loopback),
	})
	var proxy corev1.Container
	if err := manifest.LoadInto(shared, sidecarAsset(rbacProxy), values, &proxy); err != nil {
		return proxy, err
	}
	proxy.Args = append(proxy.Args, TLSArguments(cfg.TLS)...)
	return proxy, nil
}

// TLSArguments returns the arguments that set the cluster's TLS profile in kube-rbac-proxy.
func TLSArguments(profile openshift.TLSProfile) []string {
	arguments := []string{"--tls-min-version=" + profile.MinVersion}
	if len(profile.Ciphers) > 0 {
		arguments = append(arguments, "--tls-cipher-suites="+strings.Join(profile.Ciphers, ","))
	}
	if !profile.HTTP2() {
		// With HTTP/2, kube-rbac-proxy would not start.
		arguments = append(arguments, "--http2-disable=true")
	}
	return arguments
}

// objects renders the objects of the sidecar besides its container.
func (s Sidecar) objects(values manifest.Values, scheme *runtime.Scheme) ([]client.Object, error) {
	var objects []client.Object
	// A sidecar without a folder needs nothing but its container.
	if _, err := fs.Stat(shared, "assets/sidecars/"+s.Name); err == nil {
		if objects, err = loadFolder(shared, "assets/sidecars/"+s.Name, values, scheme); err != nil {
			return nil, err
		}
	}
	for _, right := range s.Rights {
		values := values.With(manifest.Values{"SIDECAR": s.Name})
		granted, err := manifest.LoadFile(shared, "assets/rights/"+right+".yaml", values, scheme)
		if err != nil {
			return nil, fmt.Errorf("rights of sidecar %s: %w", s.Name, err)
		}
		objects = append(objects, granted...)
	}
	return objects, nil
}

// addSidecars appends the driver's sidecars to its workloads, after the proxy of the driver's own metrics.
func (d Driver) addSidecars(cfg Config, values manifest.Values, objects []client.Object) error {
	add := func(_ Config, pods Pods) error {
		if metrics, serves := d.Metrics[pods.Workload]; serves {
			container, err := pods.Container(Container)
			if err != nil {
				return err
			}
			container.Args = append(container.Args, metrics.flags()...)
			container.Ports = append(container.Ports, metrics.loopback(pods.Spec)...)
			proxy, err := metrics.proxy(cfg, values)
			if err != nil {
				return err
			}
			proxy.Name = fmt.Sprintf("kube-rbac-proxy-%d", metrics.Loopback)
			pods.Spec.Containers = append(pods.Spec.Containers, proxy)
		}
		for _, metrics := range d.FurtherMetrics[pods.Workload] {
			proxy, err := metrics.proxy(cfg, values)
			if err != nil {
				return err
			}
			pods.Spec.Containers = append(pods.Spec.Containers, proxy)
		}
		for _, sidecar := range d.Sidecars {
			if sidecar.Workload != pods.Workload {
				continue
			}
			containers, err := sidecar.containers(cfg, values, pods.Spec)
			if err != nil {
				return err
			}
			pods.Spec.Containers = append(pods.Spec.Containers, containers...)
		}
		if len(d.endpoints(pods.Workload)) > 0 {
			pods.addServingCertificate(d.scraped()[pods.Workload])
		}
		return nil
	}
	for _, object := range objects {
		if err := MutatePods(add)(d, cfg, object); err != nil {
			return err
		}
	}
	return nil
}
