package node

import (
	"strings"
	"testing"
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
