package clustercsidriver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestMetricsFollowTheLastReconcile(t *testing.T) {
	trip := newTrip(t, disk())
	_, result := healthy()
	conditions := []operatorv1.OperatorCondition{
		status.Condition("Available", true, "", ""), status.Condition("Degraded", false, "", ""),
		status.Condition("DiskCredentialsControllerAvailable", true, "", ""),
		status.Condition("DiskNodeCredentialsControllerAvailable", false, "", ""),
	}
	result.seen.live.daemonSet.Status.UpdatedNumberScheduled, result.seen.live.daemonSet.Status.NumberAvailable = 2, 1
	result.seen.live.deployment.Status.UpdatedReplicas, result.seen.live.deployment.Status.AvailableReplicas = 1, 0
	trip.reporter.metrics.observe(disk(), conditions, result)
	want := map[string]float64{
		"csi_operator_clustercsidriver_exists":                          1,
		"csi_operator_condition Available":                              1,
		"csi_operator_condition Degraded":                               0,
		"csi_operator_node_pods desired":                                3,
		"csi_operator_node_pods updated":                                2,
		"csi_operator_node_pods available":                              1,
		"csi_operator_controller_pods desired":                          2,
		"csi_operator_controller_pods updated":                          1,
		"csi_operator_controller_pods available":                        0,
		"csi_operator_credentials_missing disk-keys":                    0,
		"csi_operator_removal_blocking_pods":                            0,
		"csi_operator_condition DiskCredentialsControllerAvailable":     1,
		"csi_operator_condition DiskNodeCredentialsControllerAvailable": 0,
	}
	if diff := cmp.Diff(want, trip.gauges(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	conditions = []operatorv1.OperatorCondition{status.Condition("DiskCredentialsControllerAvailable", false, "", "")}
	trip.reporter.metrics.observe(disk(), conditions, outcome{removal: removal{blocking: 4}})
	want = map[string]float64{
		"csi_operator_clustercsidriver_exists":                      1,
		"csi_operator_condition DiskCredentialsControllerAvailable": 0,
		"csi_operator_credentials_missing disk-keys":                1,
		"csi_operator_removal_blocking_pods":                        4,
	}
	if diff := cmp.Diff(want, trip.gauges(t)); diff != "" {
		t.Errorf("what is not there any more has a value (-want +got):\n%s", diff)
	}
	// A Secret that was made by hand, for which the cloud-credential-operator fails.
	conditions = []operatorv1.OperatorCondition{status.Condition("DiskCredentialsControllerAvailable", true, status.ActionRequired, "delete it")}
	trip.reporter.metrics.observe(disk(), conditions, outcome{})
	if got := trip.gauges(t)["csi_operator_credentials_missing disk-keys"]; got != 1 {
		t.Errorf("a Secret that is in the way counts as %v", got)
	}
	trip.reporter.metrics.absent()
	if diff := cmp.Diff(map[string]float64{"csi_operator_clustercsidriver_exists": 0}, trip.gauges(t)); diff != "" {
		t.Errorf("without a ClusterCSIDriver (-want +got):\n%s", diff)
	}
}

func TestAMigrationSaysWhetherItIsStalled(t *testing.T) {
	trip := newTrip(t, disk())
	for _, stalled := range []bool{true, false} {
		trip.reporter.metrics.observe(disk(), nil, outcome{moved: migration.Moved{Message: "1 of 3", Stalled: stalled}})
		if got, there := trip.gauges(t)[MetricMigrationStalled]; !there || got != number(stalled) {
			t.Errorf("stalled %t: %f, it exists: %t", stalled, got, there)
		}
	}
	trip.reporter.metrics.observe(disk(), nil, outcome{})
	if _, there := trip.gauges(t)[MetricMigrationStalled]; there {
		t.Error("it exists without a migration")
	}
}

func TestARolloutHasMetricsWhileItGoesOn(t *testing.T) {
	trip := newTrip(t, disk())
	progressing := status.Condition("DiskDriverNodeServiceControllerProgressing", true, nodes.NodesInUse, "1 of 3")
	progressing.LastTransitionTime = metav1.Unix(1700000000, 0)
	result := outcome{rolled: nodes.Progress{Message: "1 of 3", Idle: 2, InUse: 5}}
	result.seen.config.Settings = map[string]string{"NODE_ROLLOUT_LIMIT": "168h"}
	trip.reporter.metrics.observe(disk(), []operatorv1.OperatorCondition{progressing}, result)
	found := trip.gauges(t)
	for name, want := range map[string]float64{
		MetricRolloutNodes + " idle": 2, MetricRolloutNodes + " in_use": 5, MetricRolloutSince: 1700000000, MetricRolloutLimit: 604800,
	} {
		if found[name] != want {
			t.Errorf("%s is %f, want %f", name, found[name], want)
		}
	}
	trip.reporter.metrics.observe(disk(), []operatorv1.OperatorCondition{progressing}, outcome{})
	if _, there := trip.gauges(t)[MetricRolloutSince]; there {
		t.Error("it has a value without a roll-out")
	}
}

func TestMetricsOfTwoControllersInOneProcessAreRefused(t *testing.T) {
	trip := newTrip(t, disk())
	if _, err := newMetrics(trip.registry, "other"); err == nil {
		t.Error("both have the same metrics")
	}
}
