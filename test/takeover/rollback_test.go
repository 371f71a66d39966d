package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// The steps of the guide for a migration that has failed: stop this operator, let go of the ClusterCSIDriver, and start the old operator,
// which puts its objects back. Nobody who uses a volume notices. The second try is removed half-way.
func TestAFailedMigrationCanBeRolledBackAndRemoved(t *testing.T) {
	s := before(t, few, "openshift-operators")
	apps := []*corev1.Pod{s.application(t, "shop", "web", s.workers[0]), s.application(t, "lab", "model", s.workers[1])}
	data, err := s.data(t.Context())
	env.Must(t, err)
	kept, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
	env.Must(t, err)
	stop := s.watch(t, few)
	operator := s.operate(t)
	s.create(t, nil)
	env.Eventually(t, "half of it done", func() error {
		return errors.Join(s.holdsOnly(t.Context(), apps[0].Spec.NodeName, apps[1].Spec.NodeName), s.reports(t.Context(), "TakingOver"))
	})

	env.Must(t, operator.Stop())
	_, err = s.Kubectl(t.Context(), "patch", "clustercsidriver", driverName, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	env.Must(t, err)
	_, err = s.Kubectl(t.Context(), "delete", "clustercsidriver", driverName)
	env.Must(t, err)
	// From here on the old operator rolls its pods out as it always did, and does not count nodes.
	s.sampler.Uncounted()
	env.Must(t, s.Put(t.Context(), env.CommunityName, append(s.community(t), predecessors.CommunityOperator(s.namespace)...)...))
	env.Eventually(t, "the old driver on all workers", func() error {
		return errors.Join(s.runs(t.Context(), s.daemonSet()), s.holdsOnly(t.Context(), s.workers...))
	})

	s.deleteOurs(t)

	after, err := s.data(t.Context())
	env.Must(t, err)
	same(t, "SharedVolumes, volumes or PVCs", data, after)
	env.Must(t, errors.Join(s.runs(t.Context(), s.daemonSet()), s.holdsOnly(t.Context(), s.workers...)))
	now, err := s.uids(t.Context(), s.daemonSet(), csiDriver(), storageClass())
	env.Must(t, err)
	same(t, "the identity of what was adopted", kept, now)
	for _, app := range apps {
		live := &corev1.Pod{}
		env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(app), live))
		if live.UID != app.UID || live.Status.Phase != corev1.PodRunning {
			t.Errorf("application %s is %s, UID %s", app.Name, live.Status.Phase, live.UID)
		}
	}

	for _, object := range predecessors.CommunityOperator(s.namespace) {
		env.Must(t, s.Client.Delete(t.Context(), object))
	}
	stop()
	s.stop(t, apps[1])
	s.removedHalfWay(t, apps[0])
}

// deleteOurs deletes what the old operator does not know, with the commands of the guide.
func (s *scene) deleteOurs(t *testing.T) {
	t.Helper()
	label := "app.kubernetes.io/managed-by=" + env.OperatorName
	for namespace, kinds := range map[string]string{
		s.namespace:                           "deployments,services,configmaps,poddisruptionbudgets,roles,rolebindings,serviceaccounts,servicemonitors",
		"":                                    "clusterroles,clusterrolebindings",
		"openshift-cloud-credential-operator": "credentialsrequests", "openshift-config-managed": "configmaps",
	} {
		_, err := s.Kubectl(t.Context(), "-n", namespace, "delete", kinds, "-l", label)
		env.Must(t, err)
	}
	owned, err := s.Owned(t.Context())
	env.Must(t, err)
	for i := range owned {
		if kind := owned[i].GetKind(); kind != "DaemonSet" && kind != "CSIDriver" && kind != "StorageClass" {
			t.Errorf("%s %s is left", kind, owned[i].GetName())
		}
	}
}

