package rules

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// podsOf are the pod templates among objects, by the names of their workloads.
func podsOf(objects []client.Object) map[string]corev1.PodSpec {
	found := map[string]corev1.PodSpec{}
	for _, object := range objects {
		switch workload := object.(type) {
		case *appsv1.Deployment:
			found[workload.Name] = workload.Spec.Template.Spec
		case *appsv1.DaemonSet:
			found[workload.Name] = workload.Spec.Template.Spec
		}
	}
	return found
}

// asks tells whether an account has rights of which a program makes use. To use SecurityContextConstraints is the kubelet's matter.
func asks(objects []client.Object, account string) bool {
	rules := map[string][]rbacv1.PolicyRule{}
	bound := map[string]bool{}
	bind := func(reference rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool { return subject.Name == account }) {
			bound[reference.Kind+" "+reference.Name] = true
		}
	}
	for _, object := range objects {
		switch typed := object.(type) {
		case *rbacv1.ClusterRole:
			rules["ClusterRole "+typed.Name] = typed.Rules
		case *rbacv1.Role:
			rules["Role "+typed.Name] = typed.Rules
		case *rbacv1.ClusterRoleBinding:
			bind(typed.RoleRef, typed.Subjects)
		case *rbacv1.RoleBinding:
			bind(typed.RoleRef, typed.Subjects)
		}
	}
	for role := range bound {
		if slices.ContainsFunc(rules[role], func(rule rbacv1.PolicyRule) bool { return !slices.Equal(rule.Verbs, []string{"use"}) }) {
			return true
		}
	}
	return false
}

// A pod whose account has no rights gets no token, and all others need theirs.
func TestPodsHaveATokenIfTheyMayAskForSomething(t *testing.T) {
	without := 0
	for _, d := range all.Drivers() {
		objects := variants.Render(t, d, nil)
		for name, pod := range podsOf(objects) {
			hasNone := pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken
			if needs := asks(objects, pod.ServiceAccountName); needs == hasNone {
				t.Errorf("%s: the account of %s has rights: %t; automountServiceAccountToken is false: %t", d.Name, name, needs, hasNone)
			}
			if hasNone {
				without++
			}
		}
	}
	if without == 0 {
		t.Error("all pods have a token: this shows nothing")
	}
}

// Sidecars that wait for a Lease ignore SIGTERM.
func TestControllerPodsEndSoon(t *testing.T) {
	for _, d := range all.Drivers() {
		for name, pod := range podsOf(variants.Render(t, d, nil)) {
			grace := pod.TerminationGracePeriodSeconds
			if name == d.Deployment && (grace == nil || *grace > 10) {
				t.Errorf("%s: pods of %s may take more than 10 seconds to end, and each drain waits for them", d.Name, name)
			}
		}
	}
}
