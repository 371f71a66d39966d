package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

func TestAPlanOfAFolderNamesEachNodeWithItsPods(t *testing.T) {
	none := plugintest.Cluster(t)
	line := []string{"migrate", "plan", "--from", "testdata/community"}
	golden.CompareText(t, "plan.txt", plugintest.Run(t, none, "", Command, line...).Text())
	golden.CompareText(t, "plan.json", plugintest.Run(t, none, "", Command, append(line, "-o", "json")...).Text())
	empty := t.TempDir()
	for want, wrong := range map[string][]string{
		"does not exist":                    {"--from", "testdata/nothing"},
		empty:                               {"--from", empty},
		`unexpected argument "now"`:         {"now"},
		"must be table, wide, json or yaml": {"-o", "text"},
		"--namespace has no effect":         {"-n", "my-project"},
	} {
		got := plugintest.Run(t, none, "", Command, append([]string{"migrate", "plan"}, wrong...)...)
		if got.Code == 0 || got.Out != "" || !strings.Contains(got.Err.Error(), want) {
			t.Errorf("%q: want %q, got %s", wrong, want, got.Text())
		}
	}
	if len(none.Reads) > 0 {
		t.Errorf("the cluster is asked %q", none.Reads)
	}
}

// README's way: this operator is installed into its usual namespace, and the community's driver runs in another one.
func TestAPlanForAnInstalledOperatorSaysThatNodePodsCanOnlyBeReplacedFromTheirNamespace(t *testing.T) {
	golden.CompareText(t, "plan-elsewhere.txt", plugintest.Run(t, plugintest.Cluster(t), "", Command,
		"migrate", "plan", "--from", "testdata/elsewhere").Text())
}

func TestAChartIsNotAdopted(t *testing.T) {
	golden.CompareText(t, "plan-chart.txt", plugintest.Run(t, plugintest.Cluster(t), "", Command, "migrate", "plan", "--from", "testdata/chart").Text())
	golden.CompareText(t, "plan-chart-in-the-namespace.txt", plugintest.Run(t, plugintest.Cluster(t), "", Command,
		"migrate", "plan", "--from", "testdata/chart", "--operator-namespace", "kube-system").Text())
}

// Without an answer about the account's permissions, there is no plan.
func TestAPlanOfAClusterSaysWhatItCanNotAsk(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := mustgather.Open("testdata/community", scheme)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := folder.Client()
	if err != nil {
		t.Fatal(err)
	}
	golden.CompareText(t, "status-cluster.txt", plugintest.Run(t, cluster, "", Command, "migrate", "status").Text())
	golden.CompareText(t, "status-cluster.yaml", plugintest.Run(t, cluster, "", Command, "migrate", "status", "-o", "yaml").Text())
	plugintest.Run(t, cluster, "", Command, "migrate", "status", "-o", "json")
}

// A CI job that runs the plan shall not fail because of a value without effect.
func TestOnlyRefusedValuesInUseGiveExitCode3(t *testing.T) {
	community, err := os.ReadFile("testdata/community/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const volume = `  - {apiVersion: v1, kind: PersistentVolume, metadata: {name: old}, spec: {accessModes: [ReadWriteMany], claimRef: {namespace: shop, name: data},
     csi: {driver: efs.csi.aws.com, volumeHandle: fs-1234cdef, volumeAttributes: {path: /a}}}, status: {phase: PHASE}}
`
	for phase, code := range map[string]int{"Bound": plugin.Wrong, "Released": 0} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "all.yaml"), append(community, strings.ReplaceAll(volume, "PHASE", phase)...), 0o600); err != nil {
			t.Fatal(err)
		}
		said := "PersistentVolume old, not in use: the new driver refuses volume attribute path, which it does not know.\n"
		if code > 0 {
			said = strings.Replace(said, ", not in use", "", 1)
		}
		plan := plugintest.Run(t, plugintest.Cluster(t), "", Command, "migrate", "plan", "--from", folder)
		if plan.Code != code || !strings.Contains(plan.Out, said) {
			t.Errorf("%s: want %q, got %s", phase, said, plan.Text())
		}
		status := plugintest.Run(t, plugintest.Cluster(t), "", Command, "migrate", "status", "--from", folder)
		if status.Code != plugin.Unfinished || !strings.Contains(status.Out, "REFUSED BY THE NEW DRIVER\n"+said) {
			t.Errorf("%s: want %q, got %s", phase, said, status.Text())
		}
		plugintest.Run(t, plugintest.Cluster(t), "", Command, "migrate", "status", "--from", folder, "-o", "json")
	}
}

func TestTheStatusOfAMigration(t *testing.T) {
	nodes := func(waits ...bool) []migration.PlannedNode {
		var made []migration.PlannedNode
		for _, one := range waits {
			made = append(made, migration.PlannedNode{Node: "n", Pod: "p", Waits: one})
		}
		return made
	}
	adopted := []migration.PlannedObject{{Action: migration.PlanAdopt}, {Action: migration.PlanKeep}, {Action: migration.PlanDelete}}
	for name, tc := range map[string]struct {
		plan      migration.Plan
		installed bool
		want      Status
		code      int
	}{
		"blocked": {migration.Plan{Blocker: "uninstall it", Nodes: nodes(true)}, true, Status{Phase: blocked, Message: "uninstall it", Left: nodes(true)}, plugin.Wrong},
		"nothing": {migration.Plan{}, false, Status{Phase: done, Message: "no objects of another operator are left"}, 0},
		"not begun": {migration.Plan{Objects: adopted}, false, Status{Phase: notStarted, Objects: 2, Message: "the operator begins when ClusterCSIDriver " +
			"efs.csi.aws.com is created; \"oc storage migrate plan\" shows what it does"}, plugin.Unfinished},
		"held": {migration.Plan{Nodes: nodes(true, true)}, true, Status{Phase: waiting, Left: nodes(true, true),
			Message: "pods use volumes on all 2 remaining nodes: drain these nodes, or stop the pods"}, plugin.Unfinished},
		"goes on": {migration.Plan{Nodes: nodes(true, false), AtOnce: 1}, true, Status{Phase: migrating, Left: nodes(true, false),
			Message: "2 nodes have a pod of the predecessor, 1 of them in use; the operator replaces 1 pods at a time"}, plugin.Unfinished},
	} {
		got := statusOf(tc.plan, tc.installed)
		if diff := cmp.Diff(tc.want, got); diff != "" || plugin.Code(got.exit()) != tc.code {
			t.Errorf("%s: code %d (-want +got):\n%s", name, plugin.Code(got.exit()), diff)
		}
	}
}
