// Package variants compares the rendered objects of drivers with golden files, in the variants of configuration that every driver supports. It also
// compares our parsers with recorded results of the drivers' parsers.
package variants

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

// Config returns the Config of a complete OpenShift cluster on the platform of a driver.
func Config(t *testing.T, d driver.Driver) driver.Config {
	t.Helper()
	cfg := driver.Config{
		Namespace: d.OperandNamespace(kube.DefaultNamespace), Images: map[string]string{}, Kinds: map[schema.GroupKind]bool{}, ServingCertificates: true,
		InfrastructureID: "dev-x7k2p", Platform: &configv1.PlatformStatus{Type: d.Platform}, TLS: openshift.IntermediateTLS(),
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode,
	}
	for _, variable := range d.Images() {
		cfg.Images[variable] = "registry.example/" + variable + ":v1"
	}
	for _, kind := range d.OptionalKinds() {
		cfg.Kinds[kind] = true
	}
	var err error
	if cfg.Settings, err = d.ReadSettings(func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Render renders a driver with a changed Config.
func Render(t *testing.T, d driver.Driver, change func(*driver.Config)) []client.Object {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config(t, d)
	if change != nil {
		change(&cfg)
	}
	objects, err := d.Render(scheme, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// CompareAll compares the rendered objects of a driver with its golden files: the base, the common variants, and its own. The CredentialsRequests of
// the release have a file, too.
func CompareAll(t *testing.T, d driver.Driver, own map[string]func(*driver.Config)) {
	t.Helper()
	base := Render(t, d, nil)
	golden.Compare(t, "base", base)
	compared := []string{"base", "payload"}
	for _, variants := range []map[string]func(*driver.Config){common(d), own} {
		for name, change := range variants {
			compared = append(compared, name)
			t.Run(name, func(t *testing.T) { golden.CompareVariant(t, name, base, Render(t, d, change)) })
		}
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	requests, err := d.PayloadRequests(scheme, kube.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "payload", requests)
	// The file "real" is the driver's profile for test/real.
	golden.NoOthers(t, "", append(compared, "real"))
}

// common returns the variants that every driver supports.
func common(d driver.Driver) map[string]func(*driver.Config) {
	without := func(kind schema.GroupKind) func(*driver.Config) {
		return func(cfg *driver.Config) { cfg.Kinds[kind] = false }
	}
	topology := func(controlPlane, workers configv1.TopologyMode) func(*driver.Config) {
		return func(cfg *driver.Config) { cfg.ControlPlaneTopology, cfg.InfrastructureTopology = controlPlane, workers }
	}
	return map[string]func(*driver.Config){
		"topology-single-replica":           topology(configv1.SingleReplicaTopologyMode, configv1.SingleReplicaTopologyMode),
		"topology-dual-replica":             topology(configv1.DualReplicaTopologyMode, configv1.HighlyAvailableTopologyMode),
		"topology-highly-available-arbiter": topology(configv1.HighlyAvailableArbiterMode, configv1.HighlyAvailableTopologyMode),
		"topology-external":                 topology(configv1.ExternalTopologyMode, configv1.HighlyAvailableTopologyMode),
		"topology-external-with-one-worker": topology(configv1.ExternalTopologyMode, configv1.SingleReplicaTopologyMode),
		"proxy": func(cfg *driver.Config) {
			cfg.Proxy = configv1.ProxyStatus{HTTPProxy: "http://proxy.example:3128", HTTPSProxy: "http://proxy.example:3129", NoProxy: ".svc"}
		},
		"inputs": func(cfg *driver.Config) {
			bundle := d.TrustedCABundle()
			cfg.DependencyHashes = map[driver.Workload]map[string]string{
				driver.Controller: {bundle: "5678"}, driver.Node: {bundle: "5678"},
			}
			if len(d.Credentials) > 0 {
				cfg.DependencyHashes[driver.Controller][d.Credentials[0].Secret] = "1234"
			}
		},
		"tls-modern": func(cfg *driver.Config) { cfg.TLS = openshift.TLSProfile{MinVersion: "VersionTLS13"} },
		"log-level":  func(cfg *driver.Config) { cfg.Spec.LogLevel = operatorv1.Debug },
		"another-default-class": func(cfg *driver.Config) {
			for _, kind := range []string{"StorageClass", "VolumeSnapshotClass"} {
				cfg.Classes = append(cfg.Classes, driver.Class{Kind: kind, Name: "theirs", Default: "true"})
			}
		},
		"without-storage-classes":  func(cfg *driver.Config) { cfg.Spec.StorageClassState = operatorv1.RemovedStorageClass },
		"without-metrics":          without(driver.ServiceMonitorKind()),
		"without-snapshot-classes": without(driver.VolumeSnapshotClassKind()),
		"kubernetes-without-openshift": func(cfg *driver.Config) {
			cfg.Kinds, cfg.ServingCertificates, cfg.Platform = nil, false, nil
			cfg.InfrastructureID, cfg.Region, cfg.ControlPlaneTopology = "", "", ""
		},
	}
}
