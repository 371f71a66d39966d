package vsphere

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

const policy = "openshift-storage-policy-dev-x7k2p"

// settings returns the vSphere settings of the ClusterCSIDriver.
func settings(change func(*operatorv1.VSphereCSIDriverConfigSpec)) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.VSphereDriverType, VSphere: &operatorv1.VSphereCSIDriverConfigSpec{}}
		change(cfg.Spec.DriverConfig.VSphere)
	}
}

// domains returns failure domains, distributed over the vCenters.
func domains(count int, servers ...string) *configv1.VSpherePlatformSpec {
	spec := &configv1.VSpherePlatformSpec{}
	for _, server := range servers {
		spec.VCenters = append(spec.VCenters, configv1.VSpherePlatformVCenterSpec{Server: server, Datacenters: []string{"dc"}})
	}
	for i := range count {
		zone := string(rune('a' + i))
		spec.FailureDomains = append(spec.FailureDomains, configv1.VSpherePlatformFailureDomainSpec{
			Name: "fd-" + zone, Region: "r", Zone: zone, Server: servers[i%len(servers)],
		})
	}
	return spec
}

// existing returns a StorageClass of the cluster.
func existing(name, provisioner, policy string) driver.Class {
	return driver.Class{
		Kind: "StorageClass", Name: name, Default: "false", Provisioner: provisioner, Parameters: map[string]string{policyParameter: policy},
	}
}

func withPolicy(cfg *driver.Config) {
	cfg.Cloud = driver.CloudFacts{Known: true, StoragePolicy: policy}
}

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"storage-policy":  withPolicy,
		"kept-class":      func(cfg *driver.Config) { cfg.Classes = []driver.Class{existing(className, driverName, policy)} },
		"failure-domains": func(cfg *driver.Config) { cfg.VSphere = domains(3, "vc1.example") },
		"one-domain":      func(cfg *driver.Config) { cfg.VSphere = domains(1, "vc1.example") },
		"three-vcenters":  func(cfg *driver.Config) { cfg.VSphere = domains(3, "vc1.example", "vc2.example", "vc3.example") },
		"own-categories":  settings(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.TopologyCategories = []string{"rack", "row"} }),
		"many-volumes":    settings(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.MaxAllowedBlockVolumesPerNode = 255 }),
		"hundred-volumes": settings(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.MaxAllowedBlockVolumesPerNode = 100 }),
		"derived": func(cfg *driver.Config) {
			cfg.DependencyHashes = map[driver.Workload]map[string]string{driver.Controller: {configSecret: "9abc"}}
		},
	})
}

func TestTheListOfImagesIsComplete(t *testing.T) {
	want := "ATTACHER DRIVER KUBE_RBAC_PROXY LIVENESS_PROBE NODE_DRIVER_REGISTRAR PROVISIONER RESIZER SNAPSHOTTER VMWARE_VSPHERE_SYNCER"
	if got := strings.ReplaceAll(strings.Join(slices.Sorted(slices.Values(Driver().Images())), " "), "_IMAGE", ""); got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}

// classIn returns the StorageClass for a Config; nil if it has none.
func classIn(t *testing.T, change func(*driver.Config)) *storagev1.StorageClass {
	t.Helper()
	for _, object := range variants.Render(t, Driver(), change) {
		if class, ok := object.(*storagev1.StorageClass); ok {
			return class
		}
	}
	return nil
}

// Without an answer of the vCenter, no class is deleted or changed.
func TestTheClassHasThePolicyOfTheVCentersOrTheOneItHad(t *testing.T) {
	have := existing(className, driverName, "before")
	for name, tc := range map[string]struct {
		classes []driver.Class
		cloud   driver.CloudFacts
		want    string
	}{
		"nothing is known":                     {},
		"there is no policy":                   {cloud: driver.CloudFacts{Known: true}},
		"a policy":                             {cloud: driver.CloudFacts{Known: true, StoragePolicy: "new"}, want: "new"},
		"a class, and nothing is known":        {classes: []driver.Class{have}, want: "before"},
		"a class, and there is no policy":      {classes: []driver.Class{have}, cloud: driver.CloudFacts{Known: true}, want: "before"},
		"a class, and another policy":          {classes: []driver.Class{have}, cloud: driver.CloudFacts{Known: true, StoragePolicy: "new"}, want: "new"},
		"somebody else's class":                {classes: []driver.Class{existing(className, "other", "before")}},
		"another class of ours":                {classes: []driver.Class{existing("fast", driverName, "before")}},
		"a class without a policy is not ours": {classes: []driver.Class{existing(className, driverName, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			class := classIn(t, func(cfg *driver.Config) { cfg.Classes, cfg.Cloud = tc.classes, tc.cloud })
			if got := class != nil; got != (tc.want != "") {
				t.Fatalf("class %v, want policy %q", class, tc.want)
			}
			if class != nil && class.Parameters[policyParameter] != tc.want {
				t.Errorf("policy %q, want %q", class.Parameters[policyParameter], tc.want)
			}
		})
	}
}

func TestAClassKeepsWhatTheAdministratorMadeTheDefault(t *testing.T) {
	class := classIn(t, func(cfg *driver.Config) { cfg.Classes = []driver.Class{existing(className, driverName, policy)} })
	if class.Annotations[driver.DefaultAnnotation("StorageClass")] != "false" {
		t.Errorf("annotations %v", class.Annotations)
	}
}

// podsIn returns the pod template of a workload.
func podsIn(t *testing.T, name string, change func(*driver.Config)) corev1.PodTemplateSpec {
	t.Helper()
	for _, object := range variants.Render(t, Driver(), change) {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			if typed.Name == name {
				return typed.Spec.Template
			}
		case *appsv1.DaemonSet:
			if typed.Name == name {
				return typed.Spec.Template
			}
		}
	}
	t.Fatalf("no workload %s", name)
	return corev1.PodTemplateSpec{}
}

