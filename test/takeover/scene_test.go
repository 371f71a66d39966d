package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// scene is a cluster with an old driver and with applications that use it.
type scene struct {
	*env.Cluster
	namespace string
	// lent is the place in the audit log at which this test begins.
	lent env.Mark
	// workers are the names of the nodes on which applications run.
	workers []string
	sampler *env.Sampler
	// restarted says that the API server was: for a moment it does not know who may do what.
	restarted bool
}

// projects are the namespaces of the applications. In the first one the volume has the handle of today, in the other one the
// handle of old.
func projects() []string { return []string{"shop", "lab"} }

// before makes a cluster as it is before the migration, but for the applications: the old driver runs on all nodes on which it
// wants to, and SharedVolumes are bound.
func before(t *testing.T, nodes int, namespace string, driver ...client.Object) *scene {
	t.Helper()
	s := open(t, nodes, namespace)
	s.install(t, driver...)
	return s
}

// install puts the old driver and the SharedVolumes into a cluster.
func (s *scene) install(t *testing.T, driver ...client.Object) {
	t.Helper()
	s.putDriver(t, driver)
	for i, project := range projects() {
		env.Must(t, s.Namespace(t.Context(), project))
		_, err := s.PutCommunityVolume(t.Context(), project, "data", i > 0)
		env.Must(t, err)
	}
}

// putDriver makes the objects of a driver, by default of the community's, and waits until it runs.
func (s *scene) putDriver(t *testing.T, driver []client.Object) {
	t.Helper()
	// OpenShift's operator has the name of ours.
	manager := env.OperatorName
	if len(driver) == 0 {
		driver, manager = s.community(t), env.CommunityName
	}
	env.Must(t, s.Put(t.Context(), manager, driver...))
	for _, object := range driver {
		if daemonSet, ok := object.(*appsv1.DaemonSet); ok {
			env.Eventually(t, "the old driver runs", func() error { return s.runs(t.Context(), daemonSet) })
		}
	}
}

// community is the community's driver in the namespace of the operator.
func (s *scene) community(t *testing.T) []client.Object {
	t.Helper()
	uid, err := s.CRDUID(t.Context())
	env.Must(t, err)
	return predecessors.Community(s.namespace, uid)
}

func (s *scene) nodesOf(t *testing.T, selection ...client.ListOption) []string {
	t.Helper()
	nodes := &corev1.NodeList{}
	env.Must(t, s.Client.List(t.Context(), nodes, selection...))
	names := make([]string, 0, len(nodes.Items))
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	sort.Strings(names)
	return names
}

// runs checks that a DaemonSet has all pods that it wants, and that all are ready.
func (s *scene) runs(ctx context.Context, daemonSet *appsv1.DaemonSet) error {
	live := &appsv1.DaemonSet{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(daemonSet), live); err != nil {
		return err
	}
	status := live.Status
	if status.ObservedGeneration != live.Generation || status.DesiredNumberScheduled == 0 || status.NumberReady != status.DesiredNumberScheduled {
		return fmt.Errorf("%d of %d pods are ready", status.NumberReady, status.DesiredNumberScheduled)
	}
	return nil
}

// watch begins when all applications run: at most a tenth of the nodes may lack a plugin.
func (s *scene) watch(t *testing.T, nodes int) (stop func()) {
	t.Helper()
	s.sampler = newSampler(max(1, nodes/10), projects()...)
	return s.sampler.Follow(t, s.Cluster)
}

// application runs a pod of a project on a node. Its volume is that of the project.
func (s *scene) application(t *testing.T, project, name, node string) *corev1.Pod {
	t.Helper()
	pod := env.Application(project, name, node, "pvc-data")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return s.RunPod(t, pod)
}

// finish ends a pod of an application as a job ends.
func (s *scene) finish(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if s.sampler != nil {
		s.sampler.Expect(pod)
	}
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	pod.Status.Phase = corev1.PodSucceeded
	env.Must(t, s.Client.Status().Update(t.Context(), pod))
}

