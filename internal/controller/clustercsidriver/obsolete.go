package clustercsidriver

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// deleteObsolete deletes the driver's obsolete bindings, once the Deployment that needs them no more is applied. They have no label of ours, and
// are looked for once in the life of the operator. One that gives its role to anybody else is left alone.
func (r *Reconciler) deleteObsolete(ctx context.Context, changes apply.ChangeSet, waits held) apply.ChangeSet {
	if r.noObsolete || len(r.Driver.ObsoleteBindings) == 0 || waits[driver.Controller] != "" || len(changes.With(apply.Failed)) > 0 {
		return nil
	}
	var deleted apply.ChangeSet
	for _, name := range r.Driver.ObsoleteBindings {
		binding := &rbacv1.ClusterRoleBinding{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, binding)
		if apierrors.IsNotFound(err) {
			continue
		}
		binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
		binding.Name = name
		if err == nil && !r.givesController(binding) {
			continue
		}
		change := apply.Change{Subject: apply.SubjectOf(binding), Action: apply.Deleted}
		if err == nil {
			uid := binding.UID
			err = r.Client.Delete(ctx, binding, client.Preconditions{UID: &uid})
		}
		if client.IgnoreNotFound(err) != nil {
			change.Action, change.Err = apply.Failed, fmt.Errorf("delete what an operator before this one has left: %w", err)
		}
		deleted = append(deleted, change)
	}
	r.noObsolete = len(deleted.With(apply.Failed)) == 0
	return deleted
}

// givesController tells whether a binding gives something to the controller's ServiceAccount, and to nobody else.
func (r *Reconciler) givesController(binding *rbacv1.ClusterRoleBinding) bool {
	return len(binding.Subjects) > 0 && !slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
		return subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != r.Namespace || subject.Name != r.Driver.ControllerServiceAccount()
	})
}
