package takeover

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// If new pods do not become ready, the old ones of other nodes stay: a bad image must not take the driver from the whole cluster.
func TestAMigrationThatStallsStopsAndSaysWhere(t *testing.T) {
	t.Parallel()
	const nodes = 23
	s := before(t, nodes, "openshift-operators")
	app := s.application(t, "shop", "web", s.workers[0])
	s.watch(t, nodes)
	s.holdReadiness(t)
	operator := s.operate(t)
	s.create(t, nil)
	const budget = nodes / 10
	var stalled []string
	env.Eventually(t, "the budget used up", func() error {
		old, err := s.oldPods(t.Context())
		if err != nil {
			return err
		}
		stalled = nil
		for _, node := range s.workers {
			if old[node] == "" {
				stalled = append(stalled, node)
			}
		}
		if len(stalled) != budget {
			return fmt.Errorf("no old plugin on %v", stalled)
		}
		return nil
	})
	env.Eventually(t, "the nodes named that do not go on", func() error { return s.reports(t.Context(), "TakingOver", stalled...) })
	env.Quiet(t, operator)
	old, err := s.oldPods(t.Context())
	env.Must(t, err)
	if want := len(s.workers) - budget; len(old) != want {
		t.Errorf("%d old plugins are left, want %d", len(old), want)
	}
	s.releaseReadiness(t)
	env.Eventually(t, "it goes on", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	s.stop(t, app)
	env.Eventually(t, "the driver taken over", func() error { return errors.Join(s.handedOver(t.Context(), nodes), s.communityGone(t.Context())) })
}

const slow = "new-node-pods-do-not-become-ready"

// holdReadiness keeps the fake kubelet of workers from saying that our node pods are ready.
func (s *scene) holdReadiness(t *testing.T) {
	t.Helper()
	fail := admissionv1.Fail
	env.Must(t, s.Client.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: slow},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: `request.userInfo.username != "kwok" || object.spec.serviceAccountName != "` + predecessors.NodeAccount +
					`" || !object.spec.nodeName.startsWith("worker")`,
			}},
		},
	}))
	env.Must(t, s.Client.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: slow},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: slow, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}))
	// The API server needs a moment to know its policies. A pod that looks like ours shows when it does.
	env.Must(t, s.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: predecessors.NodeAccount}}))
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "kwok", Groups: []string{"system:masters"}}
	kubelet, err := client.New(config, client.Options{Scheme: s.Scheme})
	env.Must(t, err)
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "probe"},
		Spec: corev1.PodSpec{
			NodeName: s.workers[0], ServiceAccountName: predecessors.NodeAccount, Containers: []corev1.Container{{Name: "none", Image: "registry.example/none:1"}},
		},
	}
	env.Must(t, s.Client.Create(t.Context(), probe))
	env.Eventually(t, "the policy in force", func() error {
		live := probe.DeepCopy()
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(probe), live); err != nil {
			return err
		}
		live.Status.Message = "asked"
		if kubelet.Status().Update(t.Context(), live, client.DryRunAll) == nil {
			return errors.New("not yet")
		}
		return nil
	})
}

// releaseReadiness ends that. The fake kubelet does not try again by itself, so that each pod has to be changed.
func (s *scene) releaseReadiness(t *testing.T) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: slow}}))
	env.Must(t, s.Client.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: slow}}))
	count := 0
	env.Eventually(t, "all node pods ready", func() error {
		count++
		return s.nudge(t.Context(), count)
	})
}

func (s *scene) nudge(ctx context.Context, count int) error {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": nodeDaemonSet}); err != nil {
		return err
	}
	waiting := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if env.IsReady(pod) || pod.Spec.NodeName == "" {
			continue
		}
		waiting++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/nudge":"%d"}}}`, count)
		if err := s.Client.Patch(ctx, pod, env.Merge(string(patch))); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if waiting > 0 {
		return fmt.Errorf("%d node pods are not ready", waiting)
	}
	return nil
}
