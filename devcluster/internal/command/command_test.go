package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubectlTakesOnlyItsOwnDirFlag(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		wantDir string
		want    []string
	}{
		"nothing":       {[]string{"get", "nodes", "-o", "json"}, defaultDir, []string{"get", "nodes", "-o", "json"}},
		"two words":     {[]string{"--dir", "d", "get"}, "d", []string{"get"}},
		"one word":      {[]string{"--dir=d", "get"}, "d", []string{"get"}},
		"dashes":        {[]string{"--dir", "d", "--", "-n", "x", "get"}, "d", []string{"-n", "x", "get"}},
		"flags first":   {[]string{"--dir", "d", "-n", "x", "get"}, "d", []string{"-n", "x", "get"}},
		"kubectl's dir": {[]string{"cp", "--dir", "d"}, defaultDir, []string{"cp", "--dir", "d"}},
		"later dashes":  {[]string{"exec", "p", "--", "ls"}, defaultDir, []string{"exec", "p", "--", "ls"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := defaultDir
			got, err := takeDir(test.args, &dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || dir != test.wantDir {
				t.Errorf("dir %s, want %s; -want +got:\n%s", dir, test.wantDir, diff)
			}
		})
	}
}

func TestNodesFollowTheTopologyUnlessGiven(t *testing.T) {
	for name, test := range map[string]struct {
		flags upFlags
		given bool
		want  int
	}{
		"default":          {upFlags{nodes: 6, topology: "HighlyAvailable"}, false, 6},
		"real":             {upFlags{nodes: 6, realNodes: 2, topology: "HighlyAvailable"}, false, 5},
		"real, external":   {upFlags{nodes: 6, realNodes: 2, topology: "External"}, false, 2},
		"real and given":   {upFlags{nodes: 9, realNodes: 2, topology: "HighlyAvailable"}, true, 9},
		"single":           {upFlags{nodes: 6, topology: "SingleReplica"}, false, 1},
		"single and given": {upFlags{nodes: 6, topology: "SingleReplica"}, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.flags.options(test.given).Profile.Nodes; got != test.want {
				t.Errorf("got %d nodes, want %d", got, test.want)
			}
		})
	}
}

func TestMistakesAreExplained(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nodes of a single node":  {[]string{"up", "--topology", "SingleReplica", "--nodes", "2"}, "omit --nodes"},
		"unknown topology":        {[]string{"up", "--topology", "Flat"}, "--topology"},
		"gate without value":      {[]string{"up", "--feature-gates", "VolumeLimitScaling"}, "NAME=true"},
		"unknown gate":            {[]string{"up", "--feature-gates", "NoSuchGate=true"}, "unrecognized feature gate"},
		"status format":           {[]string{"status", "-o", "xml"}, "-o is"},
		"status without cluster":  {[]string{"status"}, "devcluster up --dir " + dir},
		"kubectl without cluster": {[]string{"kubectl", "get", "nodes"}, "devcluster up --dir " + dir},
		"stop without cluster":    {[]string{"stop", "etcd"}, "devcluster up --dir " + dir},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			kubectl := func([]string) int { return 0 }
			code := Run(append([]string{"--dir", dir}, test.args...), Streams{Out: &stdout, Err: &stderr}, kubectl)
			if code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("exit code %d, printed %q and %q, want %q in it", code, stdout.String(), stderr.String(), test.want)
			}
		})
	}
}
