// Package rbac makes the RBAC rules of an operator of a driver of the payload, and of third-party drivers. Those of the EFS operator are markers
// in its command.
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

// Rules are what the operator of a driver may do everywhere, and what in its own namespace and in that of the driver. They are made of what it watches and
// applies, so that neither can be forgotten. The rules that only a migration needs are not among them.
//
// Names narrow every right but list and watch of what the operator applies; for creation that works because a server-side apply
// names its object. Kubernetes lets nobody grant what they do not hold, so the rules of the driver's pods are among these.
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

// collector collects rules.
type collector struct {
	scheme             *runtime.Scheme
	namespace          string
	operands           string
	everywhere, inside []rbacv1.PolicyRule
}

// own adds the rules that have nothing to do with the objects of the driver.
func (r *collector) own(d driver.Driver) {
	r.everywhere = append(
		r.everywhere,
		// Its finalizer, and what it reports.
		Rule(operatorv1.GroupName, "clustercsidrivers", []string{d.Name}, "patch"),
		Rule(operatorv1.GroupName, "clustercsidrivers/status", []string{d.Name}, "patch"),
		// How many nodes there are, before anything else is known.
		Rule(openshift.InfrastructureKind().Group, "infrastructures", []string{openshift.Singleton}, "get"),
		Rule("events.k8s.io", "events", nil, "create", "patch"),
		// A removal waits for the pods that use volumes of the driver.
		Rule("", "persistentvolumes", nil, "list"),
		Rule("", "pods", nil, "list"),
		// On which nodes the kubelet has registered it.
		Rule(storagev1.GroupName, "csinodes", nil, "list", "watch"),
		// Who may read its metrics.
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
		// Their names are not known before the cloud has answered, and RBAC knows no prefixes.
		r.everywhere = append(r.everywhere, Rule(storagev1.GroupName, "storageclasses", nil, "get", "create", "patch", "delete"))
	}
	if d.Cloud != nil && d.Cloud.VCenters {
		// What vCenters must have, and with which CA certificates they are asked.
		r.everywhere = append(r.everywhere, Rule("", "nodes", nil, "list", "watch"), Rule("", "persistentvolumes", nil, "watch"),
			Rule("", "configmaps", []string{driver.ClusterCABundle().Name}, "get"))
	}
	if d.KeptSecrets != nil || d.LongWait != nil {
		// PVCs that wait are named.
		r.everywhere = append(r.everywhere, Rule("", "persistentvolumeclaims", nil, "list"))
	}
	if len(d.Obsolete.ConfigMaps) > 0 {
		r.inside = append(r.inside, Rule("", "configmaps", d.Obsolete.ConfigMaps, "get", "delete"))
	}
	for _, credentials := range d.Credentials {
		r.inside = append(r.inside, Rule("", "secrets", []string{credentials.Secret}, "list", "watch"))
		if d.Derived != nil {
			// What it is made of.
			r.inside = append(r.inside, Rule("", "secrets", []string{credentials.Secret}, "get"))
		}
	}
}

// watch adds what the operator keeps in its cache, in a cluster that has all kinds and in one that still lacks some.
func (r *collector) watch(d driver.Driver) error {
	all := map[schema.GroupKind]bool{}
	for kind := range watch.OptionalKinds(d) {
		all[kind] = true
	}
	for _, watched := range slices.Concat(watch.Served(d, r.operands, all), watch.Snapshots(d, nil)) {
		kind, err := apiutil.GVKForObject(watched.Object, r.scheme)
		if err != nil {
			return fmt.Errorf("rights of %s: %w", d.Operator, err)
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

// manage adds what is done with an object of the driver, and what it grants if it is a role.
func (r *collector) manage(object client.Object) error {
	kind, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return fmt.Errorf("rights for an object of the driver: %w", err)
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

// add adds a rule for a namespace. OLM gives RBAC in the operator's own or everywhere, so that those for other namespaces than the driver's are
// everywhere, and narrowed by names only.
func (r *collector) add(namespace string, added rbacv1.PolicyRule) {
	if namespace == r.namespace || namespace == r.operands {
		r.inside = append(r.inside, added)
		return
	}
	r.everywhere = append(r.everywhere, added)
}

// Rule allows verbs on a resource, or on those of its objects that have one of the names.
func Rule(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

// plural is what the API server calls a kind in its URLs. For all kinds here the rules of English give it.
func plural(kind schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}

// merge takes rules apart and puts together what belongs together, so that a role can be read: first the names of a resource that
// allow the same, then the resources. Every right is there once.
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

// rightKey is what a verb is allowed for; no name means all.
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

// without are the verbs for one name that are not allowed for all of them, sorted.
func without(verbs, general map[string]bool, name string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(verb string) bool { return name != "" && general[verb] })
}

// join makes one rule of all that differ in one list only, unless one of them has none: that means all.
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
