package awsefs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

func config(t *testing.T, change func(*driver.Config)) driver.Config {
	t.Helper()
	cfg := driver.Config{
		Namespace: "openshift-cluster-csi-drivers",
		Images: map[string]string{
			"DRIVER_IMAGE":                "registry.example/driver:v1",
			"PROVISIONER_IMAGE":           "registry.example/provisioner:v1",
			"NODE_DRIVER_REGISTRAR_IMAGE": "registry.example/registrar:v1",
			"LIVENESS_PROBE_IMAGE":        "registry.example/livenessprobe:v1",
			"KUBE_RBAC_PROXY_IMAGE":       "registry.example/kube-rbac-proxy:v1",
			"NODE_HEALTH_IMAGE":           "registry.example/node-health:v1",
		},
		Kinds: map[schema.GroupKind]bool{
			driver.CredentialsRequestKind(): true,
			driver.ServiceMonitorKind():     true,
		},
		ServingCertificates:  true,
		InfrastructureID:     "dev-x7k2p",
		Region:               "us-east-1",
		TLS:                  openshift.IntermediateTLS(),
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode,
		CredentialsMode:      operatorv1.CloudCredentialsModeDefault,
		Minting:              driver.Mints,
		RoleARNs:             map[string]string{},
		DependencyHashes: map[driver.Workload]map[string]string{
			driver.Controller: {controllerSecret: "1234"}, driver.Node: {nodeSecret: "abcd"},
		},
	}
	var err error
	if cfg.Settings, err = Driver().ReadSettings(func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func render(t *testing.T, cfg driver.Config) []client.Object {
	t.Helper()
	objects, err := tryRender(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func tryRender(t *testing.T, cfg driver.Config) ([]client.Object, error) {
	t.Helper()
	efs := Driver()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return efs.Render(scheme, cfg)
}

func topology(mode configv1.TopologyMode) func(*driver.Config) {
	return func(cfg *driver.Config) { cfg.ControlPlaneTopology = mode }
}

func external(workers configv1.TopologyMode) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.ControlPlaneTopology, cfg.InfrastructureTopology = configv1.ExternalTopologyMode, workers
	}
}

// servers returns the TLS profile in an APIServer.
func servers(spec map[string]any) func(*driver.Config) {
	return func(cfg *driver.Config) {
		apiServer := map[string]any{"spec": map[string]any{"tlsSecurityProfile": spec}}
		if cluster, err := openshift.ServerTLSOf(&unstructured.Unstructured{Object: apiServer}); err == nil {
			cfg.TLS = cluster.Profile
		}
	}
}

func custom(cipher string) map[string]any {
	return map[string]any{"type": "Custom", "custom": map[string]any{"minTLSVersion": "VersionTLS12", "ciphers": []any{cipher}}}
}

func set(variable, value string) func(*driver.Config) {
	return func(cfg *driver.Config) { cfg.Settings[variable] = value }
}

func volumeMetricsOf(walk *operatorv1.AWSEFSVolumeMetricsRecursiveWalkConfig) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.AWSDriverType,
			AWS: &operatorv1.AWSCSIDriverConfigSpec{EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{
				State: operatorv1.AWSEFSVolumeMetricsRecursiveWalk, RecursiveWalk: walk,
			}},
		}
	}
}