// limitOf returns the node's limit of volumes.
func limitOf(t *testing.T, change func(*driver.Config)) string {
	t.Helper()
	for _, variable := range podsIn(t, Driver().DaemonSet, change).Spec.Containers[0].Env {
		if variable.Name == "MAX_VOLUMES_PER_NODE" {
			return variable.Value
		}
	}
	return ""
}

func TestNodesHaveAsManyVolumesAsTheirHostsLet(t *testing.T) {
	old, newer := driver.CloudFacts{Known: true}, driver.CloudFacts{Known: true, ManyVolumes: true}
	for name, tc := range map[string]struct {
		wanted  int32
		cloud   driver.CloudFacts
		want    string
		problem bool
	}{
		"nobody says a number":          {cloud: newer, want: "59"},
		"fewer":                         {wanted: 10, cloud: old, want: "10"},
		"as many as always":             {wanted: 59, cloud: old, want: "59"},
		"more, on new hosts":            {wanted: 255, cloud: newer, want: "255"},
		"more, on old hosts":            {wanted: 60, cloud: old, want: "59", problem: true},
		"more, before anybody can tell": {wanted: 255, want: "255"},
	} {
		t.Run(name, func(t *testing.T) {
			var problems []string
			got := limitOf(t, func(cfg *driver.Config) {
				settings(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.MaxAllowedBlockVolumesPerNode = tc.wanted })(cfg)
				cfg.Cloud = tc.cloud
				problems = check(*cfg)
			})
			if got != tc.want || (len(problems) > 0) != tc.problem {
				t.Errorf("%s volumes, problems %q; want %s", got, problems, tc.want)
			}
		})
	}
}

// Settings for another cloud are reported and ignored.
func TestSettingsOfAnotherTypeDoNotCount(t *testing.T) {
	got := limitOf(t, func(cfg *driver.Config) {
		settings(func(own *operatorv1.VSphereCSIDriverConfigSpec) { own.MaxAllowedBlockVolumesPerNode = 7 })(cfg)
		cfg.Spec.DriverConfig.DriverType = operatorv1.AWSDriverType
	})
	if got != "59" {
		t.Errorf("%s volumes", got)
	}
}

// The provisioner must not pass PVC metadata: the driver rejects unknown parameters.
func TestTheDriverIsNotToldOfPVCs(t *testing.T) {
	for _, container := range podsIn(t, Driver().Deployment, nil).Spec.Containers {
		for _, argument := range container.Args {
			if strings.HasPrefix(argument, "--extra-create-metadata") {
				t.Errorf("%s has %s", container.Name, argument)
			}
		}
	}
}

// Without a signed certificate, a webhook with failurePolicy Fail would reject every class.
func TestWithoutAServiceCAThereIsNoWebhook(t *testing.T) {
	for _, serves := range []bool{true, false} {
		var found []string
		for _, object := range variants.Render(t, Driver(), func(cfg *driver.Config) { cfg.ServingCertificates = serves }) {
			if strings.Contains(object.GetName(), "webhook") || object.GetName() == Driver().Webhook {
				found = append(found, object.GetName())
			}
		}
		if (len(found) > 0) != serves || (serves && len(found) != len(webhookObjects())+1) {
			t.Errorf("with certificates %v: %v", serves, found)
		}
	}
}

func TestOnlyTheControllerHasTheCredentials(t *testing.T) {
	for _, name := range []string{Driver().DaemonSet, webhook, Driver().Deployment} {
		mounts := slices.ContainsFunc(podsIn(t, name, nil).Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.Secret != nil && volume.Secret.SecretName == configSecret
		})
		if mounts != (name == Driver().Deployment) {
			t.Errorf("%s mounts the configuration: %v", name, mounts)
		}
	}
}

// Kubelet learns the topology when the driver starts and registers.
func TestNodePodsRestartWhenTheTopologyChanges(t *testing.T) {
	without := podsIn(t, Driver().DaemonSet, nil).Annotations
	with := podsIn(t, Driver().DaemonSet, func(cfg *driver.Config) { cfg.VSphere = domains(2, "vc1.example") }).Annotations
	if without[topologyAnnotation] != "" || with[topologyAnnotation] != "openshift-zone,openshift-region" {
		t.Errorf("without a topology %v, with one %v", without, with)
	}
}

func TestWhyTheVCentersRefuseIsWhyThereIsNothingToDrive(t *testing.T) {
	if got := Driver().Disabled(driver.Config{Cloud: driver.CloudFacts{Known: true, Refused: "host a is too old"}}); got != "host a is too old" {
		t.Errorf("%q", got)
	}
	if got := Driver().Disabled(driver.Config{Cloud: driver.CloudFacts{Known: true}}); got != "" {
		t.Errorf("%q", got)
	}
}
