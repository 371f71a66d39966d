package payload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
)

// limitsPolicy returns the admission policy that limits the accounts of operators. RBAC can't express these limits, because RBAC compares only names.
func (r Release) limitsPolicy() ([]client.Object, error) {
	packages, operators, taints := map[string]bool{}, map[string]bool{}, map[string]bool{}
	accounts, roles, namespaces := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, entry := range r.Entries {
		if entry.Predecessor != nil {
			packages[quoted(entry.Predecessor.Package)] = true
		}
		if !entry.Builtin {
			continue
		}
		operators[quoted(entry.Operator)] = true
		operated, err := r.driver(entry)
		if err != nil {
			return nil, err
		}
		if operated.StartupTaint != "" {
			taints[quoted(entry.Operator+" "+operated.StartupTaint)] = true
		}
		namespaces[quoted(operated.OperandNamespace(catalogue.Namespace))] = true
		found, err := r.grantsOf(operated)
		if err != nil {
			return nil, err
		}
		for _, name := range found.accounts {
			accounts[quoted(entry.Operator+" "+name)] = true
		}
		// The list also has the roles that our operator deletes, because a rollback starts the predecessor's operator again, which binds these roles.
		for _, name := range slices.Concat(found.roles, operated.Obsolete.ClusterRoles) {
			roles[quoted(entry.Operator+" "+name)] = true
		}
	}
	return r.load("operator/limits-policy.yaml", manifest.Values{
		"OPERATOR_NAMESPACE": catalogue.OperatorNamespace, "OPERATOR": catalogue.Operator, "NAMESPACE": catalogue.Namespace,
		"PACKAGES": strings.Join(sorted(packages), ", "), "OPERATORS": strings.Join(sorted(operators), ", "),
		"ACCOUNTS": strings.Join(sorted(accounts), ", "), "TAINTS": strings.Join(sorted(taints), ", "),
		"ROLES": strings.Join(sorted(roles), ", "), "NAMESPACES": strings.Join(sorted(namespaces), ", "),
	})
}

func quoted(name string) string { return "'" + name + "'" }

// grants has the accounts of a driver, and the roles of these accounts in the whole cluster.
type grants struct {
	// accounts are the ServiceAccounts under which the pods of the driver run.
	accounts []string
	// roles are the ClusterRoles that the bindings of the driver name.
	roles []string
}

func (r Release) grantsOf(operated driver.Driver) (grants, error) {
	settings, err := operated.ReadSettings(func(string) string { return "" })
	if err != nil {
		return grants{}, err
	}
	objects, err := operated.Everything(r.Scheme, operated.OperandNamespace(catalogue.Namespace), settings)
	if err != nil {
		return grants{}, err
	}
	var found grants
	for _, object := range objects {
		switch typed := object.(type) {
		case *appsv1.Deployment:
			found.accounts = append(found.accounts, typed.Spec.Template.Spec.ServiceAccountName)
		case *appsv1.DaemonSet:
			found.accounts = append(found.accounts, typed.Spec.Template.Spec.ServiceAccountName)
		case *rbacv1.ClusterRoleBinding:
			found.roles = append(found.roles, typed.RoleRef.Name)
		}
	}
	return found, nil
}
