package driver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// The tests with real sidecars wait for Leases of these names.
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
