package clustercsidriver

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestTheInfrastructureSaysWhereTheDriverRuns(t *testing.T) {
	const incomplete = "Infrastructure cluster has no infrastructureName or controlPlaneTopology in its status yet: the operator rolls out the driver " +
		"when it has both"
	aws := infrastructure()
	gcp := infrastructure()
	gcp.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.GCPPlatformType, GCP: &configv1.GCPPlatformStatus{Region: "venus-2"}}
	bare := infrastructure()
	bare.Status.PlatformStatus = nil
	nameless, shapeless := infrastructure(), infrastructure()
	nameless.Status.InfrastructureName, shapeless.Status.ControlPlaneTopology = "", ""
	usual := func(change func(cfg *driver.Config)) driver.Config {
		cfg := driver.Config{
			ServingCertificates: true, InfrastructureID: "cluster-x1", ControlPlaneTopology: configv1.HighlyAvailableTopologyMode,
			InfrastructureTopology: configv1.SingleReplicaTopologyMode,
		}
		change(&cfg)
		return cfg
	}
	for name, tc := range map[string]struct {
		infrastructure *configv1.Infrastructure
		unserved       bool
		want           driver.Config
		err            string
	}{
		"AWS": {infrastructure: aws, want: usual(func(cfg *driver.Config) {
			cfg.Region, cfg.ResourceTags, cfg.Platform = "mars-1", []configv1.AWSResourceTag{{Key: "a", Value: "b"}}, aws.Status.PlatformStatus
		})},
		"GCP":          {infrastructure: gcp, want: usual(func(cfg *driver.Config) { cfg.Region, cfg.Platform = "venus-2", gcp.Status.PlatformStatus })},
		"no platform":  {infrastructure: bare, want: usual(func(*driver.Config) {})},
		"no name yet":  {infrastructure: nameless, err: incomplete},
		"no topology":  {infrastructure: shapeless, err: incomplete},
		"none":         {err: "Infrastructure cluster is missing: restore it, every OpenShift cluster needs it"},
		"no OpenShift": {unserved: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Environment: Environment{Kinds: allKinds()}}
			if tc.unserved {
				r.Kinds = nil
			}
			var cfg driver.Config
			err := r.infrastructure(tc.infrastructure, &cfg)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, cfg); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTheClassesOfAClusterSayWhichIsTheDefault(t *testing.T) {
	annotated := func(object client.Object, kind, value string) client.Object {
		object.SetAnnotations(map[string]string{driver.DefaultAnnotation(kind): value})
		return object
	}
	snapshots := func(name, driver string) *snapshotv1.VolumeSnapshotClass {
		class := &snapshotv1.VolumeSnapshotClass{Driver: driver}
		class.Name = name
		return class
	}
	objects := []client.Object{
		annotated(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Provisioner: "other"}, "StorageClass", "true"),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Provisioner: diskName},
		annotated(snapshots("s", diskName), "VolumeSnapshotClass", "false"), snapshots("other", "other.example.com"),
	}
	storage := []driver.Class{{Kind: "StorageClass", Name: "a", Default: "true"}, {Kind: "StorageClass", Name: "b"}}
	for name, tc := range map[string]struct {
		one, unserved bool
		more          []client.Object
		want          []driver.Class
	}{
		"a driver with one class": {one: true},
		"a driver with one, which is there": {
			one: true, more: []client.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk-sc"}}},
			want: []driver.Class{{Kind: "StorageClass", Name: "disk-sc"}},
		},
		"a driver with classes of its own":  {want: append(storage[:2:2], driver.Class{Kind: "VolumeSnapshotClass", Name: "s", Default: "false"})},
		"a cluster that takes no snapshots": {unserved: true, want: storage},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			if !tc.one {
				d.StorageClass = ""
			}
			trip := newTrip(t, d, append(tc.more, objects...)...)
			trip.Kinds[driver.VolumeSnapshotClassKind()] = !tc.unserved
			got, err := trip.classes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The administrator's choice would be lost in the moment in which the cache has none.
func TestAClassThatIsMadeAnewKeepsWhatItSaysAboutBeingTheDefault(t *testing.T) {
	d := disk()
	d.StorageClass = ""
	trip := newTrip(t, d)
	remade := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}}
	remade.SetName("b")
	remade.SetAnnotations(map[string]string{driver.DefaultAnnotation("StorageClass"): "false"})
	trip.applier.Mutations.Remember(remade)
	got, err := trip.classes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]driver.Class{{Kind: "StorageClass", Name: "b", Default: "false"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConfigHoldsAllThatRenderingDependsOn(t *testing.T) {
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.ProxyStatus{HTTPSProxy: "https://proxy"}}
	credential := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	credential.Spec.CredentialsMode = operatorv1.CloudCredentialsModeManual
	trip := newTrip(t, disk(), infrastructure(), proxy, credential)
	trip.FIPS, trip.RoleARNs = true, map[string]string{"ROLEARN": "arn"}
	trip.Settings = map[string]string{"SETTING": "value"}
	cr, _ := healthy()
	cr.Spec.LogLevel = operatorv1.Debug
	cfg, problems, err := trip.config(t.Context(), cr, live{}, migration.State{})
	if err != nil || problems != nil {
		t.Fatal(problems, err)
	}
	want := driver.Config{
		Namespace: here, Images: trip.Images, RoleARNs: map[string]string{"ROLEARN": "arn"}, Settings: map[string]string{"SETTING": "value"},
		FeatureGates: map[string]bool{driver.SchedulingGate: false},
		FIPS:         true, Kinds: allKinds(), Spec: cr.Spec, CredentialsMode: operatorv1.CloudCredentialsModeManual,
		Proxy: proxy.Status, TLS: openshift.IntermediateTLS(), ServingCertificates: true, InfrastructureID: "cluster-x1",
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode, InfrastructureTopology: configv1.SingleReplicaTopologyMode,
		Region: "mars-1", ResourceTags: []configv1.AWSResourceTag{{Key: "a", Value: "b"}}, Platform: infrastructure().Status.PlatformStatus,
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConfigSaysWhatCantBeFollowed(t *testing.T) {
	server := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	server.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: "Secret"}
	d := disk()
	d.Check = func(cfg driver.Config) []string { return []string{"the driver can't follow " + cfg.InfrastructureID} }
	trip := newTrip(t, d, infrastructure(), server)
	cr, _ := healthy()
	_, problems, err := trip.config(t.Context(), cr, live{}, migration.State{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`TLS security profile "Secret" in APIServer/cluster is unknown, so Intermediate is used: upgrade the operator, or choose Old, ` +
			"Intermediate, Modern or Custom",
		"the driver can't follow cluster-x1",
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A typo must not disturb nodes in use: the API server takes every value of an annotation.
func TestAPolicyThatCantBeReadHoldsNodePodsAndIsReported(t *testing.T) {
	d := disk()
	d.MountsInPods = true
	trip := newTrip(t, d, infrastructure())
	trip.Settings = map[string]string{"NODE_ROLLOUT_POLICY": "RollingUpdate"}
	cr, result := healthy()
	for value, strategy := range map[string]appsv1.DaemonSetUpdateStrategyType{
		"": "", "RollingUpdate": "", "WhenDrained": appsv1.OnDeleteDaemonSetStrategyType, "Rollingupdate": appsv1.OnDeleteDaemonSetStrategyType,
	} {
		cr.Annotations = map[string]string{driver.RolloutPolicyAnnotation: value}
		cfg, problems, err := trip.config(t.Context(), cr, live{}, migration.State{})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := d.Render(trip.Client.Scheme(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if daemonSet, is := object.(*appsv1.DaemonSet); is && daemonSet.Spec.UpdateStrategy.Type != strategy {
				t.Errorf("%q: strategy %s, want %q", value, daemonSet.Spec.UpdateStrategy.Type, strategy)
			}
		}
		result.seen.problems = problems
		conditioner, _ := clocked()
		all, _, _ := conditioner.conditions(cr, result)
		reported := status.Find(all, "ConfigObservationDegraded")
		if says := strings.Contains(reported.Message, `node-rollout-policy="Rollingupdate" of this ClusterCSIDriver must be IdleFirst, `+
			"WhenDrained or RollingUpdate"); says != (value == "Rollingupdate") {
			t.Errorf("%q: %s %s", value, reported.Status, reported.Message)
		}
	}
}

func TestConfigThatCantBeReadIsAnError(t *testing.T) {
	d := disk()
	d.CloudCAVariable = "CLOUD_CA"
	for what, tc := range map[string]struct {
		driver driver.Driver
		want   string
	}{
		"get Infrastructure cluster":      {disk(), "read Infrastructure cluster: no route"},
		"get ConfigMap kube-cloud-config": {d, "read ConfigMap openshift-config-managed/kube-cloud-config: no route"},
	} {
		t.Run(what, func(t *testing.T) {
			trip := newTrip(t, tc.driver, infrastructure())
			trip.Kinds[driver.VolumeSnapshotClassKind()] = true
			trip.cluster.Refuse(errors.New("no route"), what)
			cr, _ := healthy()
			if _, _, err := trip.config(t.Context(), cr, live{}, migration.State{}); err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestFeatureGatesAreThoseOfTheDriverThatAreOn(t *testing.T) {
	gates := &configv1.FeatureGate{}
	gates.Status.FeatureGates = []configv1.FeatureGateDetails{{
		Version: "1.2.3", Enabled: []configv1.FeatureGateAttributes{{Name: "On"}, {Name: "Other"}},
		Disabled: []configv1.FeatureGateAttributes{{Name: "Off"}},
	}}
	d := disk()
	r := &Reconciler{Driver: d, Environment: Environment{Version: "1.2.3", KubernetesMinor: 35}}
	r.Driver.FeatureGates = []driver.FeatureGate{{Name: "On", OnSince: 99}, {Name: "Off", OnSince: 1}, {Name: "Since", OnSince: 35}, {Name: "Later", OnSince: 36}}
	for name, tc := range map[string]struct {
		cluster *configv1.FeatureGate
		want    map[string]bool
	}{
		"as the cluster says":           {gates, map[string]bool{"On": true, "Off": false, "Since": true, "Later": false, driver.SchedulingGate: false}},
		"as this version of Kubernetes": {nil, map[string]bool{"On": false, "Off": true, "Since": true, "Later": false, driver.SchedulingGate: false}},
	} {
		if diff := cmp.Diff(tc.want, r.featureGates(tc.cluster)); diff != "" {
			t.Errorf("%s -want +got:\n%s", name, diff)
		}
	}
}

// A class that an earlier version has made may appear after the cluster was observed. Only the user's word deletes it.
func TestTheStorageClassOfEarlierVersionsIsPrunedOnlyOnRequest(t *testing.T) {
	r := &Reconciler{Driver: driver.Driver{StorageClass: "efs-sc"}}
	for state, want := range map[operatorv1.StorageClassStateName]int{
		"": 1, operatorv1.ManagedStorageClass: 1, operatorv1.UnmanagedStorageClass: 1, operatorv1.RemovedStorageClass: 0,
	} {
		cfg := driver.Config{}
		cfg.Spec.StorageClassState = state
		kept := r.kept(nil, cfg)
		if len(kept) != want || want == 1 && apply.SubjectOf(kept[0]).String() != "StorageClass efs-sc" {
			t.Errorf("%q: kept %v", state, kept)
		}
	}
	if kept := (&Reconciler{}).kept(nil, driver.Config{}); len(kept) > 0 {
		t.Errorf("of a driver with classes of its own: %v", kept)
	}
}
