package payload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// checkRoles finds forbidden rules, and bindings to roles that do not exist.
func (m manifests) checkRoles() error {
	roles := map[string][]rbacv1.PolicyRule{}
	var problems []error
	for _, kind := range []string{"ClusterRole", "Role"} {
		m.each(kind, func(file string, object *unstructured.Unstructured) {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: %w", file, title(object), err))
			}
			roles[title(object)] = role.Rules
			for _, rule := range role.Rules {
				problem := tooMuch(rule)
				if problem == patchesNodes && m.removesTaints(title(object)) {
					problem = ""
				}
				if problem != "" && !slices.Contains(exceptions()[title(object)], problem) {
					problems = append(problems, fmt.Errorf("%s: %s: %s: %v", file, title(object), problem, rule))
				}
			}
		})
	}
	bound, err := m.boundEverywhere(roles)
	problems = append(problems, err)
	for _, name := range bound {
		if problem := secretsOf(roles[name]); problem != "" && !slices.Contains(exceptions()[name], problem) {
			problems = append(problems, fmt.Errorf("%s gives a right to the Secrets of all namespaces: %s", name, problem))
		}
	}
	return errors.Join(problems...)
}

// writesNodes is the error for a role that can write nodes. Function exceptions has the only role that may write nodes.
const writesNodes = "no operator writes nodes"

// patchesNodes is the error for a role whose only write access to nodes is verb patch. The operators of our drivers may have such a role, because
// assets/operator/limits-policy.yaml allows them to patch only the taint of their driver.
const patchesNodes = "no operator patches nodes, unless a policy limits it"

// removesTaints reports whether a role is the ClusterRole of an operator of our drivers. The policy allows such an operator to patch only a taint.
func (m manifests) removesTaints(role string) bool {
	return slices.ContainsFunc(m.Entries, func(entry catalogue.Entry) bool { return entry.Builtin && role == "ClusterRole "+entry.ClusterRole() })
}

// exceptions returns the forbidden rules that certain roles may have nevertheless, by the title of the role.
// docs/decisions/0026-rights-of-real-operators.md names the cost of each exception.
func exceptions() map[string][]string {
	return map[string][]string{
		// A StorageClass of the SMB driver can name a Secret in any namespace, so the provisioner must be able to read all Secrets.
		"ClusterRole openshift-csi-provisioner-configmap-and-secret-reader-role": {"get"},
		// An init container of the operator's driver writes labels of the node on which it runs.
		"ClusterRole ibm-vpc-block-csi-driver-operator-clusterrole": {writesNodes},
	}
}

// secretsOf returns the verbs that the rules allow on Secrets.
func secretsOf(rules []rbacv1.PolicyRule) string {
	var verbs []string
	for _, rule := range rules {
		if slices.Contains(rule.Resources, "secrets") {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	slices.Sort(verbs)
	return strings.Join(slices.Compact(verbs), ", ")
}

func tooMuch(rule rbacv1.PolicyRule) string {
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.Contains(list, "*") {
			return "a rule holds *"
		}
	}
	for _, verb := range rule.Verbs {
		switch {
		case verb == "escalate" || verb == "impersonate":
			return "no role may hold " + verb
		case verb == "bind" && len(rule.ResourceNames) == 0:
			return "a rule with verb bind has no resourceNames"
		}
	}
	if !slices.Contains(rule.Resources, "nodes") {
		return ""
	}
	writes := slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) })
	switch {
	case len(writes) == 0:
		return ""
	case slices.Equal(writes, []string{"patch"}):
		return patchesNodes
	default:
		return writesNodes
	}
}

