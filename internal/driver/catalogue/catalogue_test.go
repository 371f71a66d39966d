package catalogue

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	made := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(made), monitoringv1.AddToScheme(made)); err != nil {
		t.Fatal(err)
	}
	return made
}

// config returns the Config of a complete cluster.
func config(e Entry) Config {
	profile := openshift.IntermediateTLS()
	cfg := Config{
		Images: map[string]string{}, Version: "5.0.0", TLSMinVersion: profile.MinVersion, TLSCiphers: profile.Ciphers,
		Infrastructure: configv1.InfrastructureStatus{
			PlatformStatus: &configv1.PlatformStatus{Type: e.Platform}, ControlPlaneTopology: configv1.HighlyAvailableTopologyMode,
		},
		Kinds: map[schema.GroupKind]bool{ServiceMonitorKind(): true},
	}
	for _, variable := range e.Variables() {
		cfg.Images[variable] = "registry.example/" + strings.ToLower(variable) + ":5.0.0"
	}
	return cfg
}

func render(t *testing.T, e Entry, change func(*Config)) []client.Object {
	t.Helper()
	cfg := config(e)
	if change != nil {
		change(&cfg)
	}
	objects, err := e.Render(scheme(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func topology(mode configv1.TopologyMode) func(*Config) {
	return func(cfg *Config) { cfg.Infrastructure.ControlPlaneTopology = mode }
}

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants := map[string]func(*Config){
		"topology-external": topology(configv1.ExternalTopologyMode),
		"proxy": func(cfg *Config) {
			cfg.Proxy = configv1.ProxyStatus{HTTPProxy: "http://proxy.example:3128", HTTPSProxy: "http://proxy.example:3129", NoProxy: ".svc"}
		},
		"tls-modern":      func(cfg *Config) { cfg.TLSMinVersion, cfg.TLSCiphers = "VersionTLS13", nil },
		"without-metrics": func(cfg *Config) { cfg.Kinds = nil },
		"another-version": func(cfg *Config) { cfg.Version = "5.0.1" },
	}
	for _, e := range All() {
		base := render(t, e, nil)
		golden.Compare(t, e.Operator+"/base", base)
		compared := []string{"base"}
		for name, change := range variants {
			// Objects that a variant does not change have no golden file for it.
			changed := render(t, e, change)
			if e.Builtin && name == "tls-modern" {
				if diff := cmp.Diff(base, changed); diff != "" {
					t.Errorf("%s: %s changes (-base +variant):\n%s", e.Name, name, diff)
				}
				continue
			}
			compared = append(compared, name)
			t.Run(e.Operator+"/"+name, func(t *testing.T) { golden.CompareVariant(t, e.Operator+"/"+name, base, changed) })
		}
		golden.NoOthers(t, e.Operator, compared)
	}
}

// An operator of this repository removes its driver only if the platform does not match.
func TestOnlyDriversOfOthersMayHaveAGate(t *testing.T) {
	for _, e := range All() {
		if e.Builtin && e.Gate != "" {
			t.Errorf("%s waits for %s: when that is switched off, its StorageClasses and roles would be left", e.Name, e.Gate)
		}
	}
}

// One replica of the operator is enough for every topology.
func TestTopologiesWithAControlPlaneAreAlike(t *testing.T) {
	for _, e := range All() {
		base := render(t, e, nil)
		for _, mode := range []configv1.TopologyMode{
			configv1.HighlyAvailableArbiterMode, configv1.DualReplicaTopologyMode, configv1.SingleReplicaTopologyMode,
		} {
			if diff := cmp.Diff(base, render(t, e, topology(mode))); diff != "" {
				t.Errorf("%s, %s (-highly available +this):\n%s", e.Name, mode, diff)
			}
		}
		// With an unknown topology, the operator runs on any node.
		if diff := cmp.Diff(render(t, e, topology(configv1.ExternalTopologyMode)), render(t, e, topology(""))); diff != "" {
			t.Errorf("%s (-external +unknown):\n%s", e.Name, diff)
		}
	}
}

func TestEachPlatformHasItsDrivers(t *testing.T) {
	wanted := map[configv1.PlatformType]string{
		configv1.AWSPlatformType:       "ebs.csi.aws.com",
		configv1.AzurePlatformType:     "disk.csi.azure.com file.csi.azure.com",
		configv1.GCPPlatformType:       "pd.csi.storage.gke.io",
		configv1.IBMCloudPlatformType:  "vpc.block.csi.ibm.io",
		configv1.OpenStackPlatformType: "manila.csi.openstack.org cinder.csi.openstack.org",
		configv1.PowerVSPlatformType:   "powervs.csi.ibm.com",
		configv1.VSpherePlatformType:   "csi.vsphere.vmware.com",
		configv1.NonePlatformType:      "",
		configv1.BareMetalPlatformType: "",
		configv1.LibvirtPlatformType:   "",
		configv1.ExternalPlatformType:  "",
		configv1.NutanixPlatformType:   "",
		"Unknown":                      "",
		"":                             "",
	}
	openShift := strings.Fields(strings.Join(slices.Collect(maps.Values(wanted)), " "))
	if len(openShift) != 9 {
		t.Errorf("%d drivers", len(openShift))
	}
	for platform, names := range wanted {
		var found []string
		for _, e := range All() {
			// Additions to these may be for any platform.
			if e.Platform == platform && slices.Contains(openShift, e.Name) {
				found = append(found, e.Name)
			}
		}
		if diff := cmp.Diff(strings.Fields(names), found, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", platform, diff)
		}
	}
}

func TestNoTwoEntriesShareAName(t *testing.T) {
	taken := map[string]string{}
	for _, e := range All() {
		objects, err := e.Everything(scheme(t))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"driver " + e.Name, "condition " + e.Condition, "title " + e.Title}
		for _, object := range objects {
			names = append(names, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetNamespace()+"/"+object.GetName())
		}
		for _, name := range names {
			switch other := taken[name]; other {
			case "":
			case e.Operator:
				t.Errorf("two entries are for the operator %s, and both have %s: where it was OpenShift's, remove its old entry", other, name)
			default:
				t.Errorf("%s is that of %s and of %s", name, other, e.Operator)
			}
			taken[name] = e.Operator
		}
	}
}

func TestAMissingImageIsNamedWithItsDriver(t *testing.T) {
	for _, e := range All() {
		cfg := config(e)
		for _, variable := range e.Variables() {
			if !strings.HasSuffix(variable, "_IMAGE") {
				t.Errorf("%s: variable %s is no image", e.Name, variable)
			}
			image := cfg.Images[variable]
			cfg.Images[variable] = ""
			_, err := e.Render(scheme(t), cfg)
			if err == nil || !strings.Contains(err.Error(), variable+" of") || !strings.Contains(err.Error(), e.Name) {
				t.Errorf("%s without %s: error %v", e.Name, variable, err)
			}
			cfg.Images[variable] = image
		}
		if _, err := e.Render(scheme(t), cfg); err != nil {
			t.Error(err)
		}
	}
}

func TestNoPlaceholderSurvives(t *testing.T) {
	for _, e := range All() {
		objects, err := e.Everything(scheme(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(objects) < 6 {
			t.Errorf("%s has %d objects", e.Name, len(objects))
		}
		for _, object := range objects {
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "${") || object.GetLabels()[openshift.ManagedByLabel] != Operator {
				t.Errorf("%s:\n%s", e.Name, text)
			}
		}
	}
}

// folder returns the assets with one change.
func folder(t *testing.T, name, before, after string) fs.FS {
	t.Helper()
	changed := fstest.MapFS{}
	err := fs.WalkDir(assets, "assets", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(assets, file)
		changed[file] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil || changed[name] == nil || !strings.Contains(string(changed[name].Data), before) {
		t.Fatalf("%s has no %q: %v", name, before, err)
	}
	changed[name].Data = []byte(strings.Replace(string(changed[name].Data), before, after, 1))
	return changed
}

func TestAWrongAssetIsNamed(t *testing.T) {
	ebs := All()[0]
	for _, tc := range []struct{ file, before, after, want string }{
		{"assets/objects/metrics.yaml", "sessionAffinity", "sessionAfinity", `asset metrics.yaml: strict decoding error: unknown field "spec.sessionAfinity"`},
		{"assets/deployment.yaml", "replicas", "replica", `asset assets/deployment.yaml: strict decoding error: unknown field "spec.replica"`},
		{"assets/container-builtin.yaml", "imagePullPolicy", "pull", `asset assets/container-builtin.yaml`},
		{"assets/binding.yaml", "${ROLE}", "${ROLL}", `asset assets/binding.yaml: unknown placeholder ${ROLL}`},
	} {
		_, err := ebs.load(folder(t, tc.file, tc.before, tc.after), scheme(t), config(ebs))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", tc.file, err, tc.want)
		}
	}
}

func TestWhatACloudLacksIsNotInstalled(t *testing.T) {
	for _, tc := range []struct {
		name   string
		entry  Entry
		status configv1.InfrastructureStatus
		want   string
	}{
		{
			"IBM runs the control plane", ibmVPCBlock(), configv1.InfrastructureStatus{ControlPlaneTopology: configv1.ExternalTopologyMode},
			"where IBM Cloud runs the control plane, IBM Cloud also installs the driver",
		},
		{"IBM Cloud", ibmVPCBlock(), configv1.InfrastructureStatus{ControlPlaneTopology: configv1.HighlyAvailableTopologyMode}, ""},
	} {
		if got := tc.entry.Unfit(tc.status); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Two operators at once would conflict, and SCCs would reject one that runs as root.
func TestOperatorsAreRestrictedAndAlone(t *testing.T) {
	looked := 0
	for _, e := range All() {
		for _, object := range render(t, e, nil) {
			operator, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			looked++
			pod := operator.Spec.Template.Spec
			if *operator.Spec.Replicas != 1 || operator.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
				t.Errorf("%s: %d replicas, %s", e.Name, *operator.Spec.Replicas, operator.Spec.Strategy.Type)
			}
			context := pod.Containers[0].SecurityContext
			if len(pod.Containers) != 1 || !*pod.SecurityContext.RunAsNonRoot || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation {
				t.Errorf("%s: %+v", e.Name, pod)
			}
			if probed := pod.Containers[0].ReadinessProbe != nil && pod.Containers[0].LivenessProbe != nil; probed != e.Builtin {
				t.Errorf("%s: probes %v", e.Name, probed)
			} else if probed && pod.Containers[0].ReadinessProbe.PeriodSeconds > 2 {
				t.Errorf("%s is ready %d s late", e.Name, pod.Containers[0].ReadinessProbe.PeriodSeconds)
			}
		}
	}
	if looked != len(All()) {
		t.Errorf("%d Deployments of %d operators", looked, len(All()))
	}
}

// An external control plane can use any port for its API server, and the usual policy for API servers opens only two.
func TestOperatorsReachAnExternalControlPlaneOnAnyPort(t *testing.T) {
	for _, e := range All() {
		for _, mode := range []configv1.TopologyMode{configv1.ExternalTopologyMode, configv1.HighlyAvailableTopologyMode} {
			for _, object := range render(t, e, topology(mode)) {
				operator, ok := object.(*appsv1.Deployment)
				if !ok {
					continue
				}
				open := operator.Spec.Template.Labels["openshift.storage.network-policy.all-egress"] == "allow"
				if want := e.Cloud || mode == configv1.ExternalTopologyMode; open != want {
					t.Errorf("%s, topology %s: all egress %t, want %t", e.Name, mode, open, want)
				}
			}
		}
	}
}
