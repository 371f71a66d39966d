package storage

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The conditions are those with which the operator of this repository reports that it has removed the driver of vSphere.
func TestADriverThatAnAdministratorRemovedHoldsUpNoVersion(t *testing.T) {
	at := slices.IndexFunc(catalogue.All(), func(entry catalogue.Entry) bool { return entry.Name == "csi.vsphere.vmware.com" })
	entry := catalogue.All()[at]
	if !entry.MayBeDisabled || !entry.Builtin {
		t.Fatalf("the driver of vSphere may be disabled: %t, and is ours: %t", entry.MayBeDisabled, entry.Builtin)
	}
	gone := removed(driver("2",
		status.Condition("VMwareVSphereDriverDisabled", true, "Removed", "the driver is removed because spec.managementState is Removed"),
		said("VMwareVSphereDriverControllerServiceControllerAvailable", false, "the driver is removed"), said("Available", false, "it is removed"),
		said("Progressing", false, ""), said("Degraded", false, "")))
	back := gone.DeepCopy()
	back.Spec.ManagementState = operatorv1.Managed
	broken := back.DeepCopy()
	broken.Status.Conditions[0].Reason = "NotSupported"
	late := gone.DeepCopy()
	late.Status.Version = "1"
	for name, tc := range map[string]struct {
		driver  *operatorv1.ClusterCSIDriver
		reached bool
		want    string
	}{
		"removed": {gone, true,
			"Available=True/DriverDisabled Progressing=False/DriverDisabled Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"removed, by the operator of the release before": {late, false,
			"Available=True/DriverDisabled Progressing=True/Deploying Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		// Its operator has not begun to bring it back.
		"wanted again": {back, true,
			"Available=True/DriverDisabled Progressing=False/DriverDisabled Degraded=False/AsExpected Upgradeable=True/AsExpected"},
		"disabled for another reason": {broken, true,
			"Available=False/Said Progressing=False/AsExpected Degraded=True/DriverDisabled Upgradeable=True/AsExpected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMemory()
			r.once[entry.Name] = true
			done := result{choice: choice{entry: entry}, applied: true, deployment: deployment(true), driver: tc.driver}
			conditions, _ := r.crConditions(release(), &done)
			if diff := cmp.Diff(tc.want, short(conditions, "VSphereCSIDriverOperatorCR")); diff != "" {
				t.Error(diff)
			}
			if got := reached(release(), &done, conditions); got != tc.reached {
				t.Errorf("reached: %t", got)
			}
		})
	}
}
