package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/test/env"
)

// roles are the rules of every role that this project ships or renders, by the name of the role.
func roles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	root, err := env.Root()
	env.Must(t, err)
	for _, file := range []string{"rbac/role.yaml", "prometheus/monitor.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config", file))
		env.Must(t, err)
		for _, document := range strings.Split(string(text), "\n---\n") {
			var role rbacv1.Role
			env.Must(t, yaml.Unmarshal([]byte(document), &role))
			if strings.HasSuffix(role.Kind, "Role") {
				found[role.Kind+" "+role.Namespace+"/"+role.Name] = role.Rules
			}
		}
	}
	efs, err := awsefs.Driver()
	env.Must(t, err)
	scheme, err := manager.Scheme()
	env.Must(t, err)
	settings, err := efs.ReadSettings(func(string) string { return "" })
	env.Must(t, err)
	objects, err := efs.Everything(scheme, manager.DefaultNamespace, settings)
	env.Must(t, err)
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			found["ClusterRole "+role.Name] = role.Rules
		case *rbacv1.Role:
			found["Role "+role.Name] = role.Rules
		}
	}
	return found
}

func TestNoRoleIsBroaderThanNeeded(t *testing.T) {
	all := roles(t)
	if len(all) != 11 {
		t.Errorf("%d roles, want the operator's 5, the one for its metrics and the driver's 5: %v", len(all), all)
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
