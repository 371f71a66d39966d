package driver

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/manifest"
	"github.com/csi-operators/csi-operators/internal/tlsprofile"
)

//go:embed assets
var shared embed.FS

// imageVariable names the environment variable with the sidecar's image; "provisioner" gives PROVISIONER_IMAGE.
func (s Sidecar) imageVariable() string {
	return strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + "_IMAGE"
}

// containers renders the sidecar and, if it has metrics, the proxy in front of them.
func (s Sidecar) containers(cfg Config, values manifest.Values) ([]corev1.Container, error) {
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
	var containers []corev1.Container
	if s.Metrics != nil {
		// All CSI sidecars serve their metrics where this flag says.
		sidecar.Args = append(sidecar.Args, fmt.Sprintf("--http-endpoint=localhost:%d", s.Metrics.Loopback))
		var proxy corev1.Container
		if err := manifest.LoadInto(shared, "assets/sidecars/kube-rbac-proxy.yaml", values, &proxy); err != nil {
			return nil, err
		}
		proxy.Args = append(proxy.Args, tlsArguments(cfg.TLS)...)
		containers = append(containers, proxy)
	}
	return append([]corev1.Container{sidecar}, containers...), nil
}

// tlsArguments tell kube-rbac-proxy the cluster's TLS profile.
func tlsArguments(profile tlsprofile.Profile) []string {
	arguments := []string{"--tls-min-version=" + profile.MinVersion}
	if len(profile.Ciphers) > 0 {
		arguments = append(arguments, "--tls-cipher-suites="+strings.Join(profile.Ciphers, ","))
	}
	if !profile.HTTP2() {
		// It would not start.
		arguments = append(arguments, "--http2-disable=true")
	}
	return arguments
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
func (d Driver) addSidecars(cfg Config, values manifest.Values, objects []client.Object) error {
	for _, sidecar := range d.Sidecars {
		containers, err := sidecar.containers(cfg, values)
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
