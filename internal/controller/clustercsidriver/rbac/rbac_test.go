package rbac

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/internal/kube"
)

func TestRulesAreMergedWithoutLosingOrAddingARight(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		Rule("apps", "deployments", []string{"b"}, "patch", "get"),
		Rule("apps", "deployments", []string{"a"}, "get", "patch"),
		Rule("apps", "daemonsets", nil, "watch", "list"),
		Rule("apps", "deployments", nil, "list", "watch"),
		// All objects may be listed, so this one may.
		Rule("apps", "deployments", []string{"a"}, "list"),
		Rule("apps", "daemonsets", []string{"a"}, "delete"),
		{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}},
	}
	want := []rbacv1.PolicyRule{
		Rule("", "pods", nil, "get"),
		Rule("", "services", nil, "get", "list"),
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets", "deployments"}, Verbs: []string{"list", "watch"}},
		Rule("apps", "daemonsets", []string{"a"}, "delete"),
		Rule("apps", "deployments", []string{"a", "b"}, "get", "patch"),
	}
	if diff := cmp.Diff(want, merge(rules)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	slices.Reverse(rules)
	if diff := cmp.Diff(want, merge(rules)); diff != "" {
		t.Errorf("in another order (-want +got):\n%s", diff)
	}
}

// A driver that has nothing of its own: what is left is what every operator needs.
func TestRightsHoldWhatIsWatchedAppliedAndGranted(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: extra, namespace: \"${NAMESPACE}\"}\n" +
		"rules: [{apiGroups: [x.example.com], resources: [things], verbs: [use]}]\n"
	const csi = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: \"${DRIVER_NAME}\"}\nspec: {}\n"
	d := driver.Driver{
		Name: "disk.example.com", Operator: "disk-operator", Prefix: "disk", ShortPrefix: "dk", Deployment: "disk-controller", DaemonSet: "disk-node",
		CloudCAVariable: "CLOUD_CA",
		Assets:          fstest.MapFS{"assets/rbac.yaml": {Data: []byte(role)}, "assets/csidriver.yaml": {Data: []byte(csi)}},
		Credentials:     []driver.Credentials{{Secret: "disk-secret", Payload: true, Workload: driver.Controller}},
	}
	everywhere, inside, err := Rules(d, scheme, "here")
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		rules []rbacv1.PolicyRule
		key   rightKey
		verbs []string
	}{
		"its custom resource":      {everywhere, rightKey{"operator.openshift.io", "clustercsidrivers", d.Name}, []string{"list", "patch", "watch"}},
		"the CSIDriver by name":    {everywhere, rightKey{"storage.k8s.io", "csidrivers", d.Name}, []string{"create", "delete", "get", "list", "patch", "watch"}},
		"the cluster":              {everywhere, rightKey{"config.openshift.io", "infrastructures", "cluster"}, []string{"get", "list", "watch"}},
		"the CA of its cloud":      {everywhere, rightKey{"", "configmaps", "kube-cloud-config"}, []string{"list", "watch"}},
		"its copy of that":         {inside, rightKey{"", "configmaps", "disk-cloud-ca-bundle"}, []string{"create", "delete", "get", "patch"}},
		"its Secret":               {inside, rightKey{"", "secrets", "disk-secret"}, []string{"list", "watch"}},
		"its lease, as sidecars":   {inside, rightKey{"coordination.k8s.io", "leases", ""}, []string{"create"}},
		"roles in the namespace":   {inside, rightKey{"rbac.authorization.k8s.io", "roles", ""}, []string{"list", "watch"}},
		"the role of the asset":    {inside, rightKey{"rbac.authorization.k8s.io", "roles", "extra"}, []string{"create", "delete", "get", "patch"}},
		"what that grants":         {inside, rightKey{"x.example.com", "things", ""}, []string{"use"}},
		"what a shared one grants": {everywhere, rightKey{"security.openshift.io", "securitycontextconstraints", "privileged"}, []string{"use"}},
	} {
		verbs := []string{}
		for _, rule := range one.rules {
			if slices.Contains(keys(rule), one.key) {
				verbs = append(verbs, rule.Verbs...)
			}
		}
		slices.Sort(verbs)
		if diff := cmp.Diff(one.verbs, verbs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, rules := range [][]rbacv1.PolicyRule{everywhere, inside} {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
				t.Errorf("Secrets are not narrowed by names: %v", rule)
			}
		}
	}
}

