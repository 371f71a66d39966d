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

const patchesNodes = "it patches nodes"

// broad are the roles that hold more than others may, with what.
func broad() map[string]string {
	return map[string]string{
		// IBM's programs watch all Secrets of the driver's namespace, and of that of the cloud's controller: decision 0026.
		"/ibm-vpc-block-csi-driver-operator-role":       "Secrets are not narrowed by names",
		"/ibm-vpc-block-csi-driver-operator-cloud-role": "Secrets are not narrowed by names",
		"/powervs-block-csi-driver-operator-role":       "Secrets are not narrowed by names",
		// A StorageClass of IBM VPC names a Secret of any namespace.
		"/openshift-csi-provisioner-configmap-and-secret-reader-role": "Secrets are not narrowed by names",
		// An init container of its driver writes labels of its node.
		"/ibm-vpc-block-csi-driver-operator-clusterrole": "it writes nodes",
	}
}

// Of all programs, and of what they grant.
func TestNoRoleIsBroaderThanNeeded(t *testing.T) {
	all, needed := everyRole(t), map[string]bool{}
	if len(all) < 60 {
		t.Errorf("%d roles: some are not looked at", len(all))
	}
	for _, role := range all {
		name := role.Namespace + "/" + role.Name
		for _, rule := range role.Rules {
			for _, problem := range tooBroad(rule) {
				if problem == patchesNodes && (role.who == efsOperator || role.who == driverOperators) {
					// Policies limit them to the taint of their driver.
					continue
				}
				if needed[name] = true; broad()[name] != problem {
					t.Errorf("%s: %s: %s: %v", role.who, name, problem, rule)
				}
			}
		}
	}
	for name, problem := range broad() {
		if !needed[name] {
			t.Errorf("%s is no exception any more: %s", name, problem)
		}
	}
}

func tooBroad(rule rbacv1.PolicyRule) (problems []string) {
	for _, part := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.Contains(part, "*") {
			problems = append(problems, "a rule holds *")
		}
	}
	for _, verb := range []string{"escalate", "bind", "impersonate"} {
		if slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0 {
			problems = append(problems, verb+" is not narrowed by names")
		}
	}
	if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
		problems = append(problems, "Secrets are not narrowed by names")
	}
	written := slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return !writes(verb) })
	if slices.Contains(rule.Resources, "nodes") && len(written) > 0 {
		problem := "it writes nodes"
		if slices.Equal(written, []string{"patch"}) {
			problem = patchesNodes
		}
		problems = append(problems, problem)
	}
	return problems
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
