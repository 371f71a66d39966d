package informer

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Registered is a node whose kubelet has registered a driver.
type Registered struct {
	Node string
	// UID is the UID of the Node. It is empty if the CSINode has no owner.
	UID types.UID
}

// CSINodes returns Objects with the nodes on which the kubelet has registered the driver of this name.
func CSINodes(api client.WithWatch, driverName string, request reconcile.Request) *Objects[Registered] {
	list := func() client.ObjectList { return &storagev1.CSINodeList{} }
	return New(api, &storagev1.CSINode{}, list, request, func(object client.Object) (Registered, bool) {
		from, ok := object.(*storagev1.CSINode)
		if !ok || !slices.ContainsFunc(from.Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driverName }) {
			return Registered{}, false
		}
		registered := Registered{Node: from.Name}
		for _, owner := range from.OwnerReferences {
			if owner.Kind == "Node" && owner.Name == from.Name {
				registered.UID = owner.UID
			}
		}
		return registered, true
	})
}

// NewClient returns a client for Objects that bypasses the manager's cache.
func NewClient(manager ctrl.Manager) (client.WithWatch, error) {
	api, err := client.NewWithWatch(manager.GetConfig(), client.Options{
		Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), HTTPClient: manager.GetHTTPClient(),
	})
	if err != nil {
		return nil, fmt.Errorf("make a client for watches: %w", err)
	}
	return api, nil
}
