package all

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// The release forbids all traffic of pods in its namespace except what a policy allows, and the policies select pods by label. They do not hold
// pods in the network of their node.
func TestNetworkPoliciesSelectEachPodOutsideOfTheHostNetwork(t *testing.T) {
	const prefix = "openshift.storage.network-policy."
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(d driver.Driver, name string, pod corev1.PodTemplateSpec) {
		if pod.Spec.HostNetwork {
			return
		}
		checked++
		wanted := map[string]bool{"api-server": true, "dns": true}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				// allow-ingress-to-metrics-range
				if port.ContainerPort >= 9201 && port.ContainerPort <= 9223 {
					wanted["metrics-range"] = true
				}
			}
		}
		for label := range wanted {
			if pod.Labels[prefix+label] != "allow" {
				t.Errorf("%s, pods of %s: label %s is %q", d.Name, name, prefix+label, pod.Labels[prefix+label])
			}
		}
	}
	for _, d := range Drivers() {
		settings, err := d.ReadSettings(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		objects, err := d.Everything(scheme, "openshift-cluster-csi-drivers", settings)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			switch typed := object.(type) {
			case *appsv1.Deployment:
				check(d, typed.Name, typed.Spec.Template)
			case *appsv1.DaemonSet:
				check(d, typed.Name, typed.Spec.Template)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d workloads checked", checked)
	}
}
