package rules

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// holder is a kind of program or person with rights.
type holder string

const (
	efsOperator     holder = "EFS operator"
	clusterStorage  holder = "cluster-storage-operator"
	driverOperators holder = "Operators of the other drivers"
	ibmOperators    holder = "IBM's operators, which the release starts"
	controllers     holder = "Controller pods"
	nodePods        holder = "Node pods"
	webhooks        holder = "Webhook of vSphere"
	prometheus      holder = "Prometheus"
	users           holder = "Users"
)

// held is a role, whose it is, and of which driver.
type held struct {
	who    holder
	driver string
	rbac.Role
}

// everyRole is every role that this project ships or renders.
func everyRole(t *testing.T) []held {
	t.Helper()
	var all []held
	for who, read := range map[holder]func() ([]rbac.Role, error){efsOperator: rbac.Held, prometheus: rbac.Scraped, users: rbac.Offered} {
		roles, err := read()
		env.Must(t, err)
		for _, role := range roles {
			all = append(all, held{who, "EFS", role})
		}
	}
	return slices.Concat(all, rolesOfTheRelease(t), rolesOfDrivers(t))
}

// rolesOfTheRelease are those in manifests.
func rolesOfTheRelease(t *testing.T) []held {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "manifests", "*.yaml"))
	env.Must(t, err)
	var all []held
	for _, file := range files {
		text, err := os.ReadFile(file)
		env.Must(t, err)
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var role rbacv1.Role
			if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			isRole := role.Kind == "Role" || role.Kind == "ClusterRole"
			if isRole && len(role.Rules) > 0 {
				who, title := ownerOf(role.Name)
				all = append(all, held{who, title, rbac.Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules}})
			}
		}
	}
	return all
}

// ownerOf says whose a role of the release is, by its name.
func ownerOf(role string) (who holder, driver string) {
	for _, entry := range catalogue.All() {
		if strings.HasPrefix(role, entry.Operator+"-") {
			if entry.Builtin {
				return driverOperators, entry.Title
			}
			return ibmOperators, entry.Title
		}
	}
	switch {
	case role == catalogue.Operator:
		return clusterStorage, ""
	case strings.HasSuffix(role, "prometheus"):
		return prometheus, ""
	case strings.HasPrefix(role, "openshift-csi-"):
		return controllers, "IBM"
	}
	return holder("nobody knows whose: " + role), ""
}

// rolesOfDrivers are those that operators render, by the account that is bound.
func rolesOfDrivers(t *testing.T) []held {
	t.Helper()
	scheme, err := kube.Scheme()
	env.Must(t, err)
	var found []held
	for _, d := range all.Drivers() {
		settings, err := d.ReadSettings(func(string) string { return "" })
		env.Must(t, err)
		objects, err := d.Everything(scheme, d.OperandNamespace(kube.DefaultNamespace), settings)
		env.Must(t, err)
		title := "EFS"
		if d.Payload != nil {
			title = d.Payload.Title
		}
		for _, account := range accountsIn(objects) {
			who := controllers
			switch {
			case account == "prometheus-k8s":
				who = prometheus
			case account == d.NodeServiceAccount():
				who = nodePods
			case account != d.ControllerServiceAccount():
				who = webhooks
			}
			for _, role := range boundTo(objects, account) {
				found = append(found, held{who, title, role})
			}
		}
	}
	return found
}

// accountsIn are the subjects of all bindings, sorted.
func accountsIn(objects []client.Object) []string {
	var names []string
	for _, object := range objects {
		for _, subject := range subjectsOf(object) {
			names = append(names, subject.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func subjectsOf(object client.Object) []rbacv1.Subject {
	switch binding := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.Subjects
	case *rbacv1.RoleBinding:
		return binding.Subjects
	}
	return nil
}

// boundTo are the roles of an account.
func boundTo(objects []client.Object, account string) []rbac.Role {
	bound := map[string]bool{}
	for _, object := range objects {
		if !slices.ContainsFunc(subjectsOf(object), func(subject rbacv1.Subject) bool { return subject.Name == account }) {
			continue
		}
		switch binding := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			bound[binding.RoleRef.Name] = true
		case *rbacv1.RoleBinding:
			bound[binding.Namespace+"/"+binding.RoleRef.Name] = true
		}
	}
	var roles []rbac.Role
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			if bound[role.Name] {
				roles = append(roles, rbac.Role{Name: role.Name, Rules: role.Rules})
			}
		case *rbacv1.Role:
			if bound[role.Namespace+"/"+role.Name] {
				roles = append(roles, rbac.Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules})
			}
		}
	}
	slices.SortFunc(roles, func(a, b rbac.Role) int { return cmp.Compare(a.Name, b.Name) })
	return roles
}
