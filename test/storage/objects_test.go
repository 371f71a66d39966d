package storage

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// listed are the items of a list.
func listed(list client.ObjectList) []client.Object {
	var found []client.Object
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		found = append(found, item.(client.Object))
		return nil
	})
	return found
}

// entry is a driver of the catalogue.
func entry(name string) catalogue.Entry {
	all := catalogue.All()
	return all[slices.IndexFunc(all, func(e catalogue.Entry) bool { return e.Name == name })]
}

// uids are those of what a driver consists of: the workloads, and the objects that have no pods but the mark of an operator.
func (s *scene) uids() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	drivers, marked := client.InNamespace(catalogue.Namespace), client.HasLabels{openshift.ManagedByLabel}
	for _, kind := range []struct {
		list    client.ObjectList
		options []client.ListOption
	}{
		{&appsv1.DeploymentList{}, []client.ListOption{drivers}},
		{&appsv1.DaemonSetList{}, []client.ListOption{drivers}},
		{&corev1.ServiceAccountList{}, []client.ListOption{drivers, marked}},
		{&rbacv1.RoleBindingList{}, []client.ListOption{drivers, marked}},
		{&rbacv1.ClusterRoleBindingList{}, []client.ListOption{marked}},
		{&storagev1.CSIDriverList{}, []client.ListOption{marked}},
	} {
		items, err := s.items(kind.list, kind.options...)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, item := range items {
			found[fmt.Sprintf("%T %s", item, item.GetName())] = string(item.GetUID())
		}
	}
	return found
}
