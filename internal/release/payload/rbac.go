package payload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
)

// grant has the permissions of an operator on one object.
type grant struct {
	// namespace is the namespace of the role. If it is empty, the role is for all namespaces.
	namespace, group, resource, name string
	// verbs are separated by spaces.
	verbs string
}

const manage = "create delete get patch"

// ownRoles returns the roles of the cluster-storage-operator. Some rules are in the assets, and all other rules come from the catalogue.
func (r Release) ownRoles() ([]client.Object, error) {
	objects, err := r.load("operator/rights.yaml", nil)
	if err != nil {
		return nil, err
	}
	grants, err := r.grants()
	if err != nil {
		return nil, err
	}
	byNamespace := map[string][]rbacv1.PolicyRule{}
	for _, one := range grants {
		rules := byNamespace[one.namespace]
		// The grants are sorted, so grants that differ only in the name are next to each other. Combine them into one rule.
		if last := len(rules) - 1; last >= 0 && rules[last].APIGroups[0] == one.group && rules[last].Resources[0] == one.resource &&
			strings.Join(rules[last].Verbs, " ") == one.verbs {
			rules[last].ResourceNames = append(rules[last].ResourceNames, one.name)
			continue
		}
		byNamespace[one.namespace] = append(rules, rbac.Rule(one.group, one.resource, []string{one.name}, strings.Fields(one.verbs)...))
	}
	var bindings []client.Object
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			role.Rules = append(role.Rules, byNamespace[""]...)
			delete(byNamespace, "")
		case *rbacv1.Role:
			role.Rules = append(role.Rules, byNamespace[role.Namespace]...)
			delete(byNamespace, role.Namespace)
			loaded, err := r.load("operator/binding.yaml", namespace(role.Namespace))
			if err != nil {
				return nil, err
			}
			bindings = append(bindings, loaded...)
		}
	}
	if left := sorted(byNamespace); len(left) > 0 {
		return nil, fmt.Errorf("assets/operator/rights.yaml has no role in the namespaces %s: add a role in each, with the permissions to watch its "+
			"objects", strings.Join(left, ", "))
	}
	return append(objects, bindings...), nil
}

// grants returns the grants for the catalogue, sorted.
func (r Release) grants() ([]grant, error) {
	var grants []grant
	for _, entry := range r.Entries {
		objects, err := entry.Everything(r.Scheme)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind()
			resource, _ := meta.UnsafeGuessKindToResource(kind)
			verbs := manage
			if kind.Kind == "Namespace" {
				// The operator never deletes a Namespace, because other owners may have objects in it.
				verbs = "create get patch"
			}
			grants = append(grants, grant{roleNamespace(kind.Kind, object.GetNamespace()), kind.Group, resource.Resource, object.GetName(), verbs})
		}
		grants = append(grants, ofDriver(entry)...)
	}
	slices.SortFunc(grants, func(a, b grant) int {
		return cmp.Or(
			strings.Compare(a.namespace, b.namespace), strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource),
			strings.Compare(a.verbs, b.verbs), strings.Compare(a.name, b.name),
		)
	})
	return slices.Compact(grants), nil
}

// roleNamespace returns the namespace of the role for an object, or "" for a ClusterRole. The release can't put a Role into a namespace that the
// operator creates, or that some clusters lack.
func roleNamespace(kind, namespace string) string {
	if namespace == catalogue.Namespace || (kind == "RoleBinding" && slices.Contains(fixedNamespaces(), namespace)) {
		return namespace
	}
	return ""
}

// fixedNamespaces returns the namespaces with bindings that exist in every cluster.
func fixedNamespaces() []string { return []string{catalogue.Namespace, "openshift-config"} }

// toBind returns the grants to bind the roles of an entry's operator. Kubernetes asks for such a permission in the namespace of the binding
// (Kubernetes v1.36.3, pkg/registry/rbac/escalation_check.go, BindingAuthorized). So a grant in one namespace does not allow a binding in another
// namespace.
func toBind(entry catalogue.Entry) []grant {
	grants := []grant{{"", rbacv1.GroupName, "clusterroles", entry.ClusterRole(), "bind"}}
	for _, binding := range entry.Bindings {
		grants = append(grants, grant{
			roleNamespace("RoleBinding", binding.Namespace), rbacv1.GroupName, "clusterroles", entry.Operator + "-" + binding.Role, "bind",
		})
	}
	if entry.Moves() {
		// This binding is in the namespace of a predecessor's driver that OLM installed. Most clusters do not have that namespace, so the permission is
		// for all namespaces.
		grants = append(grants, grant{"", rbacv1.GroupName, "clusterroles", entry.Operator + "-role", "bind"})
	}
	return grants
}

// bindingsPolicy returns the policy that limits the cluster-storage-operator's account to the bindings of the catalogue.
func (r Release) bindingsPolicy() ([]client.Object, error) {
	allowed := map[string]bool{}
	for _, entry := range r.Entries {
		allow := func(namespace, role string) {
			allowed["'"+namespace+"/"+role+" "+rbacv1.ServiceAccountKind+" "+catalogue.Namespace+"/"+entry.Operator+"'"] = true
		}
		allow("", entry.ClusterRole())
		for _, binding := range entry.Bindings {
			allow(binding.Namespace, entry.Operator+"-"+binding.Role)
		}
		if entry.Moves() {
			allow(entry.Predecessor.Namespace, entry.Operator+"-role")
		}
	}
	return r.load("operator/bindings-policy.yaml", manifest.Values{
		"NAMESPACE": catalogue.OperatorNamespace, "OPERATOR": catalogue.Operator, "ALLOWED": strings.Join(sorted(allowed), ", "),
	})
}

// ofDriver returns the grants for the objects of a driver, without the objects of the driver's operator.
func ofDriver(entry catalogue.Entry) []grant {
	grants := []grant{{"", operatorv1.GroupName, "clustercsidrivers", entry.Name, manage}}
	grants = append(grants, toBind(entry)...)
	// The cluster-storage-operator deletes these objects itself if the driver is no longer wanted and the driver's operator is already deleted.
	grants = append(grants, grant{"", "storage.k8s.io", "csidrivers", entry.Name, "delete get"})
	for _, workload := range entry.Workloads {
		resource := strings.ToLower(workload.Kind) + "s"
		grants = append(grants, grant{roleNamespace(workload.Kind, workload.Namespace), "apps", resource, workload.Name, "delete get"})
	}
	if predecessor := entry.Predecessor; predecessor != nil {
		grants = append(
			grants,
			grant{"", predecessor.Configuration.Group, predecessor.Resource, "cluster", "delete get patch"},
			// The predecessor's Deployment can be in every namespace.
			grant{"", "apps", "deployments", predecessor.Deployment, "list"},
		)
	}
	if entry.Moves() {
		// During a migration, the driver's operator works in the predecessor's namespace. Most clusters do not have that namespace, so these permissions
		// are for all namespaces.
		grants = append(grants, grant{"", rbacv1.GroupName, "rolebindings", entry.Operator + "-role", "create get patch"})
		for _, workload := range entry.Workloads {
			grants = append(grants, grant{"", "apps", strings.ToLower(workload.Kind) + "s", workload.Name, "get"})
		}
	}
	return grants
}
