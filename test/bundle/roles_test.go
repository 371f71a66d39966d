package bundle

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

// What the operator asks the cloud-credential-operator for, and in which annotation of a pod the answer shows.
const (
	controllerRequest = "openshift-aws-efs-csi-driver"
	nodeRequest       = "openshift-aws-efs-csi-driver-node"
	controllerHash    = "operator.openshift.io/hash-of-aws-efs-cloud-credentials"
	nodeHash          = "operator.openshift.io/hash-of-node-aws-efs-cloud-credentials"
)

// requests checks the roles of the CredentialsRequests.
func (s *scene) requests(t *testing.T, want map[string]string) {
	t.Helper()
	env.Eventually(t, fmt.Sprintf("CredentialsRequests for %v", want), func() error {
		list := &cloudcredentialv1.CredentialsRequestList{}
		if err := s.Client.List(t.Context(), list); err != nil {
			return err
		}
		got := map[string]string{}
		for _, request := range list.Items {
			got[request.Name] = request.Spec.ProviderSpec.STSIAMRoleARN
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// followsRoles sets, changes and removes roles in the environment of the Subscription. Requests follow, and pods whose Secret
// changes are started anew, once and no others.
func (s *scene) followsRoles(t *testing.T, csv fakeolm.CSV) {
	t.Helper()
	settled := func() error { return s.at(t.Context(), csv) }
	for _, change := range []struct {
		name        string
		environment []corev1.EnvVar
		requests    map[string]string
		// rollouts are those of the controller and of the nodes.
		rollouts [2]int64
		// hashes say whose pods have the hash of a Secret.
		hashes [2]bool
		state  func() error
	}{
		{
			"the nodes get a role", []corev1.EnvVar{roleARN(controllerRole), nodeRoleARN(nodeRole)},
			map[string]string{controllerRequest: controllerRole, nodeRequest: nodeRole}, [2]int64{0, 1}, [2]bool{true, true}, settled,
		},
		{
			"the controller gets another role, and the nodes lose theirs", []corev1.EnvVar{roleARN(otherRole)},
			map[string]string{controllerRequest: otherRole}, [2]int64{1, 1}, [2]bool{true, false}, settled,
		},
		{
			// The pods have read the Secret: they run on with it until there is another one.
			"there is no role any more", nil, map[string]string{}, [2]int64{0, 0}, [2]bool{true, false}, func() error {
				return s.Says(t.Context(), env.EFS("").Name, "AWSEFSCredentialsRequestControllerAvailable", "", "set ROLEARN to an IAM role")
			},
		},
		{
			"the controller gets its first role back", []corev1.EnvVar{roleARN(controllerRole)},
			map[string]string{controllerRequest: controllerRole}, [2]int64{1, 0}, [2]bool{true, false}, settled,
		},
	} {
		t.Run(change.name, func(t *testing.T) {
			controller, nodes := s.generations(t)
			env.Must(t, s.olm.Configure(t.Context(), csv.Name, change.environment...))
			s.requests(t, change.requests)
			env.Eventually(t, "pods with the credentials of their roles", func() error {
				deployment, daemonSet, err := s.workloads(t.Context())
				if err != nil {
					return err
				}
				got := [2]int64{deployment.Generation - controller, daemonSet.Generation - nodes}
				hashes := [2]bool{
					deployment.Spec.Template.Annotations[controllerHash] != "", daemonSet.Spec.Template.Annotations[nodeHash] != "",
				}
				if got != change.rollouts || hashes != change.hashes {
					return fmt.Errorf("rollouts %v, hashes %v, want %v and %v", got, hashes, change.rollouts, change.hashes)
				}
				return change.state()
			})
			env.Quiet(t, s.olm.Operator())
			nowController, nowNodes := s.generations(t)
			equal(t, "rollouts", change.rollouts, [2]int64{nowController - controller, nowNodes - nodes})
		})
	}
}
