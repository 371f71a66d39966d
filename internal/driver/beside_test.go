package driver_test

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// Further Deployments get no sidecars, and otherwise the same pod settings as the controller.
func TestFurtherDeploymentsRunAsTheController(t *testing.T) {
	d := several()
	d.Deployments = []string{"webhook"}
	for topology, replicas := range map[configv1.TopologyMode]int32{
		configv1.HighlyAvailableTopologyMode: 2, configv1.SingleReplicaTopologyMode: 1, configv1.ExternalTopologyMode: 2,
	} {
		looked := 0
		for _, object := range variants.Render(t, d, func(cfg *driver.Config) {
			cfg.ControlPlaneTopology, cfg.InfrastructureTopology = topology, configv1.HighlyAvailableTopologyMode
		}) {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			looked++
			pod := deployment.Spec.Template.Spec
			if deployment.Spec.Replicas == nil || *deployment.Spec.Replicas != replicas {
				t.Errorf("%s: %s has %v replicas", topology, deployment.Name, deployment.Spec.Replicas)
			}
			if (pod.NodeSelector == nil) != (topology == configv1.ExternalTopologyMode) {
				t.Errorf("%s: %s is for nodes %v", topology, deployment.Name, pod.NodeSelector)
			}
			if pod.SecurityContext == nil || pod.Containers[0].SecurityContext == nil {
				t.Errorf("%s: %s is not restricted", topology, deployment.Name)
			}
			if hasSidecars := len(pod.Containers) > 1; hasSidecars != (deployment.Name == d.Deployment) {
				t.Errorf("%s: %s has %d containers", topology, deployment.Name, len(pod.Containers))
			}
		}
		if looked != 2 {
			t.Errorf("%s: %d Deployments", topology, looked)
		}
	}
}

// A container without a metrics flag gets none, and other containers of the pod are scraped, too.
func TestMetricsOnPortsThatNobodyChoosesAreScraped(t *testing.T) {
	d := several()
	d.Metrics[driver.Controller] = driver.Metrics{Name: "driver", Loopback: 2112, Port: 9201, Fixed: true}
	d.FurtherMetrics = map[driver.Workload][]driver.Metrics{driver.Controller: {{Name: "syncer", Loopback: 2113, Port: 9206, Fixed: true}}}
	upstreams, endpoints := map[string]string{}, []string{}
	for _, object := range variants.Render(t, d, nil) {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			for _, container := range typed.Spec.Template.Spec.Containers {
				for _, argument := range container.Args {
					if upstream, found := strings.CutPrefix(argument, "--upstream="); found {
						upstreams[container.Name] = upstream
					}
					if container.Name == driver.Container {
						t.Errorf("the driver gets %s", argument)
					}
				}
			}
		case *monitoringv1.ServiceMonitor:
			if strings.HasPrefix(typed.Name, "several-controller") {
				for _, endpoint := range typed.Spec.Endpoints {
					endpoints = append(endpoints, endpoint.Port)
				}
			}
		}
	}
	if upstreams["kube-rbac-proxy-2112"] != "http://127.0.0.1:2112/" || upstreams["syncer-kube-rbac-proxy"] != "http://127.0.0.1:2113/" {
		t.Errorf("proxies %v", upstreams)
	}
	if !slices.Contains(endpoints, "driver-m") || !slices.Contains(endpoints, "syncer-m") {
		t.Errorf("endpoints %v", endpoints)
	}
	for _, object := range variants.Render(t, d, func(cfg *driver.Config) { cfg.Kinds[driver.ServiceMonitorKind()] = false }) {
		if deployment, ok := object.(*appsv1.Deployment); ok && slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, isProxy) {
			t.Errorf("%s has proxies that nobody asks", deployment.Name)
		}
	}
}

func TestWhichSecretsAreOfUse(t *testing.T) {
	for name, tc := range map[string]struct {
		alternatives [][]string
		keys         string
		want         bool
		needs        string
	}{
		"all keys":            {[][]string{{"a", "b"}}, "a b c", true, "keys a and b"},
		"one is missing":      {[][]string{{"a", "b"}}, "a", false, "keys a and b"},
		"another alternative": {[][]string{{"a"}, {"b"}}, "b", true, "key a, or key b"},
		"any keys":            {[][]string{{}}, "vc1.username", true, "any key"},
		"any keys, and none":  {[][]string{{}}, "", false, "any key"},
	} {
		credentials := driver.Credentials{Keys: tc.alternatives}
		if got := credentials.Usable(strings.Fields(tc.keys)); got != tc.want || credentials.WantedKeys() != tc.needs {
			t.Errorf("%s: %v, want %v; it needs %q", name, got, tc.want, credentials.WantedKeys())
		}
	}
}

func isProxy(container corev1.Container) bool {
	return strings.Contains(container.Name, "kube-rbac-proxy")
}
