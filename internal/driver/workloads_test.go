package driver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// workload is an asset with a container and an init container.
func workload(kind, name, image string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: %s
metadata:
  name: %s
  annotations: {config.openshift.io/inject-proxy: csi-driver}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      nodeSelector: {node-role.kubernetes.io/master: ""}
      initContainers: [{name: before, image: "${DRIVER_IMAGE}"}]
      containers: [{name: csi-driver, image: "${%s}"}]
`, kind, name, image)
}

// several has a controller, node pods, and a further Deployment, DaemonSet and Service.
func several() driver.Driver {
	assets := workload("Deployment", "controller", "DRIVER_IMAGE") + workload("DaemonSet", "node", "DRIVER_IMAGE") +
		workload("Deployment", "webhook", "SYNCER_IMAGE") + workload("DaemonSet", "second", "NFS_IMAGE") +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: webhook-service}\nspec: {ports: [{port: 443}]}\n"
	return driver.Driver{
		Name: "several.example.com", Operator: "several-operator", Prefix: "several", ShortPrefix: "several",
		Deployment: "controller", DaemonSet: "node",
		Assets:   fstest.MapFS{"assets/all.yaml": {Data: []byte(assets)}},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{}),
		Metrics: map[driver.Workload]driver.Metrics{
			driver.Controller: {Name: "driver", Loopback: 8201, Port: 9201},
			driver.Node:       {Name: "driver", Loopback: 8206, Port: 9206, Flag: "--metrics-address"},
		},
	}
}

func TestImagesAreThoseThatAssetsAndSidecarsName(t *testing.T) {
	want := "DRIVER SYNCER NFS KUBE_RBAC_PROXY PROVISIONER ATTACHER RESIZER SNAPSHOTTER LIVENESS_PROBE NODE_DRIVER_REGISTRAR"
	if got := strings.ReplaceAll(strings.Join(several().Images(), " "), "_IMAGE", ""); got != want {
		t.Errorf("images are %s, want %s", got, want)
	}
	err := several().CheckImages(map[string]string{"DRIVER_IMAGE": "a"}, nil)
	if err == nil || !strings.Contains(err.Error(), "[SYNCER_IMAGE NFS_IMAGE ") {
		t.Errorf("error %v, want the images that are missing", err)
	}
}

// Only the two workloads with the driver's names are the controller and the node pods. Another one has what its asset says, and the proxy
// where an annotation asks for it.
func TestOtherWorkloadsAreWhatTheirAssetsSay(t *testing.T) {
	shape := func(pod corev1.PodSpec) string {
		var names []string
		for _, container := range pod.Containers {
			names = append(names, container.Name)
		}
		return fmt.Sprintf("%s; proxy %t, restricted %t, before it %t, volumes %d", strings.Join(names, " "), len(pod.Containers[0].Env) > 0,
			pod.SecurityContext != nil, pod.InitContainers[0].SecurityContext != nil, len(pod.Volumes))
	}
	found := map[string]string{}
	for _, object := range variants.Render(t, several(), func(cfg *driver.Config) {
		cfg.Proxy.HTTPSProxy = "http://proxy.example.com"
		cfg.Migrating = true
	}) {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			found[typed.Name] = fmt.Sprintf("%s; set replicas %t", shape(typed.Spec.Template.Spec), typed.Spec.Replicas != nil)
		case *appsv1.DaemonSet:
			found[typed.Name] = fmt.Sprintf("%s; %s", shape(typed.Spec.Template.Spec), typed.Spec.UpdateStrategy.Type)
		case *corev1.Service:
			found[typed.Name] = fmt.Sprintf("%d ports", len(typed.Spec.Ports))
		}
	}
	const sidecars = "csi-provisioner provisioner-kube-rbac-proxy csi-attacher attacher-kube-rbac-proxy csi-resizer resizer-kube-rbac-proxy " +
		"csi-snapshotter snapshotter-kube-rbac-proxy csi-liveness-probe"
	want := map[string]string{
		"controller":                 "csi-driver kube-rbac-proxy-8201 " + sidecars + "; proxy true, restricted true, before it true, volumes 1; set replicas true",
		"node":                       "csi-driver kube-rbac-proxy-8206 csi-node-driver-registrar csi-liveness-probe; proxy true, restricted false, before it false, volumes 1; OnDelete",
		"webhook":                    "csi-driver; proxy true, restricted false, before it false, volumes 0; set replicas false",
		"second":                     "csi-driver; proxy true, restricted false, before it false, volumes 0; ",
		"webhook-service":            "1 ports",
		"several-controller-metrics": "5 ports",
		"node-metrics":               "1 ports",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("workloads and Services (-want +got):\n%s", diff)
	}
}

// If the driver serves metrics on nodes, node pods get a proxy, a Service, a certificate and RBAC for them.
func TestMetricsOfNodePodsAreScrapedThroughAProxy(t *testing.T) {
	const name, certificate = "node-metrics", "node-metrics-serving-cert"
	var found []string
	for _, object := range variants.Render(t, several(), nil) {
		switch typed := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if strings.Contains(typed.Name, "proxy") {
				found = append(found, typed.Name+" of "+typed.Subjects[0].Name+" to "+typed.RoleRef.Name)
			}
		case *corev1.Service:
			if typed.Name == name {
				found = append(found, fmt.Sprintf("%s of %s: %s %d", typed.Annotations["service.beta.openshift.io/serving-cert-secret-name"],
					typed.Spec.Selector["app"], typed.Spec.Ports[0].Name, typed.Spec.Ports[0].Port))
			}
		case *monitoringv1.ServiceMonitor:
			for _, endpoint := range typed.Spec.Endpoints {
				if *endpoint.TLSConfig.ServerName == name+".openshift-cluster-csi-drivers.svc" {
					found = append(found, typed.Name+" of "+typed.Spec.Selector.MatchLabels["app"]+" at "+endpoint.Port)
				}
			}
		case *appsv1.DaemonSet:
			for _, volume := range typed.Spec.Template.Spec.Volumes {
				found = append(found, typed.Name+" mounts "+volume.Secret.SecretName)
			}
			found = append(found, strings.Join(typed.Spec.Template.Spec.Containers[0].Args, " "))
		}
	}
	want := []string{
		"several-kube-rbac-proxy-binding of several-controller-sa to several-kube-rbac-proxy-role",
		"several-node-kube-rbac-proxy-binding of several-node-sa to several-node-kube-rbac-proxy-role",
		certificate + " of node: driver-m 9206", "node-monitor of node-metrics at driver-m",
		"node mounts " + certificate, "--metrics-address=127.0.0.1:8206", "",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("metrics of node pods (-want +got):\n%s", diff)
	}
	for _, object := range variants.Render(t, several(), func(cfg *driver.Config) { cfg.Kinds[driver.ServiceMonitorKind()] = false }) {
		if object.GetName() == name {
			t.Errorf("%T %s is there although nobody scrapes it", object, name)
		}
	}
}

// A driver can run in another namespace than its operator.
func TestADriverRunsInItsOwnNamespace(t *testing.T) {
	d := several()
	if got := d.OperandNamespace("operators"); got != "operators" {
		t.Errorf("without one of its own: %s", got)
	}
	d.Namespace = "own"
	for _, object := range variants.Render(t, d, func(cfg *driver.Config) { cfg.Namespace = d.OperandNamespace("operators") }) {
		if namespace := object.GetNamespace(); namespace != "" && namespace != "own" {
			t.Errorf("%T %s is in namespace %s", object, object.GetName(), namespace)
		}
	}
}

// Controller pods can have the same label app. They must not be treated as node pods.
func TestPodsOfTheControllerAreNoNodePods(t *testing.T) {
	d := several()
	d.Predecessors = []driver.Predecessor{{DaemonSet: "before"}}
	d.Selectors = map[driver.Workload]map[string]string{
		driver.Controller: {"app": "shared", "component": "controller"}, driver.Node: {"app": "shared", "component": "node"},
	}
	for name, tc := range map[string]struct {
		labels      map[string]string
		account     string
		isNode, old bool
	}{
		"ours":                  {map[string]string{"app": "shared", "component": "node", "more": "x"}, d.NodeServiceAccount(), true, false},
		"a predecessor's":       {map[string]string{"app": "shared", "component": "node"}, "another", true, true},
		"of another name":       {map[string]string{"app": "before"}, "another", true, true},
		"the controller's":      {map[string]string{"app": "shared", "component": "controller"}, d.ControllerServiceAccount(), false, false},
		"of a second DaemonSet": {map[string]string{"app": "shared", "component": "plugin"}, d.NodeServiceAccount(), false, false},
		"somebody's":            {map[string]string{"app": "web"}, "web", false, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}, Spec: corev1.PodSpec{ServiceAccountName: tc.account}}
		if isNode, old := d.IsNodePod(pod), d.IsOld(pod); isNode != tc.isNode || old != tc.old {
			t.Errorf("%s: node pod %t, old %t", name, isNode, old)
		}
	}
}

// An external control plane can use any port for its API server, and the usual policy for API servers opens only two.
func TestPodsReachAnExternalControlPlaneOnAnyPort(t *testing.T) {
	d := several()
	d.Assets = fstest.MapFS{"assets/all.yaml": {Data: []byte(strings.ReplaceAll(workload("Deployment", "webhook", "SYNCER_IMAGE"),
		"labels: {", "labels: {openshift.storage.network-policy.api-server: allow, ") + workload("Deployment", "controller", "DRIVER_IMAGE") +
		workload("DaemonSet", "node", "DRIVER_IMAGE"))}}
	for topology, want := range map[configv1.TopologyMode]string{
		configv1.ExternalTopologyMode: "webhook", "": "webhook", configv1.HighlyAvailableTopologyMode: "", configv1.SingleReplicaTopologyMode: "",
	} {
		var open []string
		for _, object := range variants.Render(t, d, func(cfg *driver.Config) { cfg.ControlPlaneTopology = topology }) {
			if deployment, ok := object.(*appsv1.Deployment); ok {
				if deployment.Spec.Template.Labels["openshift.storage.network-policy.all-egress"] == "allow" {
					open = append(open, deployment.Name)
				}
			}
		}
		if got := strings.Join(open, " "); got != want {
			t.Errorf("topology %q: all egress for %q, want %q", topology, got, want)
		}
	}
}

// A sidecar can do no more than it uses, whether or not the controller is privileged. The registrar is of the SELinux type of privileged
// containers: else it could neither call the plugin nor make its socket in the kubelet's folder.
func TestSidecarsHaveGivenUpWhatTheyDoNotUse(t *testing.T) {
	for _, isPrivileged := range []bool{false, true} {
		d := several()
		d.PrivilegedController = isPrivileged
		looked, types := 0, []string{}
		look := driver.MutatePods(func(_ driver.Config, pods driver.Pods) error {
			for _, container := range pods.Spec.Containers {
				if container.Name == driver.Container {
					continue
				}
				looked++
				with := container.SecurityContext
				if with.SELinuxOptions != nil {
					types = append(types, container.Name+" "+with.SELinuxOptions.Type)
				}
				no, yes := false, true
				want := &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SELinuxOptions: with.SELinuxOptions, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				}
				if !isPrivileged && pods.Workload == driver.Controller {
					// The pod has it.
					want.SeccompProfile = nil
				}
				if diff := cmp.Diff(want, with); diff != "" {
					t.Errorf("privileged controller %t: container %s (-want +got):\n%s", isPrivileged, container.Name, diff)
				}
			}
			return nil
		})
		for _, object := range variants.Render(t, d, nil) {
			if err := look(d, driver.Config{}, object); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"csi-node-driver-registrar spc_t"}, types); looked != 13 || diff != "" {
			t.Errorf("%d containers, SELinux types (-want +got):\n%s", looked, diff)
		}
	}
}
