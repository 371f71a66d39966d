package clustercsidriver

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Other tools read the types; their texts are in the other tests.
func TestADriverThatRunsHasTheseConditions(t *testing.T) {
	c, _ := clocked()
	cr, result := healthy()
	all, stable, again := c.conditions(cr, result)
	found := map[string]string{}
	for _, condition := range all {
		found[condition.Type] = string(condition.Status) + " " + condition.Reason + " " + condition.Message
	}
	const yes, no = "True AsExpected ", "False AsExpected "
	want := map[string]string{
		"ManagementStateDegraded": no, "ConfigObservationDegraded": no,
		"DiskDriverControlPlaneStaticResourcesControllerDegraded": no, "DiskDriverGuestStaticResourcesControllerDegraded": no,
		"DiskDriverControllerServiceControllerAvailable": yes, "DiskDriverControllerServiceControllerProgressing": no,
		"DiskDriverControllerServiceControllerDegraded": no,
		"DiskDriverNodeServiceControllerAvailable":      yes, "DiskDriverNodeServiceControllerProgressing": no,
		"DiskDriverNodeServiceControllerDegraded": no,
		"DiskCredentialsControllerAvailable":      yes + "mint mode: Secret storage-system/disk-keys is there",
		"DiskCredentialsControllerProgressing":    no, "DiskCredentialsControllerDegraded": no,
		"DiskNodeCredentialsControllerAvailable":   yes + "mint mode: Secret storage-system/disk-node-keys is there",
		"DiskNodeCredentialsControllerProgressing": no, "DiskNodeCredentialsControllerDegraded": no,
		"Available": yes, "Progressing": no, "Degraded": no, "Upgradeable": yes,
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stable != 1 || again != 0 {
		t.Errorf("generation %d is on all nodes, and it looks again in %s", stable, again)
	}
	if kinds := slices.Sorted(maps.Keys(texts(all))); len(kinds) != len(all) {
		t.Errorf("a condition is there twice: %v", kinds)
	}
}