// stop deletes a pod of an application as its owner does.
func (s *scene) stop(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if s.sampler != nil {
		s.sampler.Expect(pod)
	}
	env.Must(t, s.Client.Delete(t.Context(), pod))
	env.Eventually(t, "pod "+pod.Name+" gone", func() error { return s.Gone(t.Context(), pod.DeepCopy()) })
}

// operate starts the operator in the namespace of the old driver. It ends with the test.
func (s *scene) operate(t *testing.T, args ...string) *env.Operator {
	t.Helper()
	operator, err := s.StartOperatorIn(t.Context(), s.namespace, append([]string{"--leader-elect=false"}, args...), nil)
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return operator
}

// create makes the ClusterCSIDriver: that is how users ask for the migration.
func (s *scene) create(t *testing.T, annotations map[string]string) {
	t.Helper()
	cr := env.EFS(operatorv1.Managed)
	cr.Annotations = annotations
	env.Must(t, s.Client.Create(t.Context(), cr))
}

// acceptRemount lets the operator take the plugin from nodes in use.
func (s *scene) acceptRemount(t *testing.T) {
	t.Helper()
	if s.sampler != nil {
		s.sampler.Accept(true)
	}
	env.Must(t, s.Client.Patch(t.Context(), env.EFS(""), env.Merge(`{"metadata":{"annotations":{"`+accepted+`":"true"}}}`)))
}

// oldPods are the names of old plugins by node.
func (s *scene) oldPods(ctx context.Context) (map[string]string, error) {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; isPlugin(pod) && isOld(pod) {
			found[pod.Spec.NodeName] = pod.Name
		}
	}
	return found, nil
}

// holdsOnly checks that old plugins are on these nodes and on no other, and that none of them is leaving.
func (s *scene) holdsOnly(ctx context.Context, nodes ...string) error {
	old, err := s.oldPods(ctx)
	if err != nil {
		return err
	}
	missing := 0
	for _, node := range nodes {
		if old[node] == "" {
			missing++
		}
	}
	if missing > 0 || len(old) != len(nodes) {
		return fmt.Errorf("old plugins are on %v, want them on %v", old, nodes)
	}
	return nil
}

// reports checks that the operator says of the node pods that it waits or works, for which reason, and that the message has these
// texts.
func (s *scene) reports(ctx context.Context, reason string, texts ...string) error {
	return errors.Join(s.Says(ctx, env.EFS("").Name, "AWSEFSDriverNodeServiceControllerProgressing", "True/"+reason, texts...), s.Condition(ctx, "Progressing", operatorv1.ConditionTrue))
}

// data are identity, spec and bound state of what holds the users' data.
func (s *scene) data(ctx context.Context) (map[string]string, error) {
	shared, volumes, pvcs := &v1alpha1.SharedVolumeList{}, &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}
	if err := errors.Join(s.Client.List(ctx, shared), s.Client.List(ctx, volumes), s.Client.List(ctx, pvcs)); err != nil {
		return nil, err
	}
	found := map[string]string{}
	note := func(object client.Object, spec any, state string) error {
		text, err := json.Marshal(spec)
		found[fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())] = fmt.Sprintf(
			"UID %s, %s, deleted %t, spec %s", object.GetUID(), state, object.GetDeletionTimestamp() != nil, text)
		return err
	}
	var err error
	for i := range shared.Items {
		err = errors.Join(err, note(&shared.Items[i], shared.Items[i].Spec, string(shared.Items[i].Status.Phase)))
	}
	for i := range volumes.Items {
		err = errors.Join(err, note(&volumes.Items[i], volumes.Items[i].Spec, string(volumes.Items[i].Status.Phase)))
	}
	for i := range pvcs.Items {
		err = errors.Join(err, note(&pvcs.Items[i], pvcs.Items[i].Spec, string(pvcs.Items[i].Status.Phase)))
	}
	return found, err
}

// scale sets the replicas of a Deployment; other objects have none.
func scale(object client.Object, replicas int32) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		deployment.Spec.Replicas = &replicas
	}
}
