package rbac

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env"
)

// Held are the roles that are shipped for the operator.
func Held() ([]Role, error) { return shipped("rbac/role.yaml") }

// Scraped are the roles that are shipped for Prometheus, to find the operator.
func Scraped() ([]Role, error) { return shipped("prometheus/monitor.yaml") }

// Offered are the roles that are shipped for users, in the order view, edit, admin: Kubernetes adds them to its own of these
// names. The operator does not hold them.
func Offered() ([]Role, error) {
	var found []Role
	for _, name := range []string{"viewer", "editor", "admin"} {
		roles, err := shipped("rbac/sharedvolume_" + name + "_role.yaml")
		if err != nil {
			return nil, err
		}
		found = append(found, roles...)
	}
	return found, nil
}

// shipped reads the roles in a file of config/.
func shipped(name string) ([]Role, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	var found []Role
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var role rbacv1.Role
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("roles of config/%s: %w", name, err)
		}
		if len(role.Rules) > 0 {
			found = append(found, Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules})
		}
	}
}

// Granted is what the operator must hold without using it: the roles that it makes for the driver, in a cluster that lacks
// nothing, and what the API server asks of it.
func Granted() ([]Role, error) {
	efs := awsefs.Driver()
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	settings, err := efs.ReadSettings(func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	objects, err := efs.Everything(scheme, kube.DefaultNamespace, settings)
	if err != nil {
		return nil, err
	}
	// The author of an admission policy with parameters must be allowed to read all objects of their kind, and reads none.
	granted := []Role{{Name: "parameters of admission policies", Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"operator.openshift.io"}, Resources: []string{"clustercsidrivers"}, Verbs: []string{"get"},
	}}}}
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			granted = append(granted, Role{Name: role.Name, Rules: role.Rules})
		case *rbacv1.Role:
			granted = append(granted, Role{Name: role.Name, Namespace: role.Namespace, Rules: role.Rules})
		}
	}
	return granted, nil
}
