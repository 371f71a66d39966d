package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// injectLabel marks a ConfigMap that OpenShift's network operator fills in.
const injectLabel = "config.openshift.io/inject-trusted-cabundle"

// injectAnnotation marks an object into which OpenShift's service CA writes its certificate (openshift/service-ca-operator,
// pkg/controller/api/api.go InjectCABundleAnnotationName).
const injectAnnotation = "service.beta.openshift.io/inject-cabundle"

// othersFields maps the index of a managed-fields entry to a set of fields. The entry belongs to another manager, which must not own these fields.
type othersFields map[int]*fieldpath.Set

func (f othersFields) empty() bool { return len(f) == 0 }

// Owns reports whether the object has our label and our field manager.
func (a *Applier) Owns(object client.Object) bool {
	return a.labelled(object) && a.applied(object)
}

func (a *Applier) labelled(object client.Object) bool {
	return labels.SelectorFromSet(labels.Set(a.Labels)).Matches(labels.Set(object.GetLabels()))
}

// applied reports whether our field manager applied the object.
func (a *Applier) applied(object client.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), a.isOurs)
}

func (a *Applier) isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == a.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// fieldsOfOthers finds fields that other clients changed or added. All other fields are ours, defaults of the API server, or allowed.
func (a *Applier) fieldsOfOthers(live, desired *unstructured.Unstructured) (othersFields, error) {
	found := othersFields{}
	for i, entry := range live.GetManagedFields() {
		if a.isOurs(entry) || entry.Subresource == "status" || entry.FieldsV1 == nil {
			continue
		}
		owned, err := ownedBy(entry)
		if err != nil {
			return nil, err
		}
		forbidden := &fieldpath.Set{}
		owned.Iterate(func(path fieldpath.Path) {
			if !allowed(desired, path.String()) || a.isPredecessorLabel(path.String()) {
				forbidden.Insert(path.Copy())
			}
		})
		if !forbidden.Empty() {
			found[i] = forbidden
		}
	}
	return found, nil
}

func ownedBy(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	owned := &fieldpath.Set{}
	if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("managed fields of %q: %w", entry.Manager, err)
	}
	return owned, nil
}

// isPredecessorLabel reports whether a field is a label of a predecessor.
func (a *Applier) isPredecessorLabel(path string) bool {
	return slices.ContainsFunc(a.PredecessorLabels, func(label string) bool { return path == ".metadata.labels."+label })
}

// allowed reports whether other clients are allowed to own a field of an object of this kind. It reads the desired object, because other clients may
// have changed the labels of the live object.
func allowed(desired *unstructured.Unstructured, path string) bool {
	belongs := []string{".metadata.labels", ".metadata.annotations", ".metadata.finalizers", ".status"}
	switch desired.GetKind() {
	case "ServiceAccount":
		// OpenShift adds pull secrets to every ServiceAccount.
		belongs = append(belongs, ".secrets", ".imagePullSecrets")
	case "ConfigMap":
		if desired.GetLabels()[injectLabel] == "true" {
			belongs = append(belongs, ".data")
		}
	case "ValidatingWebhookConfiguration":
		if desired.GetAnnotations()[injectAnnotation] == "true" && strings.HasSuffix(path, ".clientConfig.caBundle") {
			return true
		}
	case "Service":
		belongs = append(belongs, ".spec.clusterIP", ".spec.clusterIPs")
	case "Deployment", "DaemonSet":
		// "kubectl rollout restart" sets this annotation. It is a user's request, not drift.
		belongs = append(belongs, ".spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt")
		if path == ".spec.template.metadata.annotations" {
			return true
		}
	}
	return slices.ContainsFunc(belongs, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[")
	})
}

// adopt makes our field manager the manager of other clients' fields. The next apply omits these fields, so the API server removes them, or resets
// them to their defaults. adopt also removes the hash annotation. So if the operator is killed before the apply, the next reconcile detects a
// difference.
func (a *Applier) adopt(ctx context.Context, live *unstructured.Unstructured, theirs othersFields) error {
	entries, err := a.reassign(live, theirs)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             live.GetUID(),
		"resourceVersion": live.GetResourceVersion(),
		"managedFields":   entries,
		"annotations":     map[string]any{HashAnnotation: nil},
	}})
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	target := live.DeepCopy()
	if err := a.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("adopt fields that others changed: %w", err)
	}
	return nil
}

func (a *Applier) reassign(live *unstructured.Unstructured, theirs othersFields) ([]metav1.ManagedFieldsEntry, error) {
	ours := &fieldpath.Set{}
	mine := metav1.ManagedFieldsEntry{
		Manager: a.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: live.GetAPIVersion(), FieldsType: "FieldsV1",
	}
	var others []metav1.ManagedFieldsEntry
	for i, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		owned, err := ownedBy(entry)
		if err != nil {
			return nil, err
		}
		switch {
		case a.isOurs(entry):
			mine.Time = entry.Time
			ours = ours.Union(owned)
		case theirs[i] == nil:
			others = append(others, entry)
		default:
			ours = ours.Union(theirs[i])
			rest := owned.Difference(theirs[i])
			if rest.Empty() {
				continue
			}
			raw, err := rest.ToJSON()
			if err != nil {
				return nil, fmt.Errorf("encode fields of %q: %w", entry.Manager, err)
			}
			entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
			others = append(others, entry)
		}
	}
	raw, err := ours.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encode fields of %q: %w", a.FieldManager, err)
	}
	mine.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return append([]metav1.ManagedFieldsEntry{mine}, others...), nil
}
