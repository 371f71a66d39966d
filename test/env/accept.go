package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DryRun is a dry run of a server-side apply. The API server answers with what the object would be.
func (c *Cluster) DryRun(ctx context.Context, object *unstructured.Unstructured) error {
	return c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
}

// Accept returns an error if the API server would not take an object, or would drop a field of it. A dropped field would be written
// again and again.
func (c *Cluster) Accept(ctx context.Context, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	status, hasStatus := object.Object["status"]
	delete(object.Object, "status")
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	answer := object.DeepCopy()
	if err := c.DryRun(ctx, answer); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	err := dropped("", object.Object, answer.Object)
	if hasStatus {
		err = errors.Join(err, c.acceptStatus(ctx, object, status))
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// acceptStatus is Accept for the status of an object that exists.
func (c *Cluster) acceptStatus(ctx context.Context, object *unstructured.Unstructured, status any) error {
	patch := NewObject(object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName())
	patch.Object["status"] = status
	answer := patch.DeepCopy()
	err := c.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(answer),
		client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return dropped("", patch.Object, answer.Object)
}

// dropped returns an error that names a field which was sent and is not in the answer.
func dropped(path string, sent, answer any) error {
	switch sent := sent.(type) {
	case map[string]any:
		fields, _ := answer.(map[string]any)
		for name, value := range sent {
			if empty(value) {
				continue
			}
			if fields[name] == nil {
				return fmt.Errorf("the API server drops %s.%s: a feature gate is off, or its version lacks the field", path, name)
			}
			if err := dropped(path+"."+name, value, fields[name]); err != nil {
				return err
			}
		}
	case []any:
		items, _ := answer.([]any)
		for i, value := range sent {
			if i >= len(items) {
				return fmt.Errorf("the API server drops %s[%d]", path, i)
			}
			if err := dropped(fmt.Sprintf("%s[%d]", path, i), value, items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty reports whether an API server may leave a value out.
func empty(value any) bool {
	text, err := json.Marshal(value)
	return err == nil && strings.Contains(`null false "" 0 {} []`, string(text))
}
