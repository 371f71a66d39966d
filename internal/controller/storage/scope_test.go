package storage

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// scopeOf is what a cluster of a platform can need. It serves VolumeAttributesClasses, and ServiceMonitors if it is monitored.
func scopeOf(t *testing.T, name configv1.PlatformType, monitored bool) (Scope, *canned.Cluster) {
	t.Helper()
	c := newCluster(t, infrastructure(name))
	scope, err := FindScope(t.Context(), c, c.Scheme(), catalogue.All(), func(kind schema.GroupKind, _ string) (bool, error) {
		return monitored || !optional(kind), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return scope, c
}

// selections are what of each kind is held in memory, as "name=…", "ours" or "all", with the namespaces.
func selections(t *testing.T, scope Scope, c *canned.Cluster) map[string]string {
	t.Helper()
	options, err := scope.CacheOptions(c.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for object, config := range options {
		kind, err := apiutil.GVKForObject(object, c.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		what := []string{"all"}
		switch {
		case config.Field != nil:
			what[0] = config.Field.String()
		case config.Label != nil && config.Label.String() == "app.kubernetes.io/managed-by=cluster-storage-operator":
			what[0] = "ours"
		}
		var spaces []string
		for namespace, part := range config.Namespaces {
			if part.FieldSelector != nil {
				namespace += "/" + part.FieldSelector.String()
			}
			spaces = append(spaces, namespace)
		}
		slices.Sort(spaces)
		found[kind.Kind] = strings.Join(append(what, spaces...), " ")
	}
	return found
}

// everywhere is what is looked at on each platform.
func everywhere() map[string]string {
	const singleton = "metadata.name=cluster"
	return map[string]string{
		"Storage": singleton, "ClusterOperator": "metadata.name=storage", "Infrastructure": singleton, "FeatureGate": singleton, "Proxy": singleton,
		"APIServer": singleton, "ClusterCSIDriver": "all", "StorageClass": "all", "VolumeAttributesClass": "all",
	}
}

func TestAClusterWithoutDriversWatchesOnlyItsConfiguration(t *testing.T) {
	scope, c := scopeOf(t, "None", true)
	if diff := cmp.Diff(everywhere(), selections(t, scope, c)); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	scope.AttributesClasses = false
	want := everywhere()
	delete(want, "VolumeAttributesClass")
	if diff := cmp.Diff(want, selections(t, scope, c)); diff != "" {
		t.Errorf("without VolumeAttributesClasses (-want +got):\n%s", diff)
	}
}

func TestACloudWatchesWhatItsOperatorsNeed(t *testing.T) {
	const here = "ours openshift-cluster-csi-drivers"
	for name, tc := range map[string]struct {
		platform  configv1.PlatformType
		monitored bool
		want      map[string]string
	}{
		"monitored":                     {"AWS", true, map[string]string{"Deployment": here, "CSIDriver": "all", "ServiceMonitor": here}},
		"not monitored":                 {"AWS", false, map[string]string{"CustomResourceDefinition": "metadata.name=servicemonitors.monitoring.coreos.com", "ServiceMonitor": ""}},
		"operators with configurations": {"PowerVS", true, map[string]string{"ConfigMap": here}},
		"without":                       {"OpenStack", true, map[string]string{"ConfigMap": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			scope, c := scopeOf(t, tc.platform, tc.monitored)
			got := selections(t, scope, c)
			for kind, want := range tc.want {
				if got[kind] != want {
					t.Errorf("%s: %q, want %q", kind, got[kind], want)
				}
			}
			for kind, want := range everywhere() {
				if got[kind] != want {
					t.Errorf("%s: %q, want %q", kind, got[kind], want)
				}
			}
		})
	}
}

func TestWhatOfAnEntryIsRemovedIsNeverANamespaceNorUnknownToTheCluster(t *testing.T) {
	entry := others()
	r := reconcilerOf(newCluster(t), entry)
	monitor := owned(&configv1.Proxy{}, catalogue.ServiceMonitorKind().WithVersion("v1"), catalogue.Namespace, "monitor")
	r.Scope.objects = map[string][]client.Object{entry.Name: append(started(entry.Operator), monitor)}
	inventory := func() (all []string) {
		for _, subject := range r.applierOf(entry).Inventory {
			all = append(all, subject.String())
		}
		return all
	}
	want := []string{"ServiceAccount openshift-cluster-csi-drivers/gated-operator", "Deployment openshift-cluster-csi-drivers/gated-operator"}
	if diff := cmp.Diff(want, inventory()); diff != "" || len(r.applier.Inventory) > 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Scope.Kinds = map[schema.GroupKind]bool{catalogue.ServiceMonitorKind(): true}
	want = append(want, "ServiceMonitor openshift-cluster-csi-drivers/monitor")
	if diff := cmp.Diff(want, inventory()); diff != "" {
		t.Errorf("of a monitored cluster (-want +got):\n%s", diff)
	}
}

func TestAScopeThatCannotBeFoundIsNoScope(t *testing.T) {
	const refusal = "out of order"
	for request, want := range map[string]string{
		"list ClusterCSIDriver":                         "list ClusterCSIDrivers: " + refusal,
		"list Deployment openshift-cluster-csi-drivers": "list Deployments of operators in namespace openshift-cluster-csi-drivers: " + refusal,
		"get VolumeAttributesClass":                     refusal, "get ServiceMonitor": refusal,
	} {
		c := newCluster(t, infrastructure("AWS"))
		c.Refuse(errors.New(refusal), request)
		scope, err := FindScope(t.Context(), c, c.Scheme(), catalogue.All(), func(kind schema.GroupKind, _ string) (bool, error) {
			return true, c.Fail("get " + kind.Kind)
		})
		if err == nil || err.Error() != want || len(scope.Entries) > 0 {
			t.Errorf("%s: error %v, want %s", request, err, want)
		}
	}
}
