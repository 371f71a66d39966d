// Package drivernames helps tests that add a driver to a copy of this tree. It finds a free name, and Go's caches of earlier builds.
package drivernames

import (
	"os"
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

// GoFlags is the variable GOFLAGS for a copy of the tree. With it, Go uses earlier compilations, wherever the copy lies, and under make test earlier
// links, too. It leaves out vet and debug information, which such tests do not need.
func GoFlags() string {
	flags := "-trimpath -vet=off -ldflags=-w"
	if linkCache := os.Getenv("LINKCACHE"); linkCache != "" { //nolint:forbidigo // A test has no flags; so make test says it.
		flags += " '-toolexec=" + linkCache + "'"
	}
	return flags
}
