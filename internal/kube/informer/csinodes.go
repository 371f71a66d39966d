package informer

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// CSINodes returns Objects with the names of the nodes whose kubelet has registered a driver.
func CSINodes(api client.WithWatch, driverName string, request reconcile.Request) *Objects[string] {
	list := func() client.ObjectList { return &storagev1.CSINodeList{} }
	return New(api, &storagev1.CSINode{}, list, request, func(object client.Object) (string, bool) {
		from, ok := object.(*storagev1.CSINode)
		return object.GetName(), ok && slices.ContainsFunc(from.Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driverName })
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
