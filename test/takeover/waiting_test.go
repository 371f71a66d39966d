package takeover

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// Two operators that look after the same objects would undo each other's work for ever. Which of them is to go is for the
// administrator to say.
func TestNothingIsMigratedWhileThePredecessorRuns(t *testing.T) {
	t.Parallel()
	const other, communitys = "default", "the community's"
	for name, tc := range map[string]struct {
		operator []client.Object
		at       string
	}{
		communitys: {
			operator: predecessors.CommunityOperator("openshift-operators"), at: "openshift-operators/" + env.CommunityName,
		},
		"OpenShift's, in another namespace": {
			operator: predecessors.OpenShiftOperator(other), at: other + "/" + env.OperatorName,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != communitys {
				env.OnlySoak(t)
			}
			s := before(t, few, "openshift-operators")
			env.Must(t, s.Put(t.Context(), "olm", tc.operator...))
			deployment := deploymentAmong(t, tc.operator)
			env.Eventually(t, "the old operator runs", func() error { return s.replicas(t.Context(), deployment, 1) })
			s.watch(t, few)
			daemonSet := s.daemonSet()
			env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet))
			mark, err := s.Audit.Now()
			env.Must(t, err)

			operator := s.operate(t)
			s.create(t, nil)
			env.Eventually(t, "what to remove", func() error {
				err := s.Says(t.Context(), env.EFS("").Name, "Progressing", "True/", tc.at, "Subscription", "ClusterServiceVersion", "Deployment")
				if deployment.Name == env.CommunityName {
					// OpenShift's writes the same conditions, but for the sums.
					err = errors.Join(err, s.reports(t.Context(), "Waiting", tc.at))
				}
				return err
			})
			env.Quiet(t, operator)
			s.wroteNothing(t, mark)
			env.Must(t, s.holdsOnly(t.Context(), s.workers...))
			live := s.daemonSet()
			env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live))
			if live.Generation != daemonSet.Generation {
				t.Error("the old DaemonSet was changed while its operator runs")
			}

			// An operator without pods does not fight, whatever else of it is left.
			_, err = s.Kubectl(t.Context(), "-n", deployment.Namespace, "scale", "deployment", deployment.Name, "--replicas=0")
			env.Must(t, err)
			env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), few) })
			env.Eventually(t, "the rest of the old driver gone", func() error { return s.communityGone(t.Context()) })

			// It comes back. The community's knows nothing of others, and would be fought; OpenShift's waits for ours.
			mark, err = s.Audit.Now()
			env.Must(t, err)
			_, err = s.Kubectl(t.Context(), "-n", deployment.Namespace, "scale", "deployment", deployment.Name, "--replicas=1")
			env.Must(t, err)
			if deployment.Name == env.CommunityName {
				env.Eventually(t, "what to remove, again", func() error { return s.reports(t.Context(), "Waiting", tc.at) })
			}
			env.Eventually(t, "the old operator runs", func() error { return s.replicas(t.Context(), deployment, 1) })
			env.Quiet(t, operator)
			s.wroteNothing(t, mark)
			env.Must(t, s.holdsOnly(t.Context()))
		})
	}
}

// A driver in another namespace can't be adopted, as no object can move. Two would take each other's sockets on every node.
func TestADriverThatRunsInAnotherNamespaceHoldsUpTheInstallation(t *testing.T) {
	const other = "storage-operators"
	s := open(t, few, env.OperatorNamespace)
	env.Must(t, s.Namespace(t.Context(), other))
	uid, err := s.CRDUID(t.Context())
	env.Must(t, err)
	operator := s.operate(t)
	env.Eventually(t, "the operator works", operator.Started)
	for _, tc := range []struct {
		name    string
		objects []client.Object
	}{
		{nodeDaemonSet, predecessors.Community(other, uid)}, {predecessors.OpenShiftDaemonSet, predecessors.OpenShift(other)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name != nodeDaemonSet {
				env.OnlySoak(t)
			}
			// Without credentials: those of the old driver would go to its namespace, which is not ours to change.
			var daemonSet *appsv1.DaemonSet
			for _, object := range tc.objects {
				if found, ok := object.(*appsv1.DaemonSet); ok {
					daemonSet = found
				}
			}
			env.Must(t, s.Put(t.Context(), env.CommunityName, identityOf(tc.objects), daemonSet))
			env.Eventually(t, "the old driver runs", func() error { return s.runs(t.Context(), daemonSet) })
			mark, err := s.Audit.Now()
			env.Must(t, err)
			s.create(t, nil)
			env.Eventually(t, "where the other driver is", func() error { return s.reports(t.Context(), "Waiting", other+"/"+tc.name) })
			env.Quiet(t, operator)
			s.wroteNothing(t, mark)
			owned, err := s.Owned(t.Context())
			env.Must(t, err)
			if len(owned) > 0 {
				t.Errorf("%d objects were applied beside another driver", len(owned))
			}
			// A DaemonSet that wants no node is no driver that runs, and holds up nothing.
			env.Must(t, s.Client.Patch(t.Context(), daemonSet, env.Merge(`{"spec":{"template":{"spec":{"nodeSelector":{"example.com/nowhere":""}}}}}`)))
			env.Eventually(t, "the driver installed", func() error { return s.handedOver(t.Context(), few) })
			env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet))
			env.Must(t, errors.Join(s.Client.Delete(t.Context(), daemonSet), s.Uninstall(t.Context())))
		})
	}
}

// identityOf is the ServiceAccount of the node pods, without which they can't start.
func identityOf(objects []client.Object) client.Object {
	var account client.Object
	for _, object := range objects {
		if name := object.GetName(); name == predecessors.CommunityAccount || name == predecessors.NodeAccount {
			account = object
		}
	}
	account.SetOwnerReferences(nil)
	return account
}

func deploymentAmong(t *testing.T, objects []client.Object) *appsv1.Deployment {
	t.Helper()
	for _, object := range objects {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
		}
	}
	t.Fatal("no Deployment")
	return nil
}

func (s *scene) replicas(ctx context.Context, deployment *appsv1.Deployment, want int32) error {
	live := deployment.DeepCopy()
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(deployment), live); err != nil {
		return err
	}
	if live.Status.ReadyReplicas != want {
		return fmt.Errorf("%d pods are ready, want %d", live.Status.ReadyReplicas, want)
	}
	return nil
}
