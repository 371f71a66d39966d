// Package clustercsidriver is the trip: a ClusterCSIDriver becomes an installed CSI driver. ARCHITECTURE.md shows its steps.
//
// observe.go reads into one value. config.go, featuregates.go and inputs.go fill the driver.Config: the cluster's own configuration, the gates of the
// API server, and hashes of what pods read when they start. conditions.go and credentials.go are pure but for the trackers of kube/status, which have
// a clock. report.go makes the status of them, events.go and metrics.go report the rest.
//
// removal.go uninstalls the driver, on demand, or because the platform has changed (unwanted.go). It waits for pods that use volumes, and keeps the
// driver up meanwhile. Then it removes the workloads, waits for their pods, removes the rest in reverse order, and drops the finalizers.
package clustercsidriver
