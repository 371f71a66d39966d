package driver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/golden"
)

// workload is an asset with a container, and another that runs before it.
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

// several has a controller and node pods, and beside them a Deployment, a DaemonSet and a Service.
func several() driver.Driver {
	assets := workload("Deployment", "controller", "DRIVER_IMAGE") + workload("DaemonSet", "node", "DRIVER_IMAGE") +
		workload("Deployment", "webhook", "SYNCER_IMAGE") + workload("DaemonSet", "second", "NFS_IMAGE") +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: webhook-service}\nspec: {ports: [{port: 443}]}\n"
	return driver.Driver{
		Name: "several.example.com", Operator: "several-operator", Prefix: "several", ShortPrefix: "several",
		Deployment: "controller", DaemonSet: "node",
		Assets:   fstest.MapFS{"assets/all.yaml": {Data: []byte(assets)}},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{}),
	}
}

func TestImagesAreThoseThatAssetsAndSidecarsName(t *testing.T) {
	want := "DRIVER SYNCER NFS PROVISIONER KUBE_RBAC_PROXY ATTACHER RESIZER SNAPSHOTTER LIVENESS_PROBE NODE_DRIVER_REGISTRAR"
	if got := strings.ReplaceAll(strings.Join(several().Images(), " "), "_IMAGE", ""); got != want {
		t.Errorf("images are %s, want %s", got, want)
	}
	err := several().CheckImages(map[string]string{"DRIVER_IMAGE": "a"})
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
	for _, object := range golden.Render(t, several(), func(cfg *driver.Config) {
		cfg.Proxy.HTTPSProxy = "http://proxy.example.com"
		cfg.Migrating = true
	}) {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			found[typed.Name] = fmt.Sprintf("%s; replicas %d", shape(typed.Spec.Template.Spec), ptr.Deref(typed.Spec.Replicas, 0))
		case *appsv1.DaemonSet:
			found[typed.Name] = fmt.Sprintf("%s; %s", shape(typed.Spec.Template.Spec), typed.Spec.UpdateStrategy.Type)
		case *corev1.Service:
			found[typed.Name] = fmt.Sprintf("%d ports", len(typed.Spec.Ports))
		}
	}
	const proxies = "csi-provisioner provisioner-kube-rbac-proxy csi-attacher attacher-kube-rbac-proxy csi-resizer resizer-kube-rbac-proxy " +
		"csi-snapshotter snapshotter-kube-rbac-proxy csi-liveness-probe"
	want := map[string]string{
		"controller":         "csi-driver " + proxies + "; proxy true, restricted true, before it true, volumes 1; replicas 2",
		"node":               "csi-driver csi-node-driver-registrar csi-liveness-probe; proxy true, restricted false, before it false, volumes 0; OnDelete",
		"webhook":            "csi-driver; proxy true, restricted false, before it false, volumes 0; replicas 0",
		"second":             "csi-driver; proxy true, restricted false, before it false, volumes 0; ",
		"webhook-service":    "1 ports",
		"controller-metrics": "4 ports",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("workloads and Services (-want +got):\n%s", diff)
	}
}
