package takeover

import (
	"errors"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// TestAFailedMigrationCanBeRolledBackAndRemoved removes the community's driver in the same way.
func TestADriverOfOpenShiftThatIsHalfMigratedCanBeRemoved(t *testing.T) {
	env.OnlySoak(t)
	s := before(t, few, "openshift-operators", predecessors.OpenShift("openshift-operators")...)
	s.removedHalfWay(t, s.application(t, "shop", "web", s.workers[0]))
}

// removedHalfWay deletes the ClusterCSIDriver in the middle of a migration. That removes the driver, with all pods that are left of it, but
// not as long as a pod uses a volume.
func (s *scene) removedHalfWay(t *testing.T, app *corev1.Pod) {
	t.Helper()
	s.sampler = newSampler(-1, projects()...)
	s.operate(t)
	s.create(t, nil)
	env.Eventually(t, "half of it done", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	env.Must(t, s.Client.Delete(t.Context(), env.EFS("")))
	env.Eventually(t, "it waits for the pod", func() error { return s.reports(t.Context(), "VolumesInUse", app.Namespace+"/"+app.Name) })
	env.Must(t, s.holdsOnly(t.Context(), app.Spec.NodeName))
	s.stop(t, app)
	env.Eventually(t, "ClusterCSIDriver gone", func() error { return s.Gone(t.Context(), env.EFS("")) })
	// With the last finalizer everything has gone: nobody would look for it any more.
	env.Must(t, errors.Join(s.Gone(t.Context(), s.account()), s.Gone(t.Context(), constraints()), s.Gone(t.Context(), commonBinding())))
	env.Eventually(t, "nothing left that runs the driver", func() error {
		pods, daemonSets, revisions := &corev1.PodList{}, &appsv1.DaemonSetList{}, &appsv1.ControllerRevisionList{}
		in := client.InNamespace(s.namespace)
		err := errors.Join(s.Client.List(t.Context(), pods, in), s.Client.List(t.Context(), daemonSets, in), s.Client.List(t.Context(), revisions, in))
		if count := len(pods.Items) + len(daemonSets.Items) + len(revisions.Items); err == nil && count > 0 {
			err = fmt.Errorf("%d pods, %d DaemonSets and %d revisions", len(pods.Items), len(daemonSets.Items), len(revisions.Items))
		}
		return err
	})
}

// Unmanaged means that nothing is touched, and so nothing is migrated. The status says what the predecessor runs.
func TestNothingIsMigratedUnmanaged(t *testing.T) {
	s := before(t, few, "openshift-operators", predecessors.OpenShift("openshift-operators")...)
	env.Eventually(t, "the old controller runs", func() error {
		return errors.Join(s.replicas(t.Context(), s.controller(), 2), s.holdsOnly(t.Context(), s.nodesOf(t)...))
	})
	operator := s.operate(t)
	env.Eventually(t, "the operator works", operator.Started)
	env.Quiet(t, operator)
	mark, err := s.Audit.Now()
	env.Must(t, err)
	env.Must(t, s.Client.Create(t.Context(), env.EFS(operatorv1.Unmanaged)))
	env.Eventually(t, "the ClusterCSIDriver seen", func() error {
		cr := env.EFS("")
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return err
		}
		if len(cr.Status.Conditions) == 0 || cr.Status.ObservedGeneration != cr.Generation {
			return errors.New("no status")
		}
		return nil
	})
	env.Quiet(t, operator)
	s.wroteNothing(t, mark)
	env.Must(t, s.holdsOnly(t.Context(), s.nodesOf(t)...))
	for _, kind := range []string{
		"Available", "AWSEFSDriverControllerServiceControllerAvailable", "AWSEFSDriverNodeServiceControllerAvailable",
		"AWSEFSCredentialsRequestControllerAvailable",
	} {
		env.Must(t, s.Condition(t.Context(), kind, operatorv1.ConditionTrue))
	}
	env.Must(t, errors.Join(
		s.Says(t.Context(), env.EFS("").Name, "Available", "True/", "A predecessor still runs the driver"), s.Condition(t.Context(), "Progressing", operatorv1.ConditionFalse),
		s.Condition(t.Context(), "AWSEFSCredentialsRequestControllerProgressing", operatorv1.ConditionFalse)))
}
