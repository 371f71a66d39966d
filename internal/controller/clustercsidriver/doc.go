// Package clustercsidriver reconciles a ClusterCSIDriver to an installed CSI driver. ARCHITECTURE.md calls one reconcile the trip, and shows its
// steps.
//
// observe.go reads everything into one value. config.go, featuregates.go and inputs.go fill the driver.Config: the cluster's configuration, the
// feature gates, and hashes of what pods read when they start. conditions.go and conditions_credentials.go are pure except for the trackers of
// kube/status, which have a clock. report.go writes the status, events.go and metrics.go report the rest.
//
// removal.go removes the driver, on request or because the platform has changed (unwanted.go). While pods use its volumes, it keeps the driver
// running. Then it removes the workloads, waits for their pods, removes the rest in reverse order, and drops the finalizers.
package clustercsidriver
