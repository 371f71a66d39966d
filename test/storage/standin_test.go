package storage

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	cinder = "cinder.csi.openstack.org"
	manila = "manila.csi.openstack.org"
)

func TestDriverThatFailsDegradesOnlyItself(t *testing.T) {
	s := installed(t, configv1.OpenStackPlatformType)
	s.isComplete(entriesOf(configv1.OpenStackPlatformType), 1)
	s.hasMade(entriesOf(configv1.OpenStackPlatformType), release)
	s.behave(cinder, env.Failing)
	s.says("OpenStackCinderCSIDriverOperatorCRDegraded", operatorv1.ConditionTrue, "the cloud refuses the credentials")
	s.says("OpenStackCinderCSIDriverOperatorCRAvailable", operatorv1.ConditionFalse, cinder)
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionFalse, "OpenStackCinder")
	// What the operators of others report may be over at once.
	s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, "OpenStackCinder")
	for kind, status := range map[string]operatorv1.ConditionStatus{
		"CRAvailable": operatorv1.ConditionTrue, "CRProgressing": operatorv1.ConditionFalse, "CRDegraded": operatorv1.ConditionFalse,
		"DeploymentDegraded": operatorv1.ConditionFalse, "StaticControllerDegraded": operatorv1.ConditionFalse,
	} {
		condition, err := s.condition("ManilaCSIDriverOperator" + kind)
		if err != nil || condition.Status != status {
			t.Errorf("Manila: %s is %s: %s (%v), want %s", kind, condition.Status, condition.Message, err, status)
		}
	}
	s.behave(cinder, "")
	s.reach(release)
}

// withBehaviour makes a ClusterCSIDriver before the operator starts, so that its stand-in behaves so from the start.
func (s *scene) withBehaviour(driver string, behaviour env.Behaviour) {
	s.t.Helper()
	object := env.CR(driver, operatorv1.Managed)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, env.BehaviourAnnotation, string(behaviour))
	env.Must(s.t, s.Client.Create(s.t.Context(), object))
}

func TestDriverThatReportsNothingIsWaitedFor(t *testing.T) {
	s := fresh(t, configv1.OpenStackPlatformType)
	s.withBehaviour(cinder, env.Late)
	journal := s.record()
	s.install(env.Release{Version: release})
	s.says("ManilaCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "")
	s.says("OpenStackCinderCSIDriverOperatorDeploymentProgressing", operatorv1.ConditionFalse, "")
	s.says("OpenStackCinderCSIDriverOperatorCRAvailable", operatorv1.ConditionFalse, "WaitForOperator")
	s.says("OpenStackCinderCSIDriverOperatorCRProgressing", operatorv1.ConditionTrue, "WaitForOperator")
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionFalse, "WaitForOperator")
	s.operatorSays(configv1.OperatorProgressing, configv1.ConditionTrue, "openstack-cinder-csi-driver-operator")
	operator, err := s.ClusterOperator(t.Context())
	env.Must(t, err)
	for _, version := range operator.Status.Versions {
		if version.Name == "operator" || version.Name == "openstack-cinder-csi-driver-operator" {
			t.Errorf("version %s of %s is reported, but the driver has not said anything", version.Version, version.Name)
		}
	}
	s.behave(cinder, "")
	s.reach(release)
	journal.checkVersions(t, entriesOf(configv1.OpenStackPlatformType), release)
}

func TestDriverThatIsDisabledDoesNotKeepStorageFromBeingAvailable(t *testing.T) {
	s := fresh(t, configv1.OpenStackPlatformType)
	s.withBehaviour(manila, env.Disabled)
	s.install(env.Release{Version: release})
	s.reach(release)
	s.says("ManilaCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "DriverDisabled")
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "the cloud has no such service")
	// The service comes, and goes again: then it is no longer a matter of having none.
	s.behave(manila, "")
	s.says("ManilaCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "AsExpected")
	s.reach(release)
	s.hasMade(entriesOf(configv1.OpenStackPlatformType), release)
	s.readsSecrets()
	s.behave(manila, env.Disabled)
	s.says("ManilaCSIDriverOperatorCRDegraded", operatorv1.ConditionTrue, "the cloud has no such service")
	s.says("OpenStackCinderCSIDriverOperatorCRDegraded", operatorv1.ConditionFalse, "")
}