// OLM gives rights in the operator's own namespace or everywhere, so that those for other namespaces are narrowed by names only.
func TestARightForAnotherNamespaceIsOneForAll(t *testing.T) {
	r := &collector{namespace: "here", operands: "here"}
	for _, namespace := range []string{"here", "elsewhere", ""} {
		r.add(namespace, Rule("", "configmaps", []string{"in-" + namespace}, "get"))
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{Rule("", "configmaps", []string{"in-here"}, "get")}, r.inside); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
	everywhere := []rbacv1.PolicyRule{Rule("", "configmaps", []string{"in-elsewhere"}, "get"), Rule("", "configmaps", []string{"in-"}, "get")}
	if diff := cmp.Diff(everywhere, r.everywhere); diff != "" {
		t.Errorf("everywhere (-want +got):\n%s", diff)
	}
}

// What an operator before this one has left is deleted by its names, and by nobody without any.
func TestObsoleteObjectsMayBeDeletedByName(t *testing.T) {
	all := driver.Obsolete{ClusterRoleBindings: []string{"binding"}, ClusterRoles: []string{"role"}, ConfigMaps: []string{"config"}}
	for name, tc := range map[string]struct {
		obsolete driver.Obsolete
		want     []string
	}{
		"nothing": {driver.Obsolete{}, nil},
		"all": {all, []string{
			"everywhere clusterrolebindings binding get delete", "everywhere clusterroles role get delete", "inside configmaps config get delete",
		}},
	} {
		r := &collector{namespace: "here", operands: "here"}
		r.own(driver.Driver{Name: "disk.example.com", Operator: "disk-operator", Obsolete: tc.obsolete})
		var got []string
		for where, rules := range map[string][]rbacv1.PolicyRule{"everywhere": r.everywhere, "inside": r.inside} {
			for _, rule := range rules {
				if slices.Contains(rule.Verbs, "delete") {
					got = append(got, strings.Join(slices.Concat([]string{where}, rule.Resources, rule.ResourceNames, rule.Verbs), " "))
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A driver with a Secret of its own making may read what that is made of, and no other Secret.
func TestADerivedSecretMayBeMadeOfTheCredentials(t *testing.T) {
	d := driver.Driver{Name: "disk.example.com", Operator: "disk-operator", Credentials: []driver.Credentials{{Secret: "keys"}}}
	for _, tc := range []struct {
		derived *driver.Derived
		want    []string
	}{
		{nil, []string{"list", "watch"}},
		{&driver.Derived{Name: "config"}, []string{"list", "watch", "get"}},
	} {
		r := &collector{namespace: "here", operands: "here"}
		d.Derived = tc.derived
		r.own(d)
		var verbs []string
		for _, rule := range r.inside {
			if slices.Contains(rule.Resources, "secrets") {
				if !slices.Equal(rule.ResourceNames, []string{"keys"}) {
					t.Errorf("Secrets %v", rule.ResourceNames)
				}
				verbs = append(verbs, rule.Verbs...)
			}
		}
		if diff := cmp.Diff(tc.want, verbs); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// What is for the driver's own namespace is not for all others.
func TestADriverInItsOwnNamespaceNeedsNothingElsewhere(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	d := gcppd.Driver()
	everywhere, inside, err := Rules(d, scheme, "here")
	if err != nil {
		t.Fatal(err)
	}
	d.Namespace = "own"
	movedEverywhere, movedInside, err := Rules(d, scheme, "here")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everywhere, movedEverywhere) + cmp.Diff(inside, movedInside); diff != "" {
		t.Errorf("-in the operator's +in its own:\n%s", diff)
	}
}
