package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// What the cluster-storage-operator starts with --driver, this program must know, and nothing that is part of a cluster may be left out.
func TestTheCatalogueStartsEveryDriverOfThisProgram(t *testing.T) {
	known := operable()
	var here, there []string
	for _, d := range known {
		// OLM installs those that administrators can remove.
		if !d.Removable {
			here = append(here, d.Name)
		}
	}
	for _, entry := range catalogue.All() {
		if entry.Builtin {
			there = append(there, entry.Name)
		}
	}
	slices.Sort(here)
	slices.Sort(there)
	if diff := cmp.Diff(here, there); diff != "" {
		t.Errorf("drivers (-csi-driver-operator +internal/driver/catalogue):\n%s", diff)
	}
}
