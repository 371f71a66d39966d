package payload

import (
	"fmt"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
)

// requests returns the CredentialsRequests. An administrator can extract these before the installation of a cluster.
func (r Release) requests() ([]file, error) {
	var files []file
	for _, entry := range r.Entries {
		var objects []client.Object
		var err error
		if entry.Builtin {
			var operated driver.Driver
			if operated, err = r.driver(entry); err == nil {
				objects, err = operated.PayloadRequests(r.Scheme, catalogue.Namespace)
			}
		} else {
			objects, err = r.load("credentials/"+entry.Operator+".yaml", nil)
		}
		if err != nil {
			return nil, err
		}
		if len(objects) == 0 {
			continue
		}
		profiles := []string{selfManaged, singleNode}
		if entry.Platform == configv1.IBMCloudPlatformType || entry.Platform == configv1.PowerVSPlatformType {
			profiles = []string{selfManaged}
		}
		files = append(files, file{
			name: usual + "03_credentials-request-" + entry.Operator + ".yaml", profiles: profiles, objects: objects,
			capability: string(configv1.ClusterVersionCapabilityStorage + "+" + configv1.ClusterVersionCapabilityCloudCredential),
		})
	}
	return files, nil
}

// driver returns the driver of this repository that a catalogue entry names.
func (r Release) driver(entry catalogue.Entry) (driver.Driver, error) {
	at := slices.IndexFunc(r.Drivers, func(d driver.Driver) bool { return d.Name == entry.Name })
	if at < 0 {
		return driver.Driver{}, fmt.Errorf("the catalogue says that %s is a driver of this repository, but the repository has no such driver", entry.Name)
	}
	return r.Drivers[at], nil
}

// roles returns the roles of the cluster-storage-operator, and the roles of the operators that it starts. The cluster-storage-operator binds the
// roles of these operators, and can't write any role.
func (r Release) roles() ([]file, error) {
	own, err := r.ownRoles()
	if err != nil {
		return nil, err
	}
	capability := string(configv1.ClusterVersionCapabilityStorage)
	policy, err := r.bindingsPolicy()
	if err != nil {
		return nil, err
	}
	limits, err := r.limitsPolicy()
	if err != nil {
		return nil, err
	}
	files := []file{
		{name: usual + "08_limits-policy.yaml", profiles: allProfiles(), capability: capability, objects: limits},
		{name: usual + "08_rbac.yaml", profiles: allProfiles(), capability: capability, objects: own},
		{name: usual + "08_bindings-policy.yaml", profiles: allProfiles(), capability: capability, objects: policy},
	}
	for _, entry := range r.Entries {
		make := r.externalRoles
		if entry.Builtin {
			make = r.builtinRoles
		}
		objects, err := make(entry)
		if err != nil {
			return nil, fmt.Errorf("roles of %s: %w", entry.Operator, err)
		}
		files = append(files, file{
			name: usual + "08_rbac-" + entry.Operator + ".yaml", profiles: allProfiles(), capability: capability, objects: objects,
		})
	}
	return files, nil
}

// builtinRoles derives the roles of an operator of this repository from its driver.
func (r Release) builtinRoles(entry catalogue.Entry) ([]client.Object, error) {
	operated, err := r.driver(entry)
	if err != nil {
		return nil, err
	}
	everywhere, inside, err := rbac.Rules(operated, r.Scheme, catalogue.Namespace)
	if err != nil {
		return nil, err
	}
	if entry.Moves() {
		everywhere = append(everywhere, rbac.Rule("", "nodes", nil, "get"))
		inside = append(
			inside,
			// During a migration, the operator deletes the predecessor's pods one by one, in the predecessor's namespace. Then it deletes its own RoleBinding
			// in that namespace, and so gives up these permissions.
			rbac.Rule("", "pods", nil, "delete"),
			rbac.Rule("apps", "controllerrevisions", nil, "list", "delete"),
			rbac.Rule(rbacv1.GroupName, "rolebindings", []string{entry.Operator + "-role"}, "delete"),
		)
	}
	return []client.Object{
		clusterRole(entry.ClusterRole(), everywhere), clusterRole(entry.Operator+"-role", inside),
	}, nil
}

// externalRoles returns the roles of an External operator. These roles are the same for all such operators, except for names and the objects of
// the drivers.
func (r Release) externalRoles(entry catalogue.Entry) ([]client.Object, error) {
	values := manifest.Values{"OPERATOR": entry.Operator, "DRIVER_NAME": entry.Name}
	everywhere, err := r.rulesOf("external/clusterrole.yaml", values)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{clusterRole(entry.ClusterRole(), withMade(everywhere, entry.Made))}
	for _, binding := range entry.Bindings {
		if binding.Rules != nil {
			objects = append(objects, clusterRole(entry.Operator+"-"+binding.Role, binding.Rules))
			continue
		}
		loaded, err := r.load("external/role.yaml", values.With(manifest.Values{"ROLE": binding.Role}))
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	return objects, nil
}

// withMade adds the rules that an operator needs to create its driver's roles and bindings, and to change these in a later release. Kubernetes
// requires that the creator of a role itself holds the rules of the role.
func withMade(rules []rbacv1.PolicyRule, made catalogue.Made) []rbacv1.PolicyRule {
	for _, role := range sorted(made.Roles) {
		for _, granted := range made.Roles[role] {
			if !holds(rules, granted) {
				rules = append(rules, granted)
			}
		}
	}
	return append(
		rules,
		rbac.Rule(rbacv1.GroupName, "clusterroles", sorted(made.Roles), "update", "patch", "delete"),
		rbac.Rule(rbacv1.GroupName, "clusterrolebindings", sorted(made.Bindings), "update", "patch", "delete"),
		rbac.Rule(rbacv1.GroupName, "clusterroles", made.Bound(), "bind"),
	)
}

// holds reports whether the held rules contain each permission of the wanted rule. If the wanted rule has resource names, a held rule must have
// exactly the same names.
func holds(rules []rbacv1.PolicyRule, wanted rbacv1.PolicyRule) bool {
	within := func(small, large []string) bool {
		return !slices.ContainsFunc(small, func(one string) bool { return !slices.Contains(large, one) })
	}
	for _, resource := range wanted.Resources {
		for _, verb := range wanted.Verbs {
			if !slices.ContainsFunc(rules, func(held rbacv1.PolicyRule) bool {
				return within(wanted.APIGroups, held.APIGroups) && slices.Contains(held.Resources, resource) && slices.Contains(held.Verbs, verb) &&
					slices.Equal(held.ResourceNames, wanted.ResourceNames)
			}) {
				return false
			}
		}
	}
	return true
}

// rulesOf returns the rules of all roles in an asset.
func (r Release) rulesOf(asset string, values manifest.Values) ([]rbacv1.PolicyRule, error) {
	objects, err := r.load(asset, values)
	if err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, object := range objects {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			return nil, fmt.Errorf("asset %s: %T is not a ClusterRole", asset, object)
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
	}
}

func sorted[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }
