package storage

import (
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// The driver of vSphere is the only one that an administrator can remove. The real operator drives it here, and a vCenter answers.
func TestADriverThatAnAdministratorRemovedHoldsUpNoRelease(t *testing.T) {
	const vSphere, available = "csi.vsphere.vmware.com", "VSphereCSIDriverOperatorCRAvailable"
	s := installed(t, configv1.VSpherePlatformType)
	s.says(available, operatorv1.ConditionTrue, "")
	s.changeDriver(vSphere, func(driver *operatorv1.ClusterCSIDriver) { driver.Spec.ManagementState = operatorv1.Removed })
	s.eventually("the driver has gone", func() error {
		return s.Gone(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: vSphere}})
	})
	s.says(available, operatorv1.ConditionTrue, "DriverDisabled")
	s.install(env.Release{Version: nextRelease})
	s.reach(nextRelease)
	s.says(available, operatorv1.ConditionTrue, "DriverDisabled")
	s.eventually("the driver is at the release's version", func() error {
		if at := s.driver(vSphere).Status.Version; at != nextRelease {
			return fmt.Errorf("it is at %q", at)
		}
		return nil
	})
}
