package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DropOwnership removes labels of predecessors from an object. It also removes owner references to CustomResourceDefinitions of predecessors. With
// such a reference, the garbage collector would delete the object together with the CustomResourceDefinition.
func (a *Applier) DropOwnership(ctx context.Context, live client.Object) error {
	return a.strip(ctx, live, a.PredecessorLabels)
}

// DropOwnerReferences removes the owner references that DropOwnership would remove, but no labels.
func (a *Applier) DropOwnerReferences(ctx context.Context, live client.Object) error {
	return a.strip(ctx, live, nil)
}

func (a *Applier) strip(ctx context.Context, live client.Object, labels []string) error {
	metadata := a.ownershipOf(live, labels)
	if metadata == nil {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = live.GetUID(), live.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	target, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", live)
	}
	if err := a.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("remove the label or owner of a predecessor: %w", err)
	}
	return nil
}

// ownershipOf returns the metadata patch that removes labels and owner references of predecessors. It returns nil if the object has none.
func (a *Applier) ownershipOf(live client.Object, labels []string) map[string]any {
	metadata, dropped := map[string]any{}, map[string]any{}
	for _, label := range labels {
		if _, found := live.GetLabels()[label]; found {
			dropped[label] = nil
		}
	}
	if len(dropped) > 0 {
		metadata["labels"] = dropped
	}
	owners := slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), func(owner metav1.OwnerReference) bool {
		return owner.Kind == "CustomResourceDefinition" && slices.Contains(a.PredecessorOwners, owner.Name)
	})
	if len(owners) < len(live.GetOwnerReferences()) {
		metadata["ownerReferences"] = owners
	}
	if len(metadata) == 0 {
		return nil
	}
	return metadata
}
