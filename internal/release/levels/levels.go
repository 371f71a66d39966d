// Package levels generates the service levels of drivers. These are alerts, dashboards, and Prometheus rules that measure whether the drivers meet
// their objectives.
//
// A level counts good and bad events. An event is a call of a CSI driver, or a second in which something worked or did not work. Each level is one
// row of a table. The alerts are the same for all levels and drivers, because all recorded series have the labels driver and sli.
package levels

import (
	"fmt"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The recorded series. All have the labels driver and sli.
const (
	Total  = "csi_driver:sli_total:rate5m"
	Bad    = "csi_driver:sli_bad:rate5m"
	Budget = "csi_driver:sli_budget:ratio"
	// Burn is the beginning of the names of the burn rates. The length of a window follows, such as 6h. A burn rate of 2 means that the error budget
	// shrinks twice as fast as allowed. OpenShift's telemetry reads only series that its list names. Series that sum up a cluster begin with "cluster:"
	// (openshift/cluster-monitoring-operator f581865b, manifests/0000_50_cluster-monitoring-operator_04-config.yaml).
	Burn = "cluster:csi_driver_budget_burn:rate"
)

// Level is an objective of a driver.
type Level struct {
	// SLI is the value of label sli.
	SLI string
	// Title is the title in dashboards.
	Title string
	// Objective is the percentage of good events in 30 days.
	Objective float64
	// Within is the longest time that a good event takes, or 0 if the events of this level have no time limit.
	Within time.Duration
	// total, good and bad are PromQL expressions that count all, good and bad events. Exactly one of good and bad is set.
	total, good, bad string
}

// Set is a set of drivers with the same levels.
type Set struct {
	// Name is the name of the PrometheusRule. Namespace is its namespace, and the namespace of the drivers' operators.
	Name, Namespace string
	// Alert is the name of the alerts. Runbook is the page of the guide whose section has the same name as the alerts.
	Alert, Runbook string
	// Subject names the drivers in alerts.
	Subject string
	Drivers []string
	Levels  []Level
}

// matcher returns the part of a PromQL selector that selects the drivers by a label.
func matcher(label string, drivers []string) string {
	if len(drivers) == 1 {
		return fmt.Sprintf("%s=%q", label, drivers[0])
	}
	var quoted []string
	for _, driver := range drivers {
		quoted = append(quoted, strings.ReplaceAll(driver, ".", "[.]"))
	}
	return fmt.Sprintf("%s=~%q", label, strings.Join(quoted, "|"))
}

// With these gRPC codes, neither the driver nor its storage system is at fault. The request is wrong, a quota is full, or the same call is still
// running.
const notTheDriver = "InvalidArgument|NotFound|AlreadyExists|ResourceExhausted|FailedPrecondition|OutOfRange|Aborted|Canceled"

// calls is a level of calls of CSI methods. A good call ends with code OK within the given number of seconds. This number must be the upper limit of
// a bucket of the histogram. Prometheus 2 keeps the scraped label le of a bucket, such as 50. Prometheus 3 writes 50.0 (docs/migration.md, "The le
// and quantile label values").
//
// The metric is csi_sidecar_operations_seconds of kubernetes-csi/csi-lib-utils v0.25.0, metrics/metrics.go, or csi_operations_seconds of the
// kubelet: kubernetes v1.36.3, pkg/volume/util/metrics.go. Both have these labels and buckets.
func calls(level Level, metric, method string, seconds int, drivers []string) Level {
	selects := fmt.Sprintf("%s,method_name=~%q", matcher("driver_name", drivers), method)
	summed := func(selector string) string {
		return fmt.Sprintf("sum by (driver) (label_replace(rate(%s[5m]), \"driver\", \"$1\", \"driver_name\", \"(.+)\"))", selector)
	}
	level.total = summed(fmt.Sprintf("%s_count{%s,grpc_status_code!~%q}", metric, selects, notTheDriver))
	level.good = summed(fmt.Sprintf("%s_bucket{%s,grpc_status_code=\"OK\",le=~\"%d([.]0)?\"}", metric, selects, seconds))
	level.Within = time.Duration(seconds) * time.Second
	return level
}

func provisioning(seconds int, drivers []string) Level {
	return calls(Level{SLI: "provisioning", Title: "Volumes are created", Objective: 99},
		"csi_sidecar_operations_seconds", "/csi[.]v1[.]Controller/CreateVolume", seconds, drivers)
}

func mounting(seconds int, drivers []string) Level {
	return calls(Level{SLI: "mounting", Title: "Volumes are mounted", Objective: 99},
		"csi_operations_seconds", "/csi[.]v1[.]Node/Node(Stage|Publish)Volume", seconds, drivers)
}

// nodes returns a level that measures the share of ready nodes with an available node pod, over time. Nodes that are not ready, such as nodes that
// restart for an update, don't count.
func nodes(drivers []string) Level {
	pods := func(state string) string {
		return fmt.Sprintf("max by (driver) (csi_operator_node_pods{%s,state=%q})", matcher("driver", drivers), state)
	}
	return Level{
		SLI: "nodes", Title: "Nodes have the driver", Objective: 99.5, total: pods("desired"),
		bad: "clamp_min(\n  " + pods("desired") + " - " + pods("available") + "\n  - on () group_left ()\n" +
			"  (count(kube_node_status_condition{condition=\"Ready\",status=\"true\"} == 0) or vector(0)), 0)",
	}
}

// The longest times that good events of EFS take. The histogram of SharedVolumes has a bucket with limit readyWithin. rolloutWithin is the default of
// setting NODE_ROLLOUT_LIMIT, which an administrator may change.
const (
	readyWithin   = 30 * time.Second
	rolloutWithin = 7 * 24 * time.Hour
)

// repair returns a level of time. Time is good while the operator is not Degraded. An operator that is not Degraded reverts damage and installs what
// is missing.
func repair(drivers []string) Level {
	degraded := fmt.Sprintf("csi_operator_condition{%s,type=\"Degraded\"}", matcher("driver", drivers))
	return Level{
		SLI: "repair", Title: "The operator repairs the driver", Objective: 99, Within: status.FailureWindow,
		total: "max by (driver) (" + degraded + " >= bool 0)", bad: "min by (driver) (" + degraded + ")",
	}
}

// progress returns a level of time. Time is good while no node pod is outdated, and for 15 minutes after each replacement of a node pod.
func progress(drivers []string) Level {
	pods := func(state string) string {
		return fmt.Sprintf("max by (driver) (csi_operator_node_pods{%s,state=%q})", matcher("driver", drivers), state)
	}
	updated := fmt.Sprintf("csi_operator_node_pods{%s,state=\"updated\"}", matcher("driver", drivers))
	return Level{
		SLI: "rollout", Title: "Rollouts make progress", Objective: 99, total: pods("desired") + " >= bool 0",
		bad: "(" + pods("desired") + " > bool " + pods("updated") + ")\n* (max by (driver) (changes(" + updated + "[15m])) == bool 0)",
	}
}

// Payload returns the service levels of the drivers in OpenShift's release.
func Payload(drivers []string, namespace string) Set {
	return Set{
		Name: "csi-driver-service-levels", Namespace: namespace, Alert: "CSIDriverErrorBudgetBurn",
		Runbook: "storage-alerts.md", Subject: "a CSI driver of the cluster", Drivers: drivers,
		Levels: []Level{provisioning(120, drivers), mounting(120, drivers), nodes(drivers), repair(drivers), progress(drivers)},
	}
}

// EFS returns the service levels of the EFS driver. Some of them use metrics that only the operator of this driver has.
func EFS(driver, namespace string) Set {
	drivers := []string{driver}
	is := matcher("driver", drivers)
	const ready = "csi_operator_shared_volume_ready_seconds"
	named := func(expression string) string {
		return fmt.Sprintf("label_replace(sum(rate(%s[5m])), \"driver\", %q, \"\", \"\")", expression, driver)
	}
	limit := "max by (driver) (csi_operator_node_rollout_limit_seconds{" + is + "})"
	stalled := "csi_operator_migration_stalled{" + is + "}"
	return Set{
		Name: "aws-efs-csi-driver-service-levels", Namespace: namespace, Alert: "AWSEFSErrorBudgetBurn",
		Runbook: "alerts.md", Subject: "the AWS EFS CSI driver", Drivers: drivers,
		Levels: []Level{
			provisioning(25, drivers), mounting(25, drivers),
			{
				SLI: "ready", Title: "SharedVolumes become Ready", Objective: 99, Within: readyWithin,
				total: named(ready + "_count"), good: named(fmt.Sprintf("%s_bucket{le=~\"%d([.]0)?\"}", ready, readyWithin/time.Second)),
			},
			nodes(drivers), repair(drivers),
			{
				SLI: "rollout", Title: "Rollouts end in time", Objective: 99, Within: rolloutWithin,
				total: "max by (driver) (csi_operator_clustercsidriver_exists{" + is + "} == 1)",
				bad: "((time() - max by (driver) (csi_operator_node_rollout_since_timestamp_seconds{" + is + "})) > bool " + limit + ")\n" +
					"* (sum by (driver) (csi_operator_node_rollout_waiting_nodes{" + is + "}) > bool 0)",
			},
			{
				SLI: "takeover", Title: "Migrations make progress", Objective: 95,
				total: "max by (driver) (" + stalled + " >= bool 0)", bad: "min by (driver) (" + stalled + ")",
			},
		},
	}
}
