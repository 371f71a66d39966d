package main

import (
	"os"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

// withStorage is a cluster with one object of each kind that the commands print.
func withStorage(t *testing.T) *canned.Cluster {
	t.Helper()
	in := metav1.ObjectMeta{Namespace: "my-project", Name: "reports"}
	driver := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "efs.csi.aws.com"}}
	driver.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Available", Status: operatorv1.ConditionFalse, Message: "no pod is there"}}
	shared := &v1alpha1.SharedVolume{ObjectMeta: in}
	shared.Spec.FileSystemID, shared.Spec.AccessPointID = "fs-12345678", "fsap-12345678"
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "efs.csi.aws.com", VolumeHandle: "fs-1"}
	volume.Status.Phase = corev1.VolumeReleased
	return plugintest.Cluster(t, driver, shared, volume, &corev1.Pod{ObjectMeta: in}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "my-project"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "efs.csi.aws.com"}})
}

// Most packages of commands also compare their output with the schema: plugintest.Run does it for each line with "-o json".
func TestEachCommandPrintsWhatItsSchemaSays(t *testing.T) {
	plan := "--from=../../internal/plugin/migrate/testdata/community"
	lines := map[string][]string{
		"status": {""}, "doctor": {"", "pod reports"}, "rollout status": {""}, "install efs": {"--dry-run"},
		"migrate plan": {plan},
		"share create": {"reports --file-system fs-12345678 --access-point fsap-12345678"}, "share list": {""}, "share explain": {""},
		"iam policy":       {"controller", "node"},
		"iam trust-policy": {"controller --account 123456789012 --oidc-provider oidc.example.com/cluster"},
		// These need logs, a must-gather, AWS, an operator, or nodes. The tests of their packages and test/aws run them.
		"collect": nil, "efs cleanup": nil, "efs create": nil, "leftovers": nil, "migrate status": nil, "test": nil, "uninstall efs": nil,
	}
	// These change something, and print a sentence.
	sentences := map[string]bool{"options": true, "rollout resume": true, "share revoke": true}
	files, err := os.ReadDir(plugintest.Schemas(t))
	if err != nil || len(files) != len(lines) {
		t.Errorf("%d schemas for %d commands: %v", len(files), len(lines), err)
	}
	for _, command := range leaves(rootOf(plugintest.Plugin(t, plugintest.Cluster(t), ""), "oc storage")) {
		name := strings.TrimPrefix(command.CommandPath(), "oc storage ")
		calls, has := lines[name]
		if has == sentences[name] {
			t.Errorf("command %q has no schema; if it prints no JSON, add it to the sentences", name)
		}
		for _, call := range calls {
			// In an empty cluster, each list is empty, and must not be null.
			for _, cluster := range []*canned.Cluster{withStorage(t), plugintest.Cluster(t)} {
				got := plugintest.Run(t, cluster, "", only(strings.Fields(name)[0]), append(strings.Fields(name+" "+call), "-o", "json")...)
				if got.Out == "" {
					t.Errorf("%s %s prints nothing: %s", name, call, got.Text())
				}
			}
		}
	}
}

// only returns the command of this name.
func only(name string) func(*plugin.Plugin) *cobra.Command {
	return func(p *plugin.Plugin) *cobra.Command {
		for _, one := range rootOf(p, "oc storage").Commands() {
			if one.Name() == name {
				return one
			}
		}
		return nil
	}
}