// The commands of the guide, while OpenShift's operator does what its source does. No two nodes lack a plugin at a time.
func TestAMigrationFromOpenShiftCanBeRolledBackNodeByNode(t *testing.T) {
	s := before(t, few, env.OperatorNamespace, predecessors.OpenShift(env.OperatorNamespace)...)
	s.openShiftCR(t)
	plan := s.dryRun(t, "--kubeconfig", s.Kubeconfig())
	if len(plan.Kept) != 1 || !strings.Contains(plan.Kept[0], "DELETE_ACCESS_POINT_ROOT_DIR=true") {
		t.Errorf("the plan keeps %q", plan.Kept)
	}
	same(t, "what is planned for the binding", migration.PlanDelete, planned(plan)["clusterrolebindings /"+commonBinding().Name])
	data, err := s.data(t.Context())
	env.Must(t, err)
	kept, err := s.uids(t.Context(), s.adoptedOfOpenShift()...)
	env.Must(t, err)
	s.watch(t, few)
	operator := s.operate(t, "--leader-elect=true")
	env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), few) })
	s.isNotOpenShifts(t)
	after, err := s.data(t.Context())
	env.Must(t, err)
	same(t, "SharedVolumes, volumes or PVCs", data, after)
	now, err := s.uids(t.Context(), s.adoptedOfOpenShift()...)
	env.Must(t, err)
	same(t, "the identity of what is adopted", kept, now)

	steps := s.guide(t, "To OpenShift's operator")
	steps("managementState\":\"Unmanaged")
	env.Must(t, operator.Stop())
	steps("finalizers", "lease")
	s.openShiftStarts(t, steps)
	pods := &corev1.PodList{}
	env.Eventually(t, "its node pods wait for ours", func() error {
		if err := s.Client.List(t.Context(), pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": predecessors.OpenShiftDaemonSet}); err != nil {
			return err
		}
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" {
				t.Errorf("pod %s is on node %s beside ours", pods.Items[i].Name, pods.Items[i].Spec.NodeName)
			}
		}
		if len(pods.Items) != few {
			return fmt.Errorf("%d pods", len(pods.Items))
		}
		return nil
	})
	steps("--cascade=orphan")
	env.Must(t, s.runs(t.Context(), s.openShiftDaemonSet()))
	steps("efs-csi-provisioner-binding", "delete crd")
	env.Eventually(t, "a round without a failure", func() error { return predecessors.SyncOpenShift(t.Context(), s.Cluster, s.namespace) })
	s.onlyOpenShifts(t)
	if _, most := s.sampler.Counts(t, s.Cluster); most != 1 {
		t.Errorf("%d nodes lacked a plugin at a time", most)
	}

	// The second try keeps what the first one found.
	s.operate(t)
	env.Eventually(t, "the driver taken over again", func() error { return s.handedOver(t.Context(), few) })
	s.deletesDirectories(t)
}

// guide returns a function that runs the blocks of a section of the guide which have these texts, each of which is to be the next one.
func (s *scene) guide(t *testing.T, section string) func(texts ...string) {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	all, err := env.Blocks(root, "upgrade-from-community.md", "sh")
	env.Must(t, err)
	blocks := slices.DeleteFunc(all, func(b env.Block) bool {
		return b.Section != section || strings.Contains(b.Text, "operators.coreos.com")
	})
	home := t.TempDir()
	env.Must(t, s.Kubectls(home))
	t.Cleanup(func() {
		if len(blocks) > 0 {
			t.Errorf("%s was not run", blocks[0].Place)
		}
	})
	return func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if len(blocks) == 0 || !strings.Contains(blocks[0].Text, text) {
				continue
			}
			env.Must(t, blocks[0].Run(t.Context(), home))
			blocks = blocks[1:]
		}
	}
}

// openShiftStarts plays OpenShift's operator beside the command that lets it begin, and waits for what it makes.
func (s *scene) openShiftStarts(t *testing.T, steps func(...string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		_ = env.Await(ctx, "Managed", func() error {
			cr := env.EFS("")
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
				return err
			}
			if cr.Spec.ManagementState != operatorv1.Managed {
				return errors.New("not yet")
			}
			// What fails is tested below.
			_ = predecessors.SyncOpenShift(ctx, s.Cluster, s.namespace)
			return nil
		})
	})
	steps("managementState\":\"Managed")
	group.Wait()
	cancel()
	env.Must(t, predecessors.SyncOpenShift(t.Context(), s.Cluster, s.namespace))
}

// onlyOpenShifts checks that nothing is left of this operator that OpenShift's does not know.
func (s *scene) onlyOpenShifts(t *testing.T) {
	t.Helper()
	known := map[string]bool{}
	for _, object := range predecessors.OpenShift(s.namespace) {
		kind, err := apiutil.GVKForObject(object, s.Scheme)
		env.Must(t, err)
		known[kind.Kind+" "+object.GetName()] = true
	}
	owned, err := s.Owned(t.Context())
	env.Must(t, err)
	for i := range owned {
		if name := owned[i].GetKind() + " " + owned[i].GetName(); !known[name] {
			t.Errorf("%s is left", name)
		}
	}
	revisions := &appsv1.ControllerRevisionList{}
	env.Must(t, s.Client.List(t.Context(), revisions, client.InNamespace(s.namespace), client.MatchingLabels{"app": nodeDaemonSet}))
	if len(revisions.Items) > 0 {
		t.Errorf("%d revisions of DaemonSet %s are left", len(revisions.Items), nodeDaemonSet)
	}
}

// deletesDirectories checks that the controller goes on to delete directories, as that of OpenShift's operator does.
func (s *scene) deletesDirectories(t *testing.T) {
	t.Helper()
	deployment := s.controller()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	if arguments := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(arguments, "--delete-access-point-root-dir=true") {
		t.Errorf("the controller's arguments are %v", arguments)
	}
}
