package storage

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

const ibm = "vpc.block.csi.ibm.io"

// A driver of others: its stand-in first says nothing, then fails, and is upgraded. Requests that are refused fail every test. The platform serves
// ServiceMonitors late: while a cluster is installed, storage is there before monitoring is.
func TestADriverOfOthersIsWaitedForReportedAndUpgraded(t *testing.T) {
	s := fresh(t, configv1.IBMCloudPlatformType)
	crd := s.takeAway("servicemonitors.monitoring.coreos.com")
	steps := []step{
		{"one that reports nothing is waited for", waitsForItsDriver},
		{"a kind that is served late is used then", func(t *testing.T, s *scene) { usesALateKind(t, s, crd) }},
		{"one that fails degrades storage", degradesWithItsDriver},
	}
	if env.IsSoak(t) {
		// That takes half a minute, in which the report of a stand-in may be about the old version.
		steps = append(steps, step{"an upgrade goes in order and is reported last", func(t *testing.T, s *scene) { upgrades(t, s, configv1.IBMCloudPlatformType) }})
	}
	s.take(steps)
}

func degradesWithItsDriver(_ *testing.T, s *scene) {
	s.isComplete(entriesOf(configv1.IBMCloudPlatformType), 1)
	s.hasMade(entriesOf(configv1.IBMCloudPlatformType), release)
	s.behave(ibm, env.Failing)
	s.says("IBMVPCBlockCSIDriverOperatorCRDegraded", operatorv1.ConditionTrue, "the cloud refuses the credentials")
	s.says("IBMVPCBlockCSIDriverOperatorCRAvailable", operatorv1.ConditionFalse, ibm)
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionFalse, "IBMVPCBlock")
	if env.IsSoak(s.t) {
		// That takes two minutes.
		s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, "IBMVPCBlock")
	}
	s.behave(ibm, "")
	s.reach(release)
}

// withBehaviour makes a ClusterCSIDriver before the operator starts, so that its stand-in behaves so from the start.
func (s *scene) withBehaviour(driver string, behaviour env.Behaviour) {
	s.t.Helper()
	object := env.CR(driver, operatorv1.Managed)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, env.BehaviourAnnotation, string(behaviour))
	env.Must(s.t, s.Client.Create(s.t.Context(), object))
}

func waitsForItsDriver(t *testing.T, s *scene) {
	s.withBehaviour(ibm, env.Late)
	journal := s.record()
	s.installWithLists()
	s.says("IBMVPCBlockCSIDriverOperatorDeploymentProgressing", operatorv1.ConditionFalse, "")
	s.says("IBMVPCBlockCSIDriverOperatorCRAvailable", operatorv1.ConditionFalse, "WaitForOperator")
	s.says("IBMVPCBlockCSIDriverOperatorCRProgressing", operatorv1.ConditionTrue, "WaitForOperator")
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionFalse, "WaitForOperator")
	s.operatorSays(configv1.OperatorProgressing, configv1.ConditionTrue, "ibm-vpc-block-csi-driver-operator")
	operator, err := s.ClusterOperator(t.Context())
	env.Must(t, err)
	for _, version := range operator.Status.Versions {
		if version.Name == "operator" || version.Name == "ibm-vpc-block-csi-driver-operator" {
			t.Errorf("version %s of %s is reported, but the driver has not said anything", version.Version, version.Name)
		}
	}
	s.behave(ibm, "")
	s.reach(release)
	journal.checkVersions(t, entriesOf(configv1.IBMCloudPlatformType), release)
}
