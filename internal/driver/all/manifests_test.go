package all

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// folders are the directories of test/e2e/storage with manifests of drivers.
func folders() map[string]string {
	return map[string]string{
		"ebs.csi.aws.com": "ebs", "pd.csi.storage.gke.io": "gcp-pd", "disk.csi.azure.com": "azure-disk", "file.csi.azure.com": "azure-file",
		"cinder.csi.openstack.org": "cinder", "manila.csi.openstack.org": "manila",
		"csi.vsphere.vmware.com": "vsphere",
	}
}

// testManifest has those fields of driverDefinition that we use (Kubernetes 1.36, test/e2e/storage/external/external.go). Kubernetes ignores
// what it does not know, so that a typing mistake would only switch tests off.
type testManifest struct {
	StorageClass          struct{ FromExistingClassName, FromFile string }
	SnapshotClass         struct{ FromExistingClassName string }
	VolumeAttributesClass struct{ FromFile string }
	DriverInfo            struct {
		Name                                  string
		SupportedSizeRange                    struct{ Min, Max string }
		SupportedFsType, SupportedMountOption map[string]struct{}
		TopologyKeys                          []string
		Capabilities                          map[string]bool
	}
	Timeouts map[string]string
}

// capabilities are what a driver's controller says it can do, by the profile that test/real and real nodes have of the driver.
func capabilities(t *testing.T, manifests string) []string {
	t.Helper()
	folder := strings.ReplaceAll(manifests, "-", "")
	if folder == "ebs" {
		folder = "awsebs"
	}
	text, err := os.ReadFile(filepath.Join("..", folder, "testdata", "real.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var profile struct{ Capabilities []string }
	if err := yaml.Unmarshal(text, &profile); err != nil {
		t.Fatalf("profile of %s: %v", folder, err)
	}
	return profile.Capabilities
}

// read decodes a file strictly.
func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "e2e", "storage", path))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// classes returns the StorageClasses that a driver renders.
func classes(t *testing.T, d driver.Driver) (storage, snapshots []string) {
	t.Helper()
	inTheCloud := func(cfg *driver.Config) {
		cfg.Cloud = driver.CloudFacts{Known: true, ShareTypes: []string{"default"}, StoragePolicy: "any"}
	}
	for _, object := range variants.Render(t, d, inTheCloud) {
		switch object.(type) {
		case *storagev1.StorageClass:
			storage = append(storage, object.GetName())
		case *snapshotv1.VolumeSnapshotClass:
			snapshots = append(snapshots, object.GetName())
		}
	}
	return storage, snapshots
}

func TestEveryDriverOfAReleaseHasManifestsForTheTestsOfStorage(t *testing.T) {
	for _, d := range Drivers() {
		if d.Payload == nil {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			folder := folders()[d.Name]
			if folder == "" {
				t.Fatal("it has no folder in test/e2e/storage")
			}
			for _, file := range manifestsIn(t, folder) {
				var manifest testManifest
				read(t, folder+"/"+file, &manifest)
				checkManifest(t, d, folder, manifest)
			}
			var further struct {
				Driver        string
				LUNStressTest struct {
					PodsTotal int
					Timeout   string
				}
			}
			read(t, folder+"/ocp-manifest.yaml", &further)
			if further.Driver != d.Name || further.LUNStressTest.PodsTotal == 0 {
				t.Errorf("ocp-manifest.yaml is %+v", further)
			}
			if _, err := time.ParseDuration(further.LUNStressTest.Timeout); err != nil {
				t.Error(err)
			}
		})
	}
}

// manifestsIn are the files of a folder for Kubernetes' tests: one for the driver's own class, and one for each kind of volumes that has none.
func manifestsIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "test", "e2e", "storage", folder))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, "manifest.yaml") && name != "ocp-manifest.yaml" {
			found = append(found, name)
		}
	}
	if !slices.Contains(found, "manifest.yaml") {
		t.Fatalf("there is no manifest.yaml in %s", folder)
	}
	return found
}

// checkClasses compares the classes of a manifest with those that the driver installs, and with the files beside it.
func checkClasses(t *testing.T, d driver.Driver, folder string, manifest testManifest) {
	t.Helper()
	storage, snapshots := classes(t, d)
	if file := manifest.StorageClass.FromFile; file != "" {
		var class storagev1.StorageClass
		read(t, folder+"/"+file, &class)
		storage = []string{""}
		if class.Provisioner != d.Name || len(class.Parameters) == 0 {
			t.Errorf("%s is %+v", file, class)
		}
	}
	if !slices.Contains(storage, manifest.StorageClass.FromExistingClassName) || !slices.Contains(snapshots, manifest.SnapshotClass.FromExistingClassName) {
		t.Errorf("it is about %s and %s, but there are %v and %v", manifest.StorageClass.FromExistingClassName,
			manifest.SnapshotClass.FromExistingClassName, storage, snapshots)
	}
	if file := manifest.VolumeAttributesClass.FromFile; file != "" {
		var class storagev1.VolumeAttributesClass
		read(t, folder+"/"+file, &class)
		if class.DriverName != d.Name || len(class.Parameters) == 0 {
			t.Errorf("%s is %+v", file, class)
		}
	}
}

// checkManifest compares a manifest with what the driver installs, and with what Kubernetes knows.
func checkManifest(t *testing.T, d driver.Driver, folder string, manifest testManifest) {
	t.Helper()
	info := manifest.DriverInfo
	if info.Name != d.Name {
		t.Errorf("it is about %s", info.Name)
	}
	checkClasses(t, d, folder, manifest)
	// test/e2e/storage/framework/testdriver.go of Kubernetes 1.36
	const known = "persistence block fsGroup volumeMountGroup exec snapshotDataSource pvcDataSource multipods RWX controllerExpansion " +
		"nodeExpansion onlineExpansion offlineExpansion volumeLimits topology readWriteOncePod multiplePVsSameID capReadOnlyMany " +
		"singleNodeVolume capacity FSResizeFromSourceNotSupported seLinuxMount snapshotMetadata groupSnapshot"
	for capability := range info.Capabilities {
		if !slices.Contains(strings.Fields(known), capability) {
			t.Errorf("Kubernetes does not know %q", capability)
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(d.Sidecars, func(sidecar driver.Sidecar) bool { return sidecar.Name == name })
	}
	for capability, want := range map[string]bool{
		"snapshotDataSource": has("snapshotter"), "controllerExpansion": has("resizer"), "block": has("attacher"), "topology": has("attacher"),
		"persistence": true,
	} {
		if info.Capabilities[capability] != want {
			t.Errorf("%s is %t, by what is installed it is %t", capability, info.Capabilities[capability], want)
		}
	}
	does := capabilities(t, folder)
	for capability, name := range map[string]string{
		"pvcDataSource": "CLONE_VOLUME", "snapshotDataSource": "CREATE_DELETE_SNAPSHOT", "controllerExpansion": "EXPAND_VOLUME",
	} {
		if can := slices.Contains(does, name); info.Capabilities[capability] != can {
			t.Errorf("%s is %t, but the driver has %v", capability, info.Capabilities[capability], does)
		}
	}
	if info.Capabilities["topology"] != (len(info.TopologyKeys) > 0) {
		t.Errorf("topology is %t, with keys %v", info.Capabilities["topology"], info.TopologyKeys)
	}
	for name, timeout := range manifest.Timeouts {
		// test/e2e/framework/timeouts.go of Kubernetes 1.36
		if !slices.Contains([]string{"PodStart", "PodDelete", "PVDelete", "DataSourceProvision"}, name) {
			t.Errorf("Kubernetes does not know timeout %q", name)
		}
		if _, err := time.ParseDuration(timeout); err != nil {
			t.Error(err)
		}
	}
	low, high := resource.MustParse(info.SupportedSizeRange.Min), resource.MustParse(info.SupportedSizeRange.Max)
	if low.Sign() <= 0 || high.Cmp(low) <= 0 {
		t.Errorf("sizes from %s to %s", &low, &high)
	}
}
