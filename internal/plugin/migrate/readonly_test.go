package migrate

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAPlanHasNoWriter(t *testing.T) {
	pod, patch, plan := &corev1.Pod{}, client.MergeFrom(&corev1.Pod{}), readOnly{}
	configuration := applycorev1.Pod("p", "a")
	for verb, err := range map[string]error{
		"create":             plan.Create(t.Context(), pod),
		"update":             plan.Update(t.Context(), pod),
		"patch":              plan.Patch(t.Context(), pod, patch),
		"apply":              plan.Apply(t.Context(), configuration),
		"delete":             plan.Delete(t.Context(), pod),
		"delete all of":      plan.DeleteAllOf(t.Context(), pod),
		"update the status":  plan.Status().Update(t.Context(), pod),
		"patch the status":   plan.Status().Patch(t.Context(), pod, patch),
		"apply the status":   plan.Status().Apply(t.Context(), configuration),
		"create an eviction": plan.SubResource("eviction").Create(t.Context(), pod, pod),
		"get a scale":        plan.SubResource("scale").Get(t.Context(), pod, pod),
	} {
		if !errors.Is(err, errReadOnly) || err.Error() != "a plan writes nothing" {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
