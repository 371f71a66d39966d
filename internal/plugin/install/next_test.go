package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/bundle"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

func TestAClusterLacksTheConsoleOnlyIfItsReleaseHasOneThatIsNotEnabled(t *testing.T) {
	const console, other = configv1.ClusterVersionCapabilityConsole, configv1.ClusterVersionCapabilityStorage
	list := func(all ...configv1.ClusterVersionCapability) []configv1.ClusterVersionCapability { return all }
	for name, tc := range map[string]struct {
		known, enabled []configv1.ClusterVersionCapability
		want           bool
	}{
		"enabled": {list(console, other), list(other, console), false}, "disabled": {list(console, other), list(other), true},
		"always there": {list(other), list(other), false}, "nothing is known": {nil, nil, false},
	} {
		if got := lacksConsole(configv1.ClusterVersionCapabilitiesStatus{KnownCapabilities: tc.known, EnabledCapabilities: tc.enabled}); got != tc.want {
			t.Errorf("%s: lacks the console: %v", name, got)
		}
	}
}

// Another run without the flag must not turn Manual into Automatic.
func TestTheApprovalIsThatOfTheFlagOrOfTheSubscription(t *testing.T) {
	for name, tc := range map[string]struct{ there, flag, want string }{
		"nothing": {}, "flag": {"", manual, manual}, "kept": {manual, "", manual}, "changed": {manual, automatic, automatic},
	} {
		objects, err := objectsOf(bundle.Install, seen{approval: tc.there}, request{namespace: kube.DefaultNamespace, approval: tc.flag})
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedString(objects[3].Object, "spec", "installPlanApproval")
		if objects[3].GetKind() != "Subscription" || got != tc.want {
			t.Errorf("%s: approval %q of %s", name, got, nameOf(objects[3]))
		}
	}
	there := subscription("")
	if err := unstructured.SetNestedField(there.Object, manual, "spec", "installPlanApproval"); err != nil {
		t.Fatal(err)
	}
	found, err := observe(t.Context(), plugin.NewCluster(plugintest.Cluster(t, append(onAWS(), there)...), nil, ""), kube.DefaultNamespace)
	if err != nil || found.approval != manual {
		t.Errorf("approval %q is seen, %v", found.approval, err)
	}
	if wrong := plugintest.Run(t, plugintest.Cluster(t), "", Command, "install", "efs", "--approval", "manual"); wrong.Code != plugin.WrongUsage {
		t.Error(wrong.Text())
	}
}

func TestTheCommandThatApprovesAnInstallPlanIsPrinted(t *testing.T) {
	waits := subscription("")
	waits.Object["status"] = map[string]any{
		"state": "UpgradePending", "installPlanRef": map[string]any{"name": "install-abcde"},
		"conditions": []any{map[string]any{"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}},
	}
	line := []string{"install", "efs", "--watch", "--yes", "--timeout", "5ms"}
	text := plugintest.Run(t, plugintest.Cluster(t, append(onAWS(), waits)...), "", Command, line...).Text()
	want := `OLM waits until you approve the installation: oc -n openshift-cluster-csi-drivers patch installplan install-abcde ` +
		`--type=merge -p '{"spec":{"approved":true}}'`
	if !strings.Contains(text, want) || !strings.Contains(text, `"oc storage doctor" says:`) {
		t.Errorf("%q is missing:\n%s", want, text)
	}
	if err := unstructured.SetNestedField(waits.Object, "$(id)", "status", "installPlanRef", "name"); err != nil {
		t.Fatal(err)
	}
	if got := approvalOf(waits); got != "" {
		t.Error(got)
	}
}

func TestTheNextCommandHasTheFlagsOfThisOne(t *testing.T) {
	wanted := options{request: request{namespace: "other", controllerRole: role, nodeRole: role, approval: manual}}
	want := "oc storage install efs --watch --role-arn " + role + " --node-role-arn " + role + " --approval Manual --operator-namespace other"
	if diff := cmp.Diff(want, again(wanted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// "oc delete -f config/limits" of the guide deletes all of these objects.
func TestAnUninstallationListsEveryLimit(t *testing.T) {
	files, err := filepath.Glob("../../../config/limits/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	listed, limits := map[string]bool{}, map[string]bool{}
	for _, one := range leavings(kube.DefaultNamespace) {
		for _, name := range one.names {
			listed[one.kind+" "+name] = true
			if one.group == "admissionregistration.k8s.io" {
				limits[one.kind+" "+name] = true
			}
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			named := object.GetKind() + " " + object.GetName()
			if delete(limits, named); !listed[named] {
				t.Errorf("%s of %s is not listed", named, filepath.Base(file))
			}
		}
	}
	for named := range limits {
		t.Errorf("%s is listed, and no file of config/limits has it", named)
	}
}

// The list is that of the guide's commands, which test/guide runs.
func TestAnUninstallationListsWhatOLMLeaves(t *testing.T) {
	cluster := plugintest.Cluster(t)
	all := 0
	for _, one := range leavings(kube.DefaultNamespace) {
		for _, name := range one.names {
			kind := schema.GroupVersionKind{Group: one.group, Version: one.version, Kind: one.kind}
			cluster.Objects = append(cluster.Objects, olm(kind, one.namespace, name, nil))
			all++
		}
	}
	found, err := leftOf(t.Context(), plugin.NewCluster(cluster, nil, ""), kube.DefaultNamespace)
	if err != nil || len(found) != all {
		t.Fatalf("%d of %d objects, %v", len(found), all, err)
	}
	want := Left{"CatalogSource openshift-marketplace/csi-operators", "oc -n openshift-marketplace delete catalogsources csi-operators"}
	if diff := cmp.Diff(want, found[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := plugintest.Run(t, cluster, "", UninstallCommand, "uninstall", "efs")
	if !strings.Contains(got.Out, "\n  "+want.Object+": "+want.Command+"\n") {
		t.Error(got.Text())
	}
}
