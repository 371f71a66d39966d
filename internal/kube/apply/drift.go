package apply

import (
	"errors"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// contains reports whether live has everything that desired has. Maps may hold more, because the API server adds defaults; lists must have the same
// length and order. Managed fields show additions of others.
func contains(live, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			// The API server drops empty maps of some kinds.
			return live == nil && len(want) == 0
		}
		for key, value := range want {
			if !contains(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := live.([]any)
		if !ok || len(have) != len(want) {
			return live == nil && len(want) == 0
		}
		for i := range want {
			if !contains(have[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(live, desired)
	}
}

// dropNulls removes null values, such as creationTimestamp, which mean "absent" to server-side apply.
func dropNulls(fields map[string]any) map[string]any {
	for key, value := range fields {
		switch typed := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			dropNulls(typed)
		case []any:
			for _, item := range typed {
				if inner, ok := item.(map[string]any); ok {
					dropNulls(inner)
				}
			}
		}
	}
	return fields
}

// keepImmutable copies immutable fields from the live object, so that a StorageClass with other parameters stays unchanged instead of failing for
// ever.
func keepImmutable(desired, live *unstructured.Unstructured) {
	if desired.GetKind() != "StorageClass" {
		return
	}
	for _, field := range []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"} {
		if value, ok := live.Object[field]; ok {
			desired.Object[field] = value
		} else {
			delete(desired.Object, field)
		}
	}
}

// runsPods reports whether pods are started from an object.
func runsPods(subject Subject) bool { return subject.Group == appsv1.GroupName }

// isUnfit reports whether validation rejects an object, for example because a field is immutable. An admission policy rejects with the same reason
// but without a field, and would reject the recreated object, too.
func isUnfit(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// aggregated reports whether a ClusterRole has an aggregationRule. It must be recreated: only an administrator may change such a role, and the
// controller-manager would restore its rules for ever.
func aggregated(live *unstructured.Unstructured) bool {
	_, found := live.Object["aggregationRule"]
	return found && live.GetKind() == "ClusterRole"
}

// recreatable reports whether the applier may delete and recreate an object of a kind to change an immutable field. Objects of these kinds hold no
// state, and running pods don't notice their short absence. An object with a wrong field would do more harm than no object.
func recreatable(kind schema.GroupKind) bool {
	switch kind.Kind {
	case "RoleBinding", "ClusterRoleBinding", "CSIDriver", "ValidatingAdmissionPolicyBinding", "Secret":
		return true
	default:
		return false
	}
}
