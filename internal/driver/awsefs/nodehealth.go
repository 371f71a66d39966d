package awsefs

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// nodeHealth is the name of the DaemonSet that reports stalled mounts. The names of most of its objects begin with this name.
const nodeHealth = "aws-efs-node-health"

// watchesMounts reports whether the cluster gets DaemonSet nodeHealth. Only Prometheus reads the metrics of the DaemonSet, so a cluster without
// ServiceMonitors does not get the DaemonSet.
func watchesMounts(cfg driver.Config) bool {
	return cfg.ServingCertificates && cfg.Settings[WatchMounts] == "true" && cfg.Kinds[driver.ServiceMonitorKind()]
}

// WatchesMounts reports whether a cluster with these kinds gets DaemonSet nodeHealth. A cluster that serves kind Infrastructure is OpenShift, which
// signs certificates for Services.
func WatchesMounts(settings map[string]string, kinds map[schema.GroupKind]bool) bool {
	return watchesMounts(driver.Config{Settings: settings, Kinds: kinds, ServingCertificates: kinds[openshift.InfrastructureKind()]})
}

// wanted reports whether the cluster gets an object. The objects of nodehealth.yaml depend on watchesMounts. The cluster always gets all other
// objects.
func wanted(cfg driver.Config, object client.Object) bool {
	switch object.GetName() {
	case nodeHealth, nodeHealth + "-metrics", nodeHealth + "-monitor", "efs-node-health-binding":
		return watchesMounts(cfg)
	}
	return true
}

// serveHealth sets the cluster's TLS profile in the proxy of the DaemonSet.
func serveHealth(cfg driver.Config, pods driver.Pods) error {
	if pods.Name != nodeHealth {
		return nil
	}
	proxy, err := pods.Container("kube-rbac-proxy")
	if err != nil {
		return err
	}
	proxy.Args = append(proxy.Args, driver.TLSArguments(cfg.TLS)...)
	return nil
}
