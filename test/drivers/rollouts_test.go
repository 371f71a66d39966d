package drivers

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// rollouts is a driver whose workloads follow objects that are not ours.
type rollouts struct {
	scene
	// revision is that of the controller, generation that of the node pods' DaemonSet, when they were looked at last.
	revision   int64
	generation int64
}

// put makes an object that is not ours as given.
func (s *rollouts) put(t *testing.T, object client.Object) {
	t.Helper()
	err := s.cluster.Client.Update(t.Context(), object)
	if apierrors.IsNotFound(err) {
		object.SetResourceVersion("")
		err = s.cluster.Client.Create(t.Context(), object)
	}
	env.Must(t, err)
}

// look takes down how often the workloads were rolled out, when the operator has nothing left to do.
func (s *rollouts) look(t *testing.T) {
	t.Helper()
	env.Quiet(t, s.operator)
	deployment, daemonSet := s.deployment(), s.daemonSet()
	s.get(t, deployment)
	s.get(t, daemonSet)
	_, err := fmt.Sscan(deployment.Annotations["deployment.kubernetes.io/revision"], &s.revision)
	env.Must(t, err)
	s.generation = daemonSet.Generation
}

// rolled checks how often the controller and the node pods were rolled out since the last look.
func (s *rollouts) rolled(t *testing.T, controller, node int64) {
	t.Helper()
	before := *s
	s.look(t)
	if s.revision-before.revision != controller || s.generation-before.generation != node {
		t.Errorf("the controller went from revision %d to %d, the node pods from generation %d to %d",
			before.revision, s.revision, before.generation, s.generation)
	}
}

// noProblem checks that nothing is wrong with what the driver follows.
func (s *rollouts) noProblem(t *testing.T) {
	t.Helper()
	if message := s.message(t, "ConfigObservationDegraded"); message != "" {
		t.Errorf("it is reported that %s", message)
	}
}
