package storage

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

func TestARestartOnAnotherPlatformRemembersWhatWasStarted(t *testing.T) {
	const name = "ebs.csi.aws.com"
	entries := catalogue.All()
	var operator string
	for _, entry := range entries {
		if entry.Name == name {
			operator = entry.Operator
		}
	}
	driver := func(manager string) client.Object {
		return &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{
			Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager}},
		}}
	}
	deployment := func(namespace string, labels map[string]string) client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operator, Labels: labels}}
	}
	for why, tc := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"nothing":                             {nil, false},
		"our ClusterCSIDriver":                {[]client.Object{driver(catalogue.Operator)}, true},
		"an administrator's":                  {[]client.Object{driver("oc")}, false},
		"an administrator's and our operator": {[]client.Object{driver("oc"), deployment(catalogue.Namespace, ownLabels())}, true},
		"our operator alone":                  {[]client.Object{deployment(catalogue.Namespace, ownLabels())}, true},
		"somebody else's operator":            {[]client.Object{driver("oc"), deployment(catalogue.Namespace, nil)}, false},
		"an operator in another namespace":    {[]client.Object{driver("oc"), deployment("elsewhere", ownLabels())}, false},
	} {
		t.Run(why, func(t *testing.T) {
			c := newCluster(t, append(tc.objects, infrastructure("None"))...)
			served := func(schema.GroupKind, string) (bool, error) { return true, nil }
			scope, err := FindScope(t.Context(), c, c.Scheme(), entries, served)
			if err != nil {
				t.Fatal(err)
			}
			r := reconcilerOf(c, entries...)
			r.Scope = scope
			w, err := r.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range choose(entries, w.facts(entries)) {
				want := absent
				if tc.want && one.entry.Name == name {
					want = unwanted
				}
				if diff := cmp.Diff(want, one.decision); diff != "" || scope.has(one.entry) != (want == unwanted) {
					t.Errorf("%s: in the scope %v: %s", one.entry.Name, scope.has(one.entry), diff)
				}
			}
		})
	}
}
