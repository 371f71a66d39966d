package storage

import (
	"errors"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

const vSphere, vSphereAvailable = "csi.vsphere.vmware.com", "VSphereCSIDriverOperatorCRAvailable"

// The driver of vSphere is optional until it was installed, and the only one that an administrator can remove. The real operator drives it here.
func TestAReleaseNeedsNoDriverThatIsNotInstalled(t *testing.T) {
	env.OnlySoak(t)
	s := fresh(t, configv1.VSpherePlatformType)
	env.Must(t, vcenters.UsePlaceholders(t.Context(), s.Cluster))
	s.install(env.Release{Version: release})
	s.reach(release)
	s.isWellUntilAVCenterAnswers()
	s.isUpgradedWithoutVSphere()
}

// OpenShift's operators have left a cluster as the Assisted Installer makes it: without a vCenter, without a driver, and well. It stays so.
func TestAReleaseKeepsAClusterWellThatHasNoVCenterYet(t *testing.T) {
	s := fresh(t, configv1.VSpherePlatformType)
	env.Must(t, vcenters.UsePlaceholders(t.Context(), s.Cluster))
	env.Must(t, predecessors.PutVSphereDisabled(t.Context(), s.Cluster))
	journal := s.record()
	s.install(env.Release{Version: release})
	s.reach(release)
	journal.checkLegacyCSO(t)
	s.isWellUntilAVCenterAnswers()
	s.isUpgradedWithoutVSphere()
}

// isUpgradedWithoutVSphere removes the driver, and upgrades the cluster.
func (s *scene) isUpgradedWithoutVSphere() {
	s.t.Helper()
	s.changeDriver(vSphere, func(driver *operatorv1.ClusterCSIDriver) { driver.Spec.ManagementState = operatorv1.Removed })
	s.eventually("the driver has gone", func() error { return s.Gone(s.t.Context(), csiDriver()) })
	s.says(vSphereAvailable, operatorv1.ConditionTrue, "DriverDisabled")
	s.install(env.Release{Version: nextRelease})
	s.reach(nextRelease)
	s.says(vSphereAvailable, operatorv1.ConditionTrue, "DriverDisabled")
	s.eventually("the driver is at the release's version", func() error {
		if at := s.driver(vSphere).Status.Version; at != nextRelease {
			return fmt.Errorf("it is at %q", at)
		}
		return nil
	})
}

// isWellUntilAVCenterAnswers takes a cluster that has a placeholder in place of a vCenter to one that is switched off, and then to one that answers.
func (s *scene) isWellUntilAVCenterAnswers() {
	s.t.Helper()
	s.isWellWithout("vCenter vcenterplaceholder")
	s.vCenters[0].Away()
	env.Must(s.t, vcenters.Use(s.t.Context(), s.Cluster, s.vCenters...))
	s.isWellWithout("vCenter " + s.vCenters[0].Server)
	env.Must(s.t, s.vCenters[0].Back())
	// A Secret that changes makes the operator ask at once.
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "vsphere-creds"}}
	env.Must(s.t, s.Client.Patch(s.t.Context(), login, env.Merge(`{"stringData":{"note":"the vCenter is back"}}`)))
	s.hasVSphere()
	s.reach(release)
}

func csiDriver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: vSphere}}
}

// isWellWithout waits until the driver's operator has said why it installs nothing, and checks that storage is at its release and well all the same.
func (s *scene) isWellWithout(why string) {
	s.t.Helper()
	s.says(vSphereAvailable, operatorv1.ConditionTrue, "DriverDisabled: vSphere is disabled by its operator: "+why)
	// While the test replaced the Infrastructure, nothing could be known, and the ClusterOperator is written after the Storage.
	s.eventually("storage is well", func() error {
		return errors.Join(s.Reached(s.t.Context(), release), s.Gone(s.t.Context(), csiDriver()))
	})
}

// hasVSphere waits until the driver is installed and works.
func (s *scene) hasVSphere() {
	s.t.Helper()
	s.says(vSphereAvailable, operatorv1.ConditionTrue, "AsExpected")
	env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKey{Name: vSphere}, csiDriver()))
}
