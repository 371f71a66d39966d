package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What follows is what the real programs do with RBAC that others lack, with the place in their sources.

// followed are the namespaces whose Secrets and ConfigMaps a program follows before it does anything, beside its own.
type followed struct{ secrets, configMaps []string }

// followedBy is by the CSI name. ibm-vpc-block-csi-driver-operator e6d299f: pkg/operator/starter.go:46, pkg/controller/secret/secretsync.go:87.
func followedBy(driver string) followed {
	const cloud = "openshift-cloud-controller-manager"
	if driver != "vpc.block.csi.ibm.io" {
		return followed{}
	}
	return followed{secrets: []string{cloud}, configMaps: []string{cloud}}
}

// options are the caches of what a program follows. None of them selects objects. The manager starts nothing before all are filled, and
// waits for that without an end, as csi-operator f7f9dc59 does (pkg/clients/clients.go:138).
func (f followed) options(own []string) map[client.Object]cache.ByObject {
	in := func(further []string) cache.ByObject {
		namespaces := map[string]cache.Config{}
		for _, name := range slices.Concat(own, further) {
			namespaces[name] = cache.Config{}
		}
		return cache.ByObject{Namespaces: namespaces}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: in(f.secrets), &corev1.ConfigMap{}: in(f.configMaps),
		// Roles are read when they are made, of any owner.
		&rbacv1.ClusterRole{}: {}, &rbacv1.ClusterRoleBinding{}: {},
	}
}

// versionLabel differs in each release, so that what was made by the last one has to be changed.
const versionLabel = "standin/version"

// makeRoles makes the driver's roles and bindings as library-go does (operator/resource/resourceapply/rbac.go): by POST, without a name in the
// request, and later by PUT if anything differs.
func (s *standIn) makeRoles(ctx context.Context) error {
	made := s.entry.Made
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{versionLabel: s.version}}
	}
	for _, name := range slices.Sorted(maps.Keys(made.Roles)) {
		role := &rbacv1.ClusterRole{ObjectMeta: meta(name), Rules: made.Roles[name]}
		have := &rbacv1.ClusterRole{}
		if err := s.ensure(ctx, role, have, func() bool { return equality.Semantic.DeepEqual(role.Rules, have.Rules) }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made.Bindings)) {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta(name),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: made.Bindings[name]},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Namespace: made.Account.Namespace, Name: made.Account.Name,
			}},
		}
		have := &rbacv1.ClusterRoleBinding{}
		if err := s.ensure(ctx, binding, have, func() bool { return equality.Semantic.DeepEqual(binding.Subjects, have.Subjects) }); err != nil {
			return err
		}
	}
	return nil
}

// ensure makes an object, or changes the one that is there.
func (s *standIn) ensure(ctx context.Context, wanted, have client.Object, same func() bool) error {
	err := s.client.Get(ctx, client.ObjectKeyFromObject(wanted), have)
	switch {
	case apierrors.IsNotFound(err):
		// The first version of it is another one, so that it is changed once.
		first := wanted.DeepCopyObject().(client.Object)
		first.SetLabels(nil)
		if err := s.client.Create(ctx, first, client.FieldOwner(owner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make %T %s: %w", wanted, wanted.GetName(), err)
		}
		// The cache reports it.
		return nil
	case err != nil:
		return fmt.Errorf("read %T %s: %w", wanted, wanted.GetName(), err)
	case same() && have.GetLabels()[versionLabel] == s.version:
		return nil
	}
	wanted.SetResourceVersion(have.GetResourceVersion())
	if err := s.client.Update(ctx, wanted, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("change %T %s: %w", wanted, wanted.GetName(), err)
	}
	return nil
}
