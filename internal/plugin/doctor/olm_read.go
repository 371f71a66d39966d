package doctor

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// object is an object of OLM. Fields: https://github.com/operator-framework/api 3048ccd, pkg/operators/v1alpha1.
type object struct{ unstructured.Unstructured }

func (o object) text(path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

func (o object) flag(path ...string) bool {
	is, _, _ := unstructured.NestedBool(o.Object, path...)
	return is
}

// name returns "namespace/name".
func (o object) name() string { return o.GetNamespace() + "/" + o.GetName() }

// condition returns the reason and the message of a condition, if the condition has the given status. If the condition has another status, result
// "is" is false.
func (o object) condition(kind, status string) (said string, is bool) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		fields, _ := one.(map[string]any)
		if fields["type"] == kind && fields["status"] == status {
			reason, _ := fields["reason"].(string)
			message, _ := fields["message"].(string)
			return clip(strings.Trim(reason+": "+message, ": ")), true
		}
	}
	return "", false
}

// olm has the Subscriptions of drivers' operators, and the other objects of OLM in the namespaces of these Subscriptions. catalogs has the
// CatalogSources of all namespaces.
type olm struct {
	subscriptions, plans, versions, groups, catalogs list[object]
}

// driverOf takes the name of an OLM package, and returns the driver whose operator is in this package. For a package without such an operator, the
// result is empty.
func driverOf(name string) string {
	for _, one := range all.Drivers() {
		if name == one.Operator && name != "" {
			return one.Name
		}
		for _, predecessor := range one.Predecessors {
			if name == predecessor.Package && name != "" {
				return one.Name
			}
		}
	}
	return ""
}

// lacksOperator reports whether the subject depends on a driver whose operator comes from OLM and does not run.
func (r *reader) lacksOperator() bool {
	return slices.ContainsFunc(r.subject.drivers, func(name string) bool {
		d := r.driver(name)
		return d == nil && name == efsName || d != nil && d.Profile != nil && d.Profile.Platform == "" && !slices.ContainsFunc(d.Operators, survey.Runs)
	})
}

// readOLM reads OLM's objects about the operators of drivers. If no Subscription is for such an operator, readOLM reads only Subscriptions.
func (r *reader) readOLM(ctx context.Context) {
	kinds := map[string]schema.GroupVersionKind{}
	for _, kind := range plugin.OLMKinds() {
		kinds[kind.Kind] = kind
	}
	read := func(kind, namespace string) list[object] {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(kinds[kind].GroupVersion().WithKind(kind + "List"))
		answer := r.list(kind+"s", func() (plugin.Answer, error) { return r.TryList(ctx, found, client.InNamespace(namespace)) })
		var items []object
		for i := range found.Items {
			items = append(items, object{found.Items[i]})
		}
		return list[object]{Answer: answer, items: items}
	}
	r.olm.subscriptions = read("Subscription", "")
	r.olm.subscriptions.items = slices.DeleteFunc(r.olm.subscriptions.items, func(one object) bool { return driverOf(one.text("spec", "name")) == "" })
	if len(r.olm.subscriptions.items) == 0 {
		return
	}
	r.olm.catalogs = read("CatalogSource", "")
	r.olm.plans.Answer, r.olm.versions.Answer, r.olm.groups.Answer = plugin.Present, plugin.Present, plugin.Present
	var done []string
	for _, one := range r.olm.subscriptions.items {
		namespace := one.GetNamespace()
		if slices.Contains(done, namespace) {
			continue
		}
		done = append(done, namespace)
		join(&r.olm.plans, read("InstallPlan", namespace))
		join(&r.olm.versions, read("ClusterServiceVersion", namespace))
		join(&r.olm.groups, read("OperatorGroup", namespace))
	}
}

// join adds objects to a list, whose Answer is Present without a part. The Answer stays Present only if it is Present for all parts.
func join(to *list[object], part list[object]) {
	to.Answer = min(to.Answer, part.Answer)
	to.items = append(to.items, part.items...)
}

// find returns the first object for which its argument returns true, or nil.
func (l list[T]) find(is func(T) bool) *T {
	for i := range l.items {
		if is(l.items[i]) {
			return &l.items[i]
		}
	}
	return nil
}
