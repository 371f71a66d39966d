package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"
)

// A hundredth of a large disk is more than most pods need: a disk that is 99 % full evicts none.
func TestAKubeletEvictsBySizesNotByShares(t *testing.T) {
	text, err := files.ReadFile("files/kubelet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nevictionHard: {")
	thresholds, _, closed := strings.Cut(rest, "}\n")
	if !found || !closed || strings.Contains(thresholds, "%") {
		t.Errorf("the thresholds are %q", thresholds)
	}
	for _, signal := range []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"} {
		if !strings.Contains(thresholds, signal+": ") {
			t.Errorf("%s has no threshold: the kubelet would take its own", signal)
		}
	}
}

func TestTheProgramsOfANodeGetTheFeatureGates(t *testing.T) {
	for _, gates := range []map[string]bool{nil, {"VolumeLimitScaling": true, "ContextualLogging": false}} {
		v := values{Config: Config{Dir: t.TempDir(), Name: "worker-0", FeatureGates: gates}}
		if err := v.write(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kubelet.yaml", "kube-proxy.yaml"} {
			text, err := os.ReadFile(filepath.Join(v.root(), etcDir, name))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				FeatureGates map[string]bool `json:"featureGates"`
			}
			if err := yaml.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(gates, got.FeatureGates, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		}
	}
}
