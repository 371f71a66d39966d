package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// users are the operators in the audit log, stand-ins included: these ask only for what every operator of a driver needs.
func users() []string {
	all := []string{env.CSOUser}
	for _, entry := range catalogue.All() {
		all = append(all, env.DriverOperatorUser(entry.Operator))
	}
	return all
}

// refused are the requests since a mark that an operator has no right to.
func refused(cluster *env.Cluster, mark env.Mark) error {
	var lines []string
	for _, user := range users() {
		requests, err := cluster.Audit.Since(mark, user)
		if err != nil {
			return err
		}
		for i, request := range requests {
			if request.IsRefused() && !allowed(requests[i+1:], request) {
				lines = append(lines, fmt.Sprintf("  %s: %s: %s", strings.TrimPrefix(user, "system:serviceaccount:"), request, request.Response.Message))
			}
		}
	}
	if len(lines) > 0 {
		return errors.New("an operator has asked for what it has no right to:\n" + strings.Join(lines, "\n"))
	}
	return nil
}

// allowed reports whether a request that was refused was allowed later: the API server takes a moment to know of a new binding.
func allowed(later []env.Request, refused env.Request) bool {
	return slices.ContainsFunc(later, func(request env.Request) bool {
		return request.Verb == refused.Verb && request.Object == refused.Object && !request.IsRefused()
	})
}

// checkRBAC reads all that the operators have asked for in all tests. No request may have been refused, and if all tests have run,
// each right of the cluster-storage-operator must have been needed by one.
func checkRBAC(clusters []*env.Cluster, passed bool) error {
	var requests []env.Request
	for _, cluster := range clusters {
		if err := refused(cluster, 0); err != nil {
			return err
		}
		made, err := cluster.Audit.Since(0, env.CSOUser)
		if err != nil {
			return err
		}
		requests = append(requests, made...)
	}
	if !passed || !rbac.Complete() {
		return nil
	}
	idle, err := idleRBAC(requests)
	if err != nil || len(idle) == 0 {
		return err
	}
	return errors.New("no test has made the cluster-storage-operator need these rules; add a test, or remove them from manifests:\n" +
		strings.Join(idle, "\n"))
}

// idleRBAC are the rules that none of these requests of the cluster-storage-operator has needed. To bind a role is not asked for by a request.
func idleRBAC(requests []env.Request) ([]string, error) {
	held, err := heldBy(env.CSONamespace, env.CSO)
	if err != nil {
		return nil, err
	}
	idle := rbac.Idle(held, nil, requests)
	// Drivers are all treated alike: what was needed for one of them is not tried with each.
	needed := map[rbac.Right]bool{}
	for _, right := range rbac.Of(held) {
		if !slices.Contains(idle, right) {
			needed[anyName(right)] = true
		}
	}
	var lines []string
	for _, right := range idle {
		// An event is patched when it comes again.
		again := right.Verb == "patch" && right.Resource == "events"
		// A cache lists where the API server does not stream what there is (k8s.io/client-go v0.36 tools/cache/reflector.go ListAndWatch).
		watched := right
		watched.Verb = "watch"
		cached := right.Verb == "list" && needed[anyName(watched)]
		if right.Verb != "bind" && !again && !cached && !needed[anyName(right)] {
			lines = append(lines, "  "+right.String())
		}
	}
	return lines, nil
}

// heldBy are the roles that the release binds to a ServiceAccount.
func heldBy(namespace, name string) ([]rbac.Role, error) {
	objects, err := (env.Release{Version: release}).Objects("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
	if err != nil {
		return nil, err
	}
	bound := map[string]bool{}
	for _, object := range objects {
		binding := rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == namespace && subject.Name == name {
				bound[object.GetNamespace()+"/"+binding.RoleRef.Name] = true
			}
		}
	}
	var held []rbac.Role
	for _, object := range objects {
		role := rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if bound[object.GetNamespace()+"/"+role.Name] {
			held = append(held, rbac.Role{Name: role.Name, Namespace: object.GetNamespace(), Rules: role.Rules})
		}
	}
	return held, nil
}

// anyName is a right without the name of the object and of its namespace.
func anyName(right rbac.Right) rbac.Right {
	right.Name, right.Namespace = "", ""
	return right
}
