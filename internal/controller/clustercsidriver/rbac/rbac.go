// Package rbac computes the RBAC rules that csi-driver-operator needs for each driver of the payload, and that the operators of third-party drivers
// need. The EFS operator does not use this package, because its rules are the +kubebuilder:rbac markers in rbac.go of command
// aws-efs-csi-driver-operator.
package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Rules returns the rules of the operator. Result "everywhere" has the rules for the cluster. Result "inside" has the rules for the operator's
// namespace and the driver's namespace. Rules computes the rules from the operator's watches and objects, so that no rule is missing. It excludes
// rules that only a migration needs.
//
// Most rights on applied objects are limited to the names of these objects, except list and watch. Even create is limited, because the URL of a
// server-side apply contains the name. The result includes the rules of the driver's pods, because Kubernetes lets an operator grant only rights that
// the operator holds.
func Rules(d driver.Driver, scheme *runtime.Scheme, namespace string) (everywhere, inside []rbacv1.PolicyRule, err error) {
	settings, err := d.ReadSettings(func(string) string { return "" })
	if err != nil {
		return nil, nil, err
	}
	operands := d.OperandNamespace(namespace)
	objects, err := d.Everything(scheme, operands, settings)
	if err != nil {
		return nil, nil, err
	}
	made := &collector{scheme: scheme, namespace: namespace, operands: operands}
	made.own(d)
	if err := made.watch(d); err != nil {
		return nil, nil, err
	}
	for _, object := range objects {
		if err := made.manage(object); err != nil {
			return nil, nil, err
		}
	}
	return merge(made.everywhere), merge(made.inside), nil
}

type collector struct {
	scheme             *runtime.Scheme
	namespace          string
	operands           string
	everywhere, inside []rbacv1.PolicyRule
}

// own adds the rules that don't depend on the driver's objects.
func (r *collector) own(d driver.Driver) {
	r.everywhere = append(
		r.everywhere,
		// The operator writes the finalizer and the status.
		Rule(operatorv1.GroupName, "clustercsidrivers", []string{d.Name}, "patch"),
		Rule(operatorv1.GroupName, "clustercsidrivers/status", []string{d.Name}, "patch"),
		// The operator needs this right to detect a single-node cluster when it starts.
		Rule(openshift.InfrastructureKind().Group, "infrastructures", []string{openshift.Singleton}, "get"),
		Rule("events.k8s.io", "events", nil, "create", "patch"),
		// A removal waits for pods that use volumes, and for PersistentVolumes.
		Rule("", "persistentvolumes", nil, "list"),
		Rule("", "pods", nil, "list"),
		// The operator checks whether the kubelets have registered the driver.
		Rule(storagev1.GroupName, "csinodes", nil, "list", "watch"),
		// The operator authorizes readers of its metrics.
		Rule("authentication.k8s.io", "tokenreviews", nil, "create"),
		Rule("authorization.k8s.io", "subjectaccessreviews", nil, "create"),
	)
	r.inside = append(
		r.inside,
		Rule("", "namespaces", []string{r.namespace}, "get"),
		Rule("coordination.k8s.io", "leases", nil, "create"),
		Rule("coordination.k8s.io", "leases", []string{d.Operator + "-lock"}, "get", "update"),
	)
	if d.Removable || d.RemovedByState {
		for _, lease := range d.Leases(r.operands) {
			r.inside = append(r.inside, Rule("coordination.k8s.io", "leases", []string{lease.GetName()}, "get", "delete"))
		}
	}
	for resource, names := range map[string][]string{
		"clusterrolebindings": d.Obsolete.ClusterRoleBindings, "clusterroles": d.Obsolete.ClusterRoles,
	} {
		if len(names) > 0 {
			r.everywhere = append(r.everywhere, Rule(rbacv1.GroupName, resource, names, "get", "delete"))
		}
	}
	if d.CloudClasses != nil {
		// These rights are not limited to names, because the names depend on the cloud's answer, and RBAC supports no prefixes.
		r.everywhere = append(r.everywhere, Rule(storagev1.GroupName, "storageclasses", nil, "get", "create", "patch", "delete"))
	}
	if d.Cloud != nil && d.Cloud.VCenters {
		// The operator checks vCenters, and needs the CA certificates for them.
		r.everywhere = append(r.everywhere, Rule("", "nodes", nil, "list", "watch"), Rule("", "persistentvolumes", nil, "watch"),
			Rule("", "configmaps", []string{driver.ClusterCABundle().Name}, "get"))
	}
	if d.StartupTaint != "" {
		// The operator removes the taint. RBAC can't allow a patch of only the taints of a node, so an admission policy forbids all other patches.
		r.everywhere = append(r.everywhere, Rule("", "nodes", nil, "list", "watch", "patch"))
	}
	if d.KeptSecrets != nil || d.LongWait != nil {
		// To report pending PVCs.
		r.everywhere = append(r.everywhere, Rule("", "persistentvolumeclaims", nil, "list"))
	}
	if len(d.Obsolete.ConfigMaps) > 0 {
		r.inside = append(r.inside, Rule("", "configmaps", d.Obsolete.ConfigMaps, "get", "delete"))
	}
	for _, credentials := range d.Credentials {
		r.inside = append(r.inside, Rule("", "secrets", []string{credentials.Secret}, "list", "watch"))
		if d.Derived != nil {
			// To build the derived Secret.
			r.inside = append(r.inside, Rule("", "secrets", []string{credentials.Secret}, "get"))
		}
	}
}

