// Package clustercsidriver reconciles a ClusterCSIDriver to an installed CSI driver. ARCHITECTURE.md calls one reconcile the trip, and shows its
// steps.
//
// observe.go reads everything into one value. config.go, featuregates.go and inputs.go fill the driver.Config: the cluster's configuration, the
// feature gates, and hashes of what pods read when they start. conditions.go and conditions_credentials.go are pure except for the trackers of
// kube/status, which have a clock. report.go writes the status. events.go and metrics.go report everything else.
//
// removal.go removes the driver, on request or because the platform has changed (unwanted.go). While pods use the driver's volumes, the operator
// keeps the driver running. When no pod uses a volume, the operator removes the workloads and waits until their pods have ended. Last, it removes
// everything else in reverse order, and drops the finalizers.
package clustercsidriver