// ownVariants are the supported settings of clusters and administrators.
func ownVariants() map[string]func(*driver.Config) {
	return map[string]func(*driver.Config){
		"topology-single-replica":            topology(configv1.SingleReplicaTopologyMode),
		"topology-dual-replica":              topology(configv1.DualReplicaTopologyMode),
		"topology-highly-available-arbiter":  topology(configv1.HighlyAvailableArbiterMode),
		"topology-external":                  external(configv1.HighlyAvailableTopologyMode),
		"topology-external-with-one-worker":  external(configv1.SingleReplicaTopologyMode),
		"credentials-passthrough":            withoutNodeSecret(func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModePassthrough }),
		"credentials-default-passed-through": withoutNodeSecret(func(cfg *driver.Config) { cfg.Minting = driver.PassesThrough }),
		"credentials-default-not-known-yet":  withoutNodeSecret(func(cfg *driver.Config) { cfg.Minting = driver.MintingUnknown }),
		"credentials-manual":                 withoutNodeSecret(func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual }),
		"credentials-sts":                    withoutNodeSecret(sts("ROLEARN")),
		"credentials-sts-with-node-role":     sts("ROLEARN", "NODE_ROLEARN"),
		"trusted-ca-bundle": func(cfg *driver.Config) {
			for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
				cfg.DependencyHashes[workload]["aws-efs-csi-driver-trusted-ca-bundle"] = "5678"
			}
		},
		"proxy": func(cfg *driver.Config) {
			cfg.Proxy = configv1.ProxyStatus{
				HTTPProxy: "http://proxy.example:3128", HTTPSProxy: "http://proxy.example:3129",
				NoProxy: ".cluster.local,.svc,10.0.0.0/16,169.254.169.254,172.30.0.0/16",
			}
		},
		"proxy-for-https-only": func(cfg *driver.Config) {
			cfg.Proxy.HTTPSProxy, cfg.Proxy.NoProxy = "http://proxy.example:3129", "172.30.0.0/16"
		},
		"fips":           func(cfg *driver.Config) { cfg.FIPS = true },
		"fips-in-europe": func(cfg *driver.Config) { cfg.FIPS, cfg.Region = true, "eu-west-1" },
		"rolling-update": func(cfg *driver.Config) { cfg.Rollout = driver.RollingUpdate },
		"tags": func(cfg *driver.Config) {
			cfg.ResourceTags = []configv1.AWSResourceTag{
				{Key: "owner", Value: "storage"}, {Key: "cost:center", Value: "a=1:b"}, {Key: "name", Value: "John Doe"},
			}
		},
		"tls-old":                     servers(map[string]any{"type": "Old"}),
		"tls-intermediate":            servers(map[string]any{"type": "Intermediate"}),
		"tls-modern":                  servers(map[string]any{"type": "Modern"}),
		"tls-custom":                  servers(custom("ECDHE-RSA-AES128-GCM-SHA256")),
		"tls-custom-without-http2":    servers(custom("ECDHE-RSA-AES256-GCM-SHA384")),
		"log-level":                   func(cfg *driver.Config) { cfg.Spec.LogLevel = operatorv1.Debug },
		"volume-metrics":              volumeMetricsOf(nil),
		"volume-metrics-with-numbers": volumeMetricsOf(&operatorv1.AWSEFSVolumeMetricsRecursiveWalkConfig{RefreshPeriodMinutes: 60, FSRateLimit: 10}),
		"storage-class-that-is-there": func(cfg *driver.Config) { cfg.Classes = classes("StorageClass/efs-sc") },
		"node-memory-limit":           set("NODE_MEMORY_LIMIT", "4Gi"),
		"delete-root-directories":     set("DELETE_ACCESS_POINT_ROOT_DIR", "true"),
		"node-iam-mounts":             set("NODE_IAM_MOUNTS", "true"),
		"watch-mounts":                set("WATCH_MOUNTS", "true"),
		"iam-of-this-cluster":         set("IAM_CLUSTER_ID", "dev-x7k2p"),
		"volume-attach-limit":         set("VOLUME_ATTACH_LIMIT", "40"),
		"provisioner": func(cfg *driver.Config) {
			cfg.Settings["PROVISIONER_WORKERS"], cfg.Settings["PROVISIONER_TIMEOUT"] = "10", "90s"
		},
		"driver-metrics":  set("DRIVER_VERSION", "3.4.0"),
		"without-metrics": func(cfg *driver.Config) { cfg.Kinds = map[schema.GroupKind]bool{driver.CredentialsRequestKind(): true} },
		"kubernetes-without-openshift": func(cfg *driver.Config) {
			cfg.Kinds = nil
			cfg.ServingCertificates = false
			cfg.InfrastructureID, cfg.Region = "", ""
			cfg.ControlPlaneTopology = ""
		},
	}
}

func sts(variables ...string) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual
		for _, variable := range variables {
			cfg.RoleARNs[variable] = "arn:aws:iam::123456789012:role/efs-" + variable
		}
	}
}

// withoutNodeSecret returns a cluster in which the nodes' Secret is missing or rejected.
func withoutNodeSecret(change func(*driver.Config)) func(*driver.Config) {
	return func(cfg *driver.Config) {
		delete(cfg.DependencyHashes[driver.Node], nodeSecret)
		change(cfg)
	}
}

func TestRenderMatchesReviewedFiles(t *testing.T) {
	base := render(t, config(t, nil))
	golden.Compare(t, "base", base)
	// The driver's profile is for test/real.
	golden.NoOthers(t, "", append(slices.Collect(maps.Keys(ownVariants())), "base", "real"))
	for name, change := range ownVariants() {
		t.Run(name, func(t *testing.T) {
			golden.CompareVariant(t, name, base, render(t, config(t, change)))
		})
	}
}

// classes returns objects of a cluster, from KIND/NAME.
func classes(names ...string) []driver.Class {
	var found []driver.Class
	for _, name := range names {
		kind, name, _ := strings.Cut(name, "/")
		found = append(found, driver.Class{Kind: kind, Name: name})
	}
	return found
}

// In OpenShift's documentation, the administrator creates StorageClass efs-sc. The operator must not use this name.
func TestTheStorageClassIsKeptAndNotMade(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*driver.Config)
		want   bool
	}{
		"a new installation":             {nil, false},
		"an earlier version has made it": {func(cfg *driver.Config) { cfg.Classes = classes("StorageClass/other", "StorageClass/efs-sc") }, true},
		"only another class is there":    {func(cfg *driver.Config) { cfg.Classes = classes("StorageClass/other") }, false},
		"another kind has the name":      {func(cfg *driver.Config) { cfg.Classes = classes("VolumeSnapshotClass/efs-sc") }, false},
		"it is there, and is to be removed": {func(cfg *driver.Config) {
			cfg.Classes, cfg.Spec.StorageClassState = classes("StorageClass/efs-sc"), operatorv1.RemovedStorageClass
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := slices.ContainsFunc(render(t, config(t, tc.change)), func(object client.Object) bool {
				return object.GetObjectKind().GroupVersionKind().Kind == "StorageClass"
			})
			if found != tc.want {
				t.Errorf("a StorageClass is rendered: %v, want %v", found, tc.want)
			}
		})
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	everything, err := Driver().Everything(scheme, "openshift-cluster-csi-drivers", config(t, nil).Settings)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(everything, func(object client.Object) bool { return object.GetName() == "efs-sc" }) {
		t.Error("an uninstallation would leave the StorageClass of an earlier version")
	}
}
