package gcppd

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

func gcp(change func(*configv1.GCPPlatformStatus)) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Platform.GCP = &configv1.GCPPlatformStatus{Region: cfg.Region}
		change(cfg.Platform.GCP)
	}
}

func key(key operatorv1.GCPKMSKeyReference) func(*driver.Config) {
	return func(cfg *driver.Config) {
		cfg.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.GCPDriverType, GCP: &operatorv1.GCPCSIDriverConfigSpec{KMSKey: &key},
		}
	}
}

func TestRenderMatchesReviewedFiles(t *testing.T) {
	variants.CompareAll(t, Driver(), map[string]func(*driver.Config){
		"dedicated-region": func(cfg *driver.Config) { cfg.Region = "u-germany-northeast1" },
		"labels-and-tags": gcp(func(gcp *configv1.GCPPlatformStatus) {
			gcp.ResourceLabels = []configv1.GCPResourceLabel{{Key: "owner", Value: "storage"}, {Key: "cost", Value: "42"}}
			gcp.ResourceTags = []configv1.GCPResourceTag{{ParentID: "123456", Key: "env", Value: "test"}}
		}),
		"encryption-key": key(operatorv1.GCPKMSKeyReference{Name: "key", KeyRing: "ring", ProjectID: "project", Location: "europe-west3"}),
	})
}

func TestAKeyWithoutLocationIsGlobal(t *testing.T) {
	objects := variants.Render(t, Driver(), key(operatorv1.GCPKMSKeyReference{Name: "key", KeyRing: "ring", ProjectID: "project"}))
	found := 0
	for _, object := range objects {
		class, isClass := object.(*storagev1.StorageClass)
		if !isClass {
			continue
		}
		found++
		if got := class.Parameters["disk-encryption-kms-key"]; got != "projects/project/locations/global/keyRings/ring/cryptoKeys/key" {
			t.Errorf("%s: key %q", class.Name, got)
		}
	}
	if found != 2 {
		t.Errorf("%d StorageClasses, want 2", found)
	}
}

// How a cluster hands out credentials, and whether its nodes are in FIPS mode, is no matter of these pods: the request comes with
// the release, and the driver exchanges the token where the Secret says so.
func TestCredentialsAndFIPSChangeNothing(t *testing.T) {
	base := variants.Render(t, Driver(), nil)
	for _, change := range []func(*driver.Config){
		func(cfg *driver.Config) { cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual },
		func(cfg *driver.Config) { cfg.Kinds[driver.CredentialsRequestKind()] = true },
		func(cfg *driver.Config) { cfg.FIPS = true },
	} {
		if diff := cmp.Diff(base, variants.Render(t, Driver(), change)); diff != "" {
			t.Errorf("objects (-base +changed):\n%s", diff)
		}
	}
}

func TestTheListOfImagesIsComplete(t *testing.T) {
	want := "ATTACHER DRIVER KUBE_RBAC_PROXY LIVENESS_PROBE NODE_DRIVER_REGISTRAR PROVISIONER RESIZER SNAPSHOTTER"
	if got := strings.ReplaceAll(strings.Join(slices.Sorted(slices.Values(Driver().Images())), " "), "_IMAGE", ""); got != want {
		t.Errorf("images %s, want %s", got, want)
	}
}
