package env

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow is the name of all objects that keep pods from becoming ready.
const slow = "new-node-pods-do-not-become-ready"

// HoldReadiness keeps the fake kubelet from saying that pods of an account are ready, on nodes whose names begin so. The node is one of them.
func HoldReadiness(t *testing.T, c *Cluster, account, prefix, node string) {
	t.Helper()
	fail := admissionv1.Fail
	Must(t, c.Client.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
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
				Expression: `request.userInfo.username != "kwok" || object.spec.serviceAccountName != "` + account +
					`" || !object.spec.nodeName.startsWith("` + prefix + `")`,
			}},
		},
	}))
	Must(t, c.Client.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: slow},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: slow, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}))
	Must(t, c.Namespace(t.Context(), slow))
	// The API server needs a moment to know its policies. A pod that looks like ours shows when it does.
	found := c.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: slow, Name: account}})
	Must(t, client.IgnoreAlreadyExists(found))
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "kwok", Groups: []string{"system:masters"}}
	kubelet, err := client.New(config, client.Options{Scheme: c.Scheme})
	Must(t, err)
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: slow, GenerateName: "probe-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "none", Image: "registry.example/none:1"}},
		},
	}
	Must(t, c.Client.Create(t.Context(), probe))
	Eventually(t, "the policy in force", func() error {
		live := probe.DeepCopy()
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(probe), live); err != nil {
			return err
		}
		live.Status.Message = "asked"
		// The fake kubelet changes it as well, and a conflict is no refusal.
		if answer := fmt.Sprint(kubelet.Status().Update(t.Context(), live, client.DryRunAll)); !strings.Contains(answer, "'"+slow+"'") {
			return errors.New("the policy does not refuse it: " + answer)
		}
		return nil
	})
}

// ReleaseReadiness ends that, for the pods of an app. The fake kubelet does not try again by itself, so that each pod has to be changed.
func ReleaseReadiness(t *testing.T, c *Cluster, namespace, app string) {
	t.Helper()
	Must(t, c.Client.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: slow}}))
	Must(t, c.Client.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: slow}}))
	count := 0
	Eventually(t, "all node pods ready", func() error {
		count++
		return c.nudge(t.Context(), namespace, app, count)
	})
}

// nudge changes the pods that are not ready.
func (c *Cluster) nudge(ctx context.Context, namespace, app string, count int) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	waiting := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if IsReady(pod) || pod.Spec.NodeName == "" {
			continue
		}
		waiting++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/nudge":"%d"}}}`, count)
		if err := c.Client.Patch(ctx, pod, Merge(string(patch))); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if waiting > 0 {
		return fmt.Errorf("%d node pods are not ready", waiting)
	}
	return nil
}
