package payload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
)

// limitsPolicy returns the policy that limits the accounts of operators where RBAC can't, because RBAC can only compare names.
func (r Release) limitsPolicy() ([]client.Object, error) {
	packages, operators, accounts, taints := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
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
		names, err := r.accountsOf(operated)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			accounts[quoted(entry.Operator+" "+name)] = true
		}
	}
	return r.load("operator/limits-policy.yaml", manifest.Values{
		"OPERATOR_NAMESPACE": catalogue.OperatorNamespace, "OPERATOR": catalogue.Operator, "NAMESPACE": catalogue.Namespace,
		"PACKAGES": strings.Join(sorted(packages), ", "), "OPERATORS": strings.Join(sorted(operators), ", "),
		"ACCOUNTS": strings.Join(sorted(accounts), ", "), "TAINTS": strings.Join(sorted(taints), ", "),
	})
}

func quoted(name string) string { return "'" + name + "'" }

// accountsOf returns the ServiceAccounts under which the pods of a driver run, sorted.
func (r Release) accountsOf(operated driver.Driver) ([]string, error) {
	settings, err := operated.ReadSettings(func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	objects, err := operated.Everything(r.Scheme, operated.OperandNamespace(catalogue.Namespace), settings)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, object := range objects {
		switch workload := object.(type) {
		case *appsv1.Deployment:
			names = append(names, workload.Spec.Template.Spec.ServiceAccountName)
		case *appsv1.DaemonSet:
			names = append(names, workload.Spec.Template.Spec.ServiceAccountName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
