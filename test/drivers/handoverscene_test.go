package drivers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// handover is a cluster with the EBS driver of OpenShift 4.5, and with applications that use it.
type handover struct {
	scene
	sampler *env.Sampler
	stop    func()
}

func newHandover(t *testing.T) *handover {
	t.Helper()
	cluster := pool.Lend(t)
	env.Must(t, cluster.AddWorkers(t.Context(), handedNodes))
	d := awsebs.Driver()
	h := &handover{scene: scene{cluster: cluster, driver: d}}
	env.Must(t, cluster.Namespace(t.Context(), env.OperatorNamespace))
	env.Must(t, cluster.Namespace(t.Context(), "shop"))
	env.Must(t, cluster.PutDriverAdministrator(t.Context(), d))
	env.Must(t, cluster.Client.Create(t.Context(), h.secret()))
	env.Must(t, errors.Join(cluster.PutVolume(t.Context(), d.Name, "shop", "data-0"), cluster.PutVolume(t.Context(), d.Name, "shop", "data-1")))
	env.Must(t, predecessors.PutLegacyEBS(t.Context(), cluster))
	return h
}

// begin puts the old driver, with applications that use it, and asks for the new one.
func (h *handover) begin(t *testing.T) []*corev1.Pod {
	t.Helper()
	env.Must(t, predecessors.PutLegacyEBS(t.Context(), h.cluster))
	apps := []*corev1.Pod{
		h.cluster.RunPod(t, env.Application("shop", "web-0", "worker-0", "data-0")),
		h.cluster.RunPod(t, env.Application("shop", "web-1", "worker-1", "data-1")),
	}
	h.ask(t)
	return apps
}

// ask asks for the new driver, while a sampler looks.
func (h *handover) ask(t *testing.T) {
	t.Helper()
	h.sampler = predecessors.SampleEBS(1, "shop")
	h.stop = h.sampler.Follow(t, h.cluster)
	env.Must(t, h.cluster.Client.Create(t.Context(), env.CR(h.driver.Name, operatorv1.Managed)))
}

// rolledOut checks that the old DaemonSet has all its pods of its newest template.
func (h *handover) rolledOut(ctx context.Context) error {
	daemonSet := &appsv1.DaemonSet{}
	if err := h.cluster.Client.Get(ctx, client.ObjectKey{Namespace: predecessors.LegacyEBSNamespace, Name: predecessors.EBSNode}, daemonSet); err != nil {
		return err
	}
	if state := daemonSet.Status; state.ObservedGeneration != daemonSet.Generation || state.UpdatedNumberScheduled != handedNodes || state.NumberReady != handedNodes {
		return fmt.Errorf("%d of %d pods are of the newest template", state.UpdatedNumberScheduled, handedNodes)
	}
	return nil
}

func (h *handover) operate(t *testing.T, args ...string) *env.Operator {
	t.Helper()
	operator, err := h.cluster.StartDriverOperator(t.Context(), h.driver, args...)
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return operator
}

// end deletes a pod of an application.
func (h *handover) end(t *testing.T, app *corev1.Pod) {
	t.Helper()
	h.sampler.Expect(app)
	env.Must(t, client.IgnoreNotFound(h.cluster.Client.Delete(t.Context(), app)))
	env.Eventually(t, "pod "+app.Name+" gone", func() error { return h.cluster.Gone(t.Context(), app.DeepCopy()) })
}

func (h *handover) accept(t *testing.T) {
	t.Helper()
	h.sampler.Accept(true)
	_, err := h.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", h.driver.Name, acceptRemount+"=true")
	env.Must(t, err)
}

// clear takes everything away that the next hand-over is to make, but for what has no namespace.
func (h *handover) clear(t *testing.T, operator *env.Operator, apps []*corev1.Pod) {
	t.Helper()
	for _, app := range apps {
		h.end(t, app)
	}
	h.stop()
	env.Must(t, h.cluster.Client.Delete(t.Context(), env.CR(h.driver.Name, "")))
	// It makes nothing again that goes now.
	env.Quiet(t, operator)
	h.discardOurs(t)
	env.Quiet(t, operator)
	env.Eventually(t, "no pods of the driver", func() error {
		if err := errors.Join(h.cluster.Gone(t.Context(), h.deployment()), h.cluster.Gone(t.Context(), h.daemonSet())); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := h.cluster.Client.List(t.Context(), pods, client.InNamespace(env.OperatorNamespace)); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d pods", len(pods.Items))
	})
}

// discardOurs deletes our workloads, which nobody makes again without a ClusterCSIDriver.
func (h *handover) discardOurs(t *testing.T) {
	t.Helper()
	for _, object := range []client.Object{h.deployment(), h.daemonSet()} {
		env.Must(t, client.IgnoreNotFound(h.cluster.Client.Delete(t.Context(), object)))
	}
}