// boundEverywhere returns the roles that an account can have in all namespaces. Either a ClusterRoleBinding of the release or of the catalogue names
// the role, or an operator has permission to bind the role in all namespaces.
func (m manifests) boundEverywhere(roles map[string][]rbacv1.PolicyRule) ([]string, error) {
	var bound []string
	var problems []error
	look := func(where, namespace, kind, name string) {
		role := kind + " " + name
		if kind == "Role" {
			role = kind + " " + namespace + "/" + name
		}
		if _, exists := roles[role]; !exists {
			problems = append(problems, fmt.Errorf("%s binds %s, which no manifest has", where, role))
		}
		if namespace == "" {
			bound = append(bound, role)
		}
	}
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		m.each(kind, func(file string, object *unstructured.Unstructured) {
			role, _, _ := unstructured.NestedStringMap(object.Object, "roleRef")
			look(file, object.GetNamespace(), role["kind"], role["name"])
		})
	}
	for _, entry := range m.Entries {
		objects, err := entry.Everything(m.Scheme)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			switch binding := object.(type) {
			case *rbacv1.ClusterRoleBinding:
				look("the catalogue", "", binding.RoleRef.Kind, binding.RoleRef.Name)
			case *rbacv1.RoleBinding:
				look("the catalogue", binding.Namespace, binding.RoleRef.Kind, binding.RoleRef.Name)
			}
		}
	}
	for _, role := range sorted(roles) {
		for _, name := range mayBind(role, roles[role]) {
			look(role, placeOf(role), "ClusterRole", name)
		}
	}
	return bound, errors.Join(problems...)
}

// mayBind returns the ClusterRoles that the holder of a role may bind. For the cluster-storage-operator, it returns no ClusterRole, because an
// admission policy limits this operator to the bindings of the catalogue.
func mayBind(role string, rules []rbacv1.PolicyRule) []string {
	var names []string
	for _, rule := range rules {
		if role != "ClusterRole "+catalogue.Operator && slices.Contains(rule.Verbs, "bind") {
			names = append(names, rule.ResourceNames...)
		}
	}
	return names
}

// placeOf returns the namespace of a role, by the role's title. For a ClusterRole, the result is empty.
func placeOf(role string) string {
	rest, inNamespace := strings.CutPrefix(role, "Role ")
	if !inNamespace {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// readsOfGroups is the only permitted action with a *, because the driver of Azure reads all resources of a resource group.
const readsOfGroups = "Microsoft.Resources/subscriptions/resourceGroups/*/read"

// checkRequests checks that a CredentialsRequest asks for each Secret of the catalogue. It refuses permissions with a *.
func (m manifests) checkRequests() error {
	asked := map[string]bool{}
	var problems []error
	m.each("CredentialsRequest", func(file string, object *unstructured.Unstructured) {
		secret, _, _ := unstructured.NestedStringMap(object.Object, "spec", "secretRef")
		asked[secret["namespace"]+"/"+secret["name"]] = true
		grants, _, _ := unstructured.NestedMap(object.Object, "spec", "providerSpec")
		for _, action := range actions(grants) {
			if strings.Contains(action, "*") && action != readsOfGroups {
				problems = append(problems, fmt.Errorf("%s: %s asks for %s: name the actions", file, title(object), action))
			}
		}
	})
	for _, entry := range m.Entries {
		for _, secret := range entry.Secrets {
			if !asked[secret.Namespace+"/"+secret.Name] {
				problems = append(problems, fmt.Errorf("no CredentialsRequest asks for Secret %s/%s of %s", secret.Namespace, secret.Name, entry.Name))
			}
		}
	}
	return errors.Join(problems...)
}

// actions returns the permissions that a CredentialsRequest asks for, for every cloud.
func actions(grants map[string]any) []string {
	predefined, _, _ := unstructured.NestedStringSlice(grants, "predefinedRoles")
	permissions, _, _ := unstructured.NestedStringSlice(grants, "permissions")
	found := slices.Concat(predefined, permissions)
	for _, list := range []string{"statementEntries", "policies"} {
		entries, _, _ := unstructured.NestedSlice(grants, list)
		for _, each := range entries {
			if entry, ok := each.(map[string]any); ok {
				allowed, _, _ := unstructured.NestedStringSlice(entry, "action")
				roles, _, _ := unstructured.NestedStringSlice(entry, "roles")
				found = slices.Concat(found, allowed, roles)
			}
		}
	}
	return found
}
