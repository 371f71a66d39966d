package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/test/env"
)

// planned is an object of a plan, as nameOf names it.
func planned(name string) *unstructured.Unstructured {
	kind, rest, _ := strings.Cut(name, " ")
	one := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example/v1", "kind": kind}}
	namespace, short, is := strings.Cut(rest, "/")
	if !is {
		namespace, short = "", rest
	}
	one.SetNamespace(namespace)
	one.SetName(short)
	return one
}

// Another administrator uses the catalog. With OLDER=, an upgrade would change its image.
func TestTheCatalogOfOthersIsNotUpgraded(t *testing.T) {
	catalog := planned(catalogName)
	env.Must(t, unstructured.SetNestedField(catalog.Object, olderImage, "spec", "image"))
	cluster := &remembered{plan: install.Plan{Objects: []*unstructured.Unstructured{catalog}}, lists: map[string]any{"csi-operators": catalog}}
	p := cluster.opened()
	p.older, p.noted = olderImage, &record{Before: []string{catalogName}}
	if err := p.createPlan(t.Context()); err == nil || !strings.Contains(err.Error(), "OLDER=") || len(cluster.did) > 0 {
		t.Errorf("the error is %v, and the commands are %q", err, cluster.did)
	}
}

// Others have created a Subscription after the run has looked. The stand-in for the cluster refuses to create it, as a cluster does.
func TestAnInstallationAdoptsNothing(t *testing.T) {
	cluster := &remembered{lists: map[string]any{kube.DefaultNamespace: planned("Namespace " + kube.DefaultNamespace)}, objects: map[string]types.UID{}}
	for _, name := range []string{"Namespace " + kube.DefaultNamespace, groupName, catalogName, subscriptionName, driverName} {
		cluster.plan.Objects = append(cluster.plan.Objects, planned(name))
	}
	p := cluster.opened()
	p.id, p.command = "this", func(ctx context.Context, input, name string, args ...string) (string, error) {
		if args[0] == "create" && strings.Contains(input, `"kind":"Subscription"`) {
			cluster.objects[subscriptionName], cluster.objects[csvName] = "of others", "of others"
			return "", errors.New("oc create: exit status 1: Error from server (AlreadyExists)")
		}
		if args[0] == "get" && slices.Contains([]string{awsefs.Operator, awsefs.Name}, args[len(args)-4]) {
			return "", nil
		}
		return cluster.command(ctx, input, name, args...)
	}
	if _, err := p.install(t.Context()); err == nil || !strings.Contains(err.Error(), "AlreadyExists") {
		t.Errorf("the error is %v", err)
	}
	if len(cluster.changed("create -f -")) != 2 || len(cluster.changed("apply")) > 0 {
		t.Errorf("the commands are %q", cluster.did)
	}
	if len(p.noted.Made) > 0 {
		t.Errorf("the record has %v", p.noted.Made)
	}
}

// "oc storage install efs" would also apply what others have made, and a catalog of this name may be another one since.
func TestAnUpgradeChangesOnlyItsOwnCatalog(t *testing.T) {
	driver := operatorv1.ClusterCSIDriver{}
	driver.Status.Version = "new"
	driver.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Available", Status: "True"}, {Type: "Progressing", Status: "False"},
		{Type: "Degraded", Status: "False"}}
	catalog := planned(catalogName)
	env.Must(t, unstructured.SetNestedField(catalog.Object, "registry.example/catalog:new", "spec", "image"))
	cluster := &remembered{lists: map[string]any{awsefs.Name: driver}, plan: install.Plan{Objects: []*unstructured.Unstructured{
		planned(groupName), catalog, planned(subscriptionName),
	}}}
	p := cluster.opened()
	p.older, p.owns, p.facts.operator, p.facts.simulated = olderImage, true, "old", true
	p.noted = &record{Run: "this", Made: map[string]types.UID{catalogName: "catalog"}}
	if _, err := p.upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "-n openshift-marketplace patch catalogsources.operators.coreos.com csi-operators --type=json --patch " +
		`[{"op":"test","path":"/metadata/uid","value":"catalog"},{"op":"replace","path":"/spec/image","value":"registry.example/catalog:new"}]`
	if len(cluster.did) != 1 || cluster.did[0] != want {
		t.Errorf("the commands are %q", cluster.did)
	}
	driver.Status.Conditions[2].Status, driver.Status.Conditions[2].Message = "True", "no node is ready"
	cluster.lists[awsefs.Name] = driver
	if err := p.available(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no node is ready") {
		t.Errorf("a degraded driver is taken for available (%v)", err)
	}
}

