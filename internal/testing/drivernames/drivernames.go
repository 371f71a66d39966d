// Package drivernames helps tests that add a driver to a copy of this tree. It finds a free name.
package drivernames

import (
	"slices"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

// Free returns a valid name of a ClusterCSIDriver that no driver in the tree below root uses.
func Free(t *testing.T, root string) string {
	t.Helper()
	names, err := olm.DriverNames(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, d := range all.Drivers() {
		taken[d.Name] = true
	}
	for _, entry := range catalogue.All() {
		taken[entry.Name] = true
	}
	at := slices.IndexFunc(names, func(name string) bool { return !taken[name] })
	if at < 0 {
		t.Fatal("each name that a ClusterCSIDriver may have has its driver: let the test use --unlisted-name")
	}
	return names[at]
}