// watch adds the rules for the caches. The rules suffice in clusters that have all optional kinds, and in clusters that lack some.
func (r *collector) watch(d driver.Driver) error {
	all := map[schema.GroupKind]bool{}
	for kind := range watch.OptionalKinds(d) {
		all[kind] = true
	}
	for _, watched := range slices.Concat(watch.Served(d, r.operands, all), watch.Snapshots(d, nil)) {
		kind, err := apiutil.GVKForObject(watched.Object, r.scheme)
		if err != nil {
			return fmt.Errorf("compute the rights of %s: %w", d.Operator, err)
		}
		var names []string
		if watched.Name != "" {
			names = []string{watched.Name}
		}
		r.add(watched.Namespace, Rule(kind.Group, plural(kind), names, "list", "watch"))
		for _, other := range watched.Others {
			r.add(other.Namespace, Rule(kind.Group, plural(kind), []string{other.Name}, "list", "watch"))
		}
	}
	return nil
}

// manage adds the rules to apply an object of the driver. If the object is a role, it also adds the rules that the role grants.
func (r *collector) manage(object client.Object) error {
	kind, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return fmt.Errorf("compute the permissions that the operator needs to manage an object of the driver: %w", err)
	}
	r.add(object.GetNamespace(), Rule(kind.Group, plural(kind), []string{object.GetName()}, "get", "create", "patch", "delete"))
	switch role := object.(type) {
	case *rbacv1.ClusterRole:
		r.everywhere = append(r.everywhere, role.Rules...)
	case *rbacv1.Role:
		for _, granted := range role.Rules {
			r.add(role.Namespace, granted)
		}
	}
	return nil
}

// add adds a rule for a namespace. OLM grants RBAC only in the operator's namespace or cluster-wide. So a rule for a namespace that is neither the
// operator's nor the driver's becomes cluster-wide, and only its names limit it.
func (r *collector) add(namespace string, added rbacv1.PolicyRule) {
	if namespace == r.namespace || namespace == r.operands {
		r.inside = append(r.inside, added)
		return
	}
	r.everywhere = append(r.everywhere, added)
}

// Rule returns a rule that allows verbs on a resource. If argument "names" is not empty, the rule covers only the objects with these names.
func Rule(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

// plural returns the resource of a kind. It guesses by English rules, which give the right result for all kinds here.
func plural(kind schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}

// merge groups rules for readability. It first joins rules that differ only in names, and then rules that differ only in resources. It removes
// duplicate rights.
func merge(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	verbs := map[rightKey]map[string]bool{}
	for _, each := range rules {
		for _, key := range keys(each) {
			if verbs[key] == nil {
				verbs[key] = map[string]bool{}
			}
			for _, verb := range each.Verbs {
				verbs[key][verb] = true
			}
		}
	}
	var merged []rbacv1.PolicyRule
	for _, key := range slices.SortedFunc(maps.Keys(verbs), rightKey.compare) {
		allowed := without(verbs[key], verbs[rightKey{key.group, key.resource, ""}], key.name)
		if len(allowed) == 0 {
			continue
		}
		next := Rule(key.group, key.resource, nil, allowed...)
		if key.name != "" {
			next.ResourceNames = []string{key.name}
		}
		merged = append(merged, next)
	}
	merged = join(merged, func(rule *rbacv1.PolicyRule) *[]string { return &rule.ResourceNames })
	return join(merged, func(rule *rbacv1.PolicyRule) *[]string { return &rule.Resources })
}

// rightKey identifies the objects of a right. An empty name means all objects.
type rightKey struct{ group, resource, name string }

func (k rightKey) compare(other rightKey) int {
	return cmp.Or(strings.Compare(k.group, other.group), strings.Compare(k.resource, other.resource), strings.Compare(k.name, other.name))
}

func keys(rule rbacv1.PolicyRule) []rightKey {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var found []rightKey
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				found = append(found, rightKey{group, resource, name})
			}
		}
	}
	return found
}

// without returns the verbs that are allowed for one name, but not for all names. The result is sorted.
func without(verbs, general map[string]bool, name string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(verb string) bool { return name != "" && general[verb] })
}

// join merges rules that differ only in the list that function list returns. It does not merge if a list is empty, because an empty list means all.
func join(rules []rbacv1.PolicyRule, list func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	var joined []rbacv1.PolicyRule
	for i := range rules {
		next := &rules[i]
		at := slices.IndexFunc(joined, func(other rbacv1.PolicyRule) bool {
			left, right := *other.DeepCopy(), *next.DeepCopy()
			both := len(*list(&left)) > 0 && len(*list(&right)) > 0
			*list(&left), *list(&right) = nil, nil
			return both && equality.Semantic.DeepEqual(left, right)
		})
		if at < 0 {
			joined = append(joined, *next.DeepCopy())
			continue
		}
		*list(&joined[at]) = append(*list(&joined[at]), *list(next)...)
	}
	return joined
}
