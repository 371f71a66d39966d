package nodeimages

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

// A cluster needs the images of its platform's drivers, and of no other driver.
func TestAPlatformNeedsTheImagesOfItsDrivers(t *testing.T) {
	common := []string{env.CSO, env.DriverOperator, "csi-external-provisioner", "csi-livenessprobe", "csi-node-driver-registrar", "kube-rbac-proxy"}
	disks := append(slices.Clone(common), "csi-external-attacher", "csi-external-resizer", "csi-external-snapshotter")
	for platform, want := range map[string][]string{
		"None":      {env.CSO},
		"AWS":       append(slices.Clone(disks), "aws-ebs-csi-driver"),
		"OpenStack": append(slices.Clone(disks), "openstack-cinder-csi-driver", "csi-driver-manila", "csi-driver-nfs"),
		"VSphere":   append(slices.Clone(disks), "vsphere-csi-driver", "vsphere-csi-driver-syncer"),
	} {
		found := recipes("", func(entry catalogue.Entry) bool { return string(entry.Platform) == platform })
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(found))); diff != "" {
			t.Errorf("%s: %s", platform, diff)
		}
	}
}

// Whatever the operators of this repository name is an image of the release.
func TestAllImagesOfAReleaseAreItsOwn(t *testing.T) {
	names, err := env.ReleaseImages()
	if err != nil {
		t.Fatal(err)
	}
	for name := range recipes("", func(catalogue.Entry) bool { return true }) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no image of the release: %v", name, names)
		}
	}
}