// noteIn is the Namespace of a run with a record.
func noteIn(t *testing.T, run string, noted *record) corev1.Namespace {
	t.Helper()
	text, err := json.Marshal(noted)
	env.Must(t, err)
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: space, Labels: map[string]string{managedBy: manager, runLabel: run}, Annotations: map[string]string{installed: string(text)},
	}}
}

// Without the driver, nothing would ever delete its volumes.
func TestTheDriverStaysWhileItsVolumesAreLeft(t *testing.T) {
	cluster, noted := ours()
	cluster.lists[space] = noteIn(t, "this", noted)
	cluster.lists["persistentvolumes"] = corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{used("data", "fs-1", space)}}
	p := cluster.opened()
	p.id = "this"
	if err := p.cleanUp(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "PersistentVolume data") {
		t.Errorf("the error is %v", err)
	}
	if cluster.objects[driverName] == "" || len(cluster.changed("storage uninstall")) > 0 || len(cluster.changed("--raw")) > 0 {
		t.Errorf("the commands are %q", cluster.did)
	}
}

// Others have begun to use the driver, its catalog or its OperatorGroup, since the run has installed them.
func TestWhatOthersHaveBegunToUseStays(t *testing.T) {
	object := func(name string, spec map[string]any) map[string]any {
		one := planned(name)
		one.Object["spec"] = spec
		return map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{one.Object}}
	}
	for want, one := range map[string]struct {
		kind  string
		list  any
		stays []string
	}{
		"PersistentVolume data of PVC shop/data": {"persistentvolumes", corev1.PersistentVolumeList{
			Items: []corev1.PersistentVolume{used("data", "fs-9", "shop")},
		}, []string{driverName, subscriptionName}},
		"SharedVolume shop/data": {"-A", object("SharedVolume shop/data", nil), []string{driverName, subscriptionName, crdName}},
		"Subscription shop/tool": {subscription, object("Subscription shop/tool", map[string]any{
			"source": "csi-operators", "sourceNamespace": "openshift-marketplace",
		}), []string{catalogName}},
		"Subscription " + kube.DefaultNamespace + "/tool": {subscription, object("Subscription "+kube.DefaultNamespace+"/tool", nil), []string{groupName}},
	} {
		cluster, noted := ours()
		cluster.objects[groupName], noted.Made[groupName] = "group", "group"
		cluster.lists[one.kind] = one.list
		_, err := cluster.opened().uninstall(t.Context(), noted)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "oc annotate namespace") {
			t.Errorf("%s: the error is %v", want, err)
		}
		for _, name := range one.stays {
			if cluster.objects[name] == "" {
				t.Errorf("%s: %s is gone", want, name)
			}
		}
		// Nothing else of OLM needs what else was installed.
		if one.kind == subscription && len(cluster.objects) != 1 {
			t.Errorf("%s: left are %v", want, cluster.objects)
		}
		if len(cluster.changed(installed+"-")) > 0 {
			t.Errorf("%s: the record is gone, so that nothing would delete the rest later", want)
		}
	}
	cluster, noted := ours()
	cluster.lists[subscription] = object("Subscription shop/tool", map[string]any{"source": "community", "sourceNamespace": "openshift-marketplace"})
	if _, err := cluster.opened().uninstall(t.Context(), noted); err != nil || len(cluster.objects) > 0 {
		t.Errorf("left are %v (%v)", cluster.objects, err)
	}
}
