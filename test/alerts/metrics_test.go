package alerts

import (
	"os"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/test/env"
)

// job is the job of the operator's metrics: controller-runtime's names are the same in every operator.
const job = awsefs.Operator + "-metrics"

// knownMetrics are all metrics that alerts and dashboards may read.
func knownMetrics() []string {
	return []string{
		// The operator's own.
		clustercsidriver.MetricExists,
		clustercsidriver.MetricCondition,
		clustercsidriver.MetricControllerPods,
		clustercsidriver.MetricCredentialsMissing,
		clustercsidriver.MetricNodePods,
		clustercsidriver.MetricRemovalBlocking,
		clustercsidriver.MetricRolloutNodes,
		clustercsidriver.MetricRolloutSince,
		clustercsidriver.MetricRolloutLimit,
		clustercsidriver.MetricMigrationStalled,
		sharedvolume.MetricCount,
		sharedvolume.MetricNotAllowed,
		sharedvolume.MetricOpen,
		sharedvolume.MetricReady,
		sharedvolume.MetricReady + "_bucket",
		sharedvolume.MetricReady + "_count",
		// What it has found in AWS.
		efshealth.MetricOneZone,
		efshealth.MetricPoints,
		efshealth.MetricPointsLimit,
		efshealth.MetricProblem,
		// What aws-efs-node-health exports on nodes.
		mounts.MetricAge,
		mounts.MetricProblems,
		// What controller-runtime and the Go runtime export in the operator.
		"controller_runtime_reconcile_errors_total",
		"controller_runtime_reconcile_time_seconds_bucket",
		"process_resident_memory_bytes",
		"workqueue_depth",
		// What the provisioner exports beside the driver.
		// What the kubelet and kube-state-metrics export.
		"csi_operations_seconds_bucket",
		"csi_operations_seconds_count",
		"kube_node_status_condition",
		"kube_pod_info",
		// What Prometheus knows of each target.
		"up",
		"csi_sidecar_operations_seconds_bucket",
		"csi_sidecar_operations_seconds_count",
	}
}

// objects are the objects of config/prometheus, decoded strictly.
func objects(t *testing.T) []client.Object {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	scheme, err := kube.Scheme()
	env.Must(t, err)
	all, err := manifest.Load(os.DirFS(filepath.Join(root, "config", "prometheus")), nil, scheme)
	env.Must(t, err)
	return all
}

// monitor is the one object of its type in config/prometheus that people write.
func monitor[O client.Object](t *testing.T) O {
	t.Helper()
	var found []O
	for _, object := range objects(t) {
		if typed, ok := object.(O); ok && object.GetName() != serviceLevels().Name {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("config/prometheus has %d objects of type %T, want 1", len(found), *new(O))
	}
	return found[0]
}

func TestPrometheusFindsTheService(t *testing.T) {
	service := monitor[*corev1.Service](t)
	scraped := monitor[*monitoringv1.ServiceMonitor](t)
	for key, value := range scraped.Spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, the Service has %q", key, value, service.Labels[key])
		}
	}
	if got := service.Labels[scraped.Spec.JobLabel]; got != job {
		t.Errorf("the job is %q, the dashboard selects %q", got, job)
	}
	if len(scraped.Spec.Endpoints) != 1 || len(service.Spec.Ports) != 1 {
		t.Fatalf("%d endpoints and %d ports, want 1 each", len(scraped.Spec.Endpoints), len(service.Spec.Ports))
	}
	endpoint := scraped.Spec.Endpoints[0]
	if endpoint.Port != service.Spec.Ports[0].Name {
		t.Errorf("port %q is scraped, the Service has %q", endpoint.Port, service.Spec.Ports[0].Name)
	}
	if want := service.Name + "." + service.Namespace + ".svc"; *endpoint.TLSConfig.ServerName != want {
		t.Errorf("serverName is %q; the certificate is for %q", *endpoint.TLSConfig.ServerName, want)
	}
	if service.Spec.Selector["app"] != awsefs.Operator {
		t.Errorf("the Service selects %v, want app=%s", service.Spec.Selector, awsefs.Operator)
	}
}

func TestEverythingIsInTheNamespaceOfTheOperator(t *testing.T) {
	for _, object := range objects(t) {
		if object.GetNamespace() != kube.DefaultNamespace {
			t.Errorf("%T %s is in namespace %q, want %q", object, object.GetName(), object.GetNamespace(), kube.DefaultNamespace)
		}
	}
}
