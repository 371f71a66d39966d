package driver_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Tests with real sidecars wait for these Leases.
func TestLeasesAreThoseOfTheSidecarsThatElectALeader(t *testing.T) {
	d := driver.Driver{Name: "csi.vsphere.vmware.com", Sidecars: driver.BlockSidecars(driver.BlockOptions{}), FurtherLeases: []string{"vsphere-syncer"}}
	var got []string
	for _, lease := range d.Leases("csi") {
		got = append(got, lease.GetNamespace()+"/"+lease.GetName())
	}
	slices.Sort(got)
	want := strings.Fields("csi/csi-vsphere-vmware-com csi/external-attacher-leader-csi-vsphere-vmware-com csi/external-resizer-csi-vsphere-vmware-com " +
		"csi/external-snapshotter-leader-csi-vsphere-vmware-com csi/vsphere-syncer")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

// It is asked for each sidecar in each removal and each role. The pattern is that of the sidecars.
func TestALeaseIsNamedAsTheSidecarsDoAndAtNoCost(t *testing.T) {
	for _, name := range []string{"efs.csi.aws.com", "A-z.0_9/ä\xff ", ""} {
		want := regexp.MustCompile("[^a-zA-Z0-9-]").ReplaceAllString(name, "-")
		if got := driver.LeaseOf("provisioner", name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if allocations := testing.AllocsPerRun(100, func() { _ = driver.LeaseOf("attacher", "efs.csi.aws.com") }); allocations > 2 {
		t.Errorf("%v allocations", allocations)
	}
}
