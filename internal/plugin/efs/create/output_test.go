package create

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func regional() Share { return Share{Name: "ci", FileSystem: "fs-0123456789abcdef0"} }

func oneZone() Share {
	return Share{Name: "ci", FileSystem: "fs-0123456789abcdef0", Zone: "us-east-1a"}
}

func TestTheCommittedExamplesAreWhatCreateWrites(t *testing.T) {
	for name, content := range map[string]string{
		"storageclass.yaml": regional().StorageClass(), "storageclass-one-zone.yaml": oneZone().StorageClass(), "manifest.yaml": regional().DriverManifest(),
	} {
		file := filepath.Join("..", "..", "..", "..", "test", "e2e", "storage", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(committed), content); diff != "" {
			t.Errorf("%s (-committed +written); UPDATE=1 writes it anew:\n%s", name, diff)
		}
	}
}

func TestTheStorageClassProvisionsAccessPoints(t *testing.T) {
	for _, share := range []Share{regional(), oneZone()} {
		// The driver encrypts by default, and reports the mount option as deprecated.
		var options []string
		if share.Zone != "" {
			options = append(options, "az=us-east-1a")
		}
		var class storagev1.StorageClass
		if err := yaml.UnmarshalStrict([]byte(share.StorageClass()), &class); err != nil {
			t.Fatal(err)
		}
		want := storagev1.StorageClass{
			Provisioner: "efs.csi.aws.com", MountOptions: options,
			Parameters: map[string]string{
				"provisioningMode": "efs-ap", "fileSystemId": share.FileSystem, "directoryPerms": "700", "basePath": "/dynamic_provisioning",
			},
		}
		want.APIVersion, want.Kind, want.Name = "storage.k8s.io/v1", "StorageClass", "efs-ci"
		policy, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
		want.ReclaimPolicy, want.VolumeBindingMode = &policy, &binding
		if diff := cmp.Diff(want, class); diff != "" {
			t.Errorf("the class (-want +got):\n%s", diff)
		}
	}
}

// driverManifest has those fields of Kubernetes' driverDefinition that we use. Kubernetes ignores what it does not know, so that a typing
// mistake would only switch tests off.
type driverManifest struct {
	StorageClass struct{ FromExistingClassName string }
	DriverInfo   struct {
		Name               string
		SupportedSizeRange struct{ Min, Max string }
		// Of a regional file system only: a test replaces the mount options of the class by these.
		SupportedMountOption map[string]struct{}
		Capabilities         map[string]bool
	}
}

func TestTheManifestSaysWhatTheDriverCan(t *testing.T) {
	// test/e2e/storage/framework/testdriver.go of Kubernetes 1.36
	const known = "persistence block fsGroup volumeMountGroup exec snapshotDataSource snapshotMetadata groupSnapshot pvcDataSource multipods " +
		"RWX controllerExpansion nodeExpansion offlineExpansion onlineExpansion volumeLimits singleNodeVolume topology capacity " +
		"FSResizeFromSourceNotSupported readWriteOncePod multiplePVsSameID capReadOnlyMany seLinuxMount"
	var manifest driverManifest
	if err := yaml.UnmarshalStrict([]byte(regional().DriverManifest()), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.DriverInfo.Name != "efs.csi.aws.com" || manifest.StorageClass.FromExistingClassName != regional().StorageClassName() {
		t.Errorf("the manifest is %+v", manifest)
	}
	can := []string{}
	for capability, has := range manifest.DriverInfo.Capabilities {
		if !slices.Contains(strings.Fields(known), capability) {
			t.Errorf("Kubernetes does not know %q", capability)
		}
		if has {
			can = append(can, capability)
		}
	}
	slices.Sort(can)
	if diff := cmp.Diff([]string{"RWX", "exec", "multiplePVsSameID", "multipods", "persistence"}, can); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	low, high := resource.MustParse(manifest.DriverInfo.SupportedSizeRange.Min), resource.MustParse(manifest.DriverInfo.SupportedSizeRange.Max)
	if low.Cmp(resource.MustParse("1Gi")) != 0 || high.Cmp(resource.MustParse("64Ti")) != 0 {
		t.Errorf("sizes from %s to %s", &low, &high)
	}
}

func TestOnlyTheManifestOfARegionalFileSystemHasMountOptions(t *testing.T) {
	for _, tt := range []struct {
		share Share
		want  map[string]struct{}
	}{
		{regional(), map[string]struct{}{"noatime": {}}},
		{oneZone(), nil},
	} {
		var manifest driverManifest
		if err := yaml.UnmarshalStrict([]byte(tt.share.DriverManifest()), &manifest); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, manifest.DriverInfo.SupportedMountOption); diff != "" {
			t.Errorf("zone %q (-want +got):\n%s", tt.share.Zone, diff)
		}
	}
}

func TestTheManifestForOpenShiftNamesTheSameDriver(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "test", "e2e", "storage", "ocp-manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Driver        string
		LUNStressTest struct {
			PodsTotal int
			Timeout   string
		}
	}
	if err := yaml.UnmarshalStrict(content, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Driver != "efs.csi.aws.com" || manifest.LUNStressTest.PodsTotal != 260 || manifest.LUNStressTest.Timeout != "30m" {
		t.Errorf("it is %+v", manifest)
	}
}
