package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// roles are the rules of every role that this project ships or renders, by the name of the role.
func roles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	held, err := rbac.Held()
	env.Must(t, err)
	granted, err := rbac.Granted()
	env.Must(t, err)
	scraped, err := rbac.Scraped()
	env.Must(t, err)
	offered, err := rbac.Offered()
	env.Must(t, err)
	found := map[string][]rbacv1.PolicyRule{}
	for _, role := range slices.Concat(held, granted, scraped, offered) {
		found[role.Namespace+"/"+role.Name] = role.Rules
	}
	return found
}

func TestNoRoleIsBroaderThanNeeded(t *testing.T) {
	all := roles(t)
	if len(all) != 12 {
		t.Errorf("%d roles, want the operator's 2, the one for its metrics, the driver's 5, that of policies and the users' 3: %v", len(all), all)
	}
	for name, rules := range all {
		for _, rule := range rules {
			for _, part := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.Contains(part, "*") {
					t.Errorf("%s: a rule holds *: %v", name, rule)
				}
			}
			for _, verb := range []string{"escalate", "bind", "impersonate"} {
				if slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0 {
					t.Errorf("%s: %s is not narrowed by names: %v", name, verb, rule)
				}
			}
			if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
				t.Errorf("%s: Secrets are not narrowed by names: %v", name, rule)
			}
		}
	}
}

// Every role for users is about SharedVolumes alone. Who may edit a namespace may write them; nobody writes their status.
func TestTheRolesOfUsersAreAboutSharedVolumes(t *testing.T) {
	offered, err := rbac.Offered()
	env.Must(t, err)
	read, all := []string{"get", "list", "watch"}, []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	wanted := [][]string{read, all, all}
	if len(offered) != len(wanted) {
		t.Fatalf("%d roles: %v", len(offered), offered)
	}
	for i, role := range offered {
		verbs := map[string][]string{}
		for _, right := range rbac.Of([]rbac.Role{role}) {
			if right.Group != v1alpha1.GroupVersion().Group || right.Name != "" || right.Namespace != "" {
				t.Errorf("%s: %s", role.Name, right)
			}
			verbs[right.Resource] = append(verbs[right.Resource], right.Verb)
		}
		if diff := cmp.Diff(map[string][]string{"sharedvolumes": wanted[i], "sharedvolumes/status": {"get"}}, verbs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role.Name, diff)
		}
	}
}