// oldGone checks that nothing of the old driver is left in its namespace but the Secret.
func (h *handover) oldGone(ctx context.Context) error {
	if err := h.holdsOnly(ctx); err != nil {
		return err
	}
	for _, object := range predecessors.LegacyEBS() {
		if _, isSecret := object.(*corev1.Secret); isSecret || object.GetNamespace() == "" {
			continue
		}
		if err := h.cluster.Gone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (h *handover) oldDaemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: predecessors.LegacyEBSNamespace, Name: predecessors.EBSNode}}
}

// holdsOnly checks that old plugins are on the nodes of these pods and on no other.
func (h *handover) holdsOnly(ctx context.Context, apps ...*corev1.Pod) error {
	pods := &corev1.PodList{}
	if err := h.cluster.Client.List(ctx, pods, client.InNamespace(predecessors.LegacyEBSNamespace), client.MatchingLabels{"app": predecessors.EBSNode}); err != nil {
		return err
	}
	var have, want []string
	for i := range pods.Items {
		have = append(have, pods.Items[i].Spec.NodeName)
	}
	for _, app := range apps {
		want = append(want, app.Spec.NodeName)
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		return fmt.Errorf("old plugins are on %v, want %v", have, want)
	}
	return nil
}

// says checks why the operator says that it waits or works on the node pods, and that the message has these texts.
func (h *handover) says(ctx context.Context, reason string, texts ...string) error {
	return h.cluster.Says(ctx, h.driver.Name, "AWSEBSDriverNodeServiceControllerProgressing", "/"+reason, texts...)
}

// over checks that all of the driver is ours, and that of the old one nothing is left but its namespace and its Secret.
func (h *handover) over(ctx context.Context) error {
	if err := h.cluster.SettledOf(ctx, h.driver.Name); err != nil {
		return err
	}
	daemonSet := h.daemonSet()
	if err := h.cluster.Client.Get(ctx, client.ObjectKeyFromObject(daemonSet), daemonSet); err != nil {
		return err
	}
	if daemonSet.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || daemonSet.Status.NumberReady != handedNodes {
		return fmt.Errorf("%d node pods are ready, and are updated by %s", daemonSet.Status.NumberReady, daemonSet.Spec.UpdateStrategy.Type)
	}
	for _, object := range predecessors.LegacyEBS() {
		if _, isSecret := object.(*corev1.Secret); isSecret || object.GetNamespace() == "" {
			if err := h.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			continue
		}
		if err := h.cluster.Gone(ctx, object); err != nil {
			return err
		}
	}
	return h.holdsOnly(ctx)
}

// identity is that of the objects that are adopted where they are.
func (h *handover) identity(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, object := range predecessors.LegacyEBS() {
		if object.GetNamespace() == "" {
			h.get(t, object)
			found[fmt.Sprintf("%T %s", object, object.GetName())] = string(object.GetUID())
		}
	}
	return found
}

// content is that of all objects of the driver.
func (h *handover) content(t *testing.T) map[string]map[string]any {
	t.Helper()
	settings, err := h.driver.ReadSettings(func(string) string { return "" })
	env.Must(t, err)
	objects, err := h.driver.Everything(h.cluster.Scheme, env.OperatorNamespace, settings)
	env.Must(t, err)
	found := map[string]map[string]any{}
	for _, object := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
		err := h.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) || live.GetKind() == "VolumeSnapshotClass" {
			continue
		}
		env.Must(t, err)
		found[live.GetKind()+" "+live.GetName()] = env.Content(live)
	}
	return found
}

func (h *handover) oldDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: predecessors.LegacyEBSNamespace, Name: predecessors.EBSController}}
}

// restrict takes from the operator what it may do in the old namespace, but for reading pods, which it may everywhere.
func (h *handover) restrict(t *testing.T) {
	t.Helper()
	all := []string{"*"}
	everything := []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}
	name := h.driver.NamespaceRole()
	reads := []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: []string{"get", "list", "watch"}}, {
		APIGroups: []string{
			"apiextensions.k8s.io", "config.openshift.io", "events.k8s.io", "operator.openshift.io", "rbac.authorization.k8s.io", "storage.k8s.io",
		}, Resources: all, Verbs: all,
	}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: h.driver.Operator}}
	admin := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: h.driver.Operator}}
	h.get(t, admin)
	admin.Subjects = nil
	env.Must(t, h.cluster.Client.Update(t.Context(), admin))
	ref := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: everything},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads"}, Rules: reads},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads"}, Subjects: subjects, RoleRef: ref("reads")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: name}, Subjects: subjects, RoleRef: ref(name)},
	} {
		env.Must(t, h.cluster.Client.Create(t.Context(), object))
	}
}

// binding gives the operator RBAC in the old namespace, as the cluster-storage-operator does.
func (h *handover) binding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: predecessors.LegacyEBSNamespace, Name: h.driver.NamespaceRole()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: h.driver.Operator}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: h.driver.NamespaceRole()},
	}
}
