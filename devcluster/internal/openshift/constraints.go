package openshift

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// constraintsPolicy is the name of a policy. The policy gives a pod a user, as OpenShift's admission of SecurityContextConstraints does.
	constraintsPolicy = "security-context-constraints"
	// podUser is the user that the policy gives to pods. On OpenShift, each namespace has its own range of users, and such a range begins with a similar
	// number.
	podUser = 1000680000
)

// constraints returns a policy that replaces the admission of SecurityContextConstraints. If a pod requests one of the restricted
// SecurityContextConstraints and names no user, the policy gives it a user and a group. Without them, a kubelet would run the pod as the user of its
// image. If that user is root, the kubelet refuses a pod that has runAsNonRoot.
func constraints() []client.Object {
	return []client.Object{
		&admissionv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: constraintsPolicy},
			Spec: admissionv1.MutatingAdmissionPolicySpec{
				FailurePolicy:      ptr.To(admissionv1.Fail),
				ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
					},
				}}},
				MatchConditions: []admissionv1.MatchCondition{{
					Name:       "asks-for-restricted-constraints",
					Expression: "object.metadata.?annotations[?'openshift.io/required-scc'].orValue('') in ['restricted-v2', 'hostnetwork-v2']",
				}, {
					Name:       "names-no-user",
					Expression: "!object.spec.?securityContext.runAsUser.hasValue()",
				}},
				Mutations: []admissionv1.Mutation{{
					PatchType: admissionv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: fmt.Sprintf(
						"Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: %d, fsGroup: %d}}}", podUser, podUser)},
				}},
			},
		},
		&admissionv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: constraintsPolicy},
			Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: constraintsPolicy},
		},
	}
}
