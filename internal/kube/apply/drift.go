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

// contains reports whether live has everything that desired has. Maps in live can have more keys, because the API server adds defaults. Lists must
// have the same length and order. A field that another client added to a map makes no difference here. The applier finds such fields by the managed
// fields.
func contains(live, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			// The API server drops empty maps of some kinds. So an absent field matches an empty map.
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

// dropNulls removes null values, such as creationTimestamp. For server-side apply, null means "absent".
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

// keepImmutable copies immutable fields from the live object into the desired object. So a StorageClass keeps its parameters, also if the rendered
// parameters differ, and the apply does not fail forever.
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

// runsPods reports whether Kubernetes starts pods from an object.
func runsPods(subject Subject) bool { return subject.Group == appsv1.GroupName }

// isUnfit reports whether validation rejects an object, for example because a field is immutable. A rejection by an admission policy has the same
// reason, but names no field. Such a rejection does not count, because the policy would reject the recreated object, too.
func isUnfit(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// aggregated reports whether a ClusterRole has an aggregationRule. The applier must recreate such a role, because only an administrator has the
// permission to change it, and the controller-manager would restore its rules forever.
func aggregated(live *unstructured.Unstructured) bool {
	_, found := live.Object["aggregationRule"]
	return found && live.GetKind() == "ClusterRole"
}

// recreatable reports whether the applier is allowed to delete and recreate an object of a kind to change an immutable field. Objects of these kinds
// hold no state, and running pods don't notice their short absence. A wrong field does more harm than the short absence of the object.
func recreatable(kind schema.GroupKind) bool {
	switch kind.Kind {
	case "RoleBinding", "ClusterRoleBinding", "CSIDriver", "ValidatingAdmissionPolicyBinding", "Secret":
		return true
	default:
		return false
	}
}
