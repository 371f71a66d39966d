package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

func TestNumbersOfSharedVolumesAreSortedAndLargeOnesHaveOneRound(t *testing.T) {
	got, err := parseShared("10000, 300,1000,300", 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []sharing{{300, 3}, {1000, 3}, {10000, 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sharing{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFlagsThatMakeNoSenseTogetherAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"everything":              {nil, ""},
		"no SharedVolumes":        {[]string{"-shared", "0"}, ""},
		"nothing but them":        {[]string{"-nodes", "", "-shared", "300"}, ""},
		"them and their peer":     {[]string{"-nodes", "0", "-shared-peer", "peer"}, ""},
		"nothing at all":          {[]string{"-nodes", "0", "-shared", "", "-vcenter", "0"}, "nothing to measure"},
		"no number":               {[]string{"-shared", "many"}, `-shared "many"`},
		"none among others":       {[]string{"-shared", "300,0"}, `-shared "300,0": "0" is no number of at least 1`},
		"no round":                {[]string{"-shared-rounds", "0"}, "-shared-rounds"},
		"a peer without nodes":    {[]string{"-nodes", "0", "-peer", "peer"}, "-peer is measured with -nodes"},
		"a peer without its kind": {[]string{"-shared", "0", "-shared-peer", "peer"}, "-shared-peer is measured with -shared"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args)
			if test.want == "" && err != nil {
				t.Errorf("got %v, want nothing", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestASharedVolumeBecomesAPVAndAPVCOfTheseNames(t *testing.T) {
	shares, volumes, pvcs := shareKeys(12)
	got := []types.NamespacedName{shares[11], volumes[11], pvcs[11]}
	want := []types.NamespacedName{
		{Namespace: "bench-1", Name: "data-00011"}, {Name: "pv-bench-1-data-00011"}, {Namespace: "bench-1", Name: "pvc-data-00011"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStepsOfOursInstallTheDriverAndThoseOfAPeerDoNot(t *testing.T) {
	names := func(operator string, rounds int) []string {
		var found []string
		for _, step := range (sharing{300, rounds}).steps(operator) {
			found = append(found, step.name)
		}
		return found
	}
	want := []string{
		"start", "converge", waits, "ready-made pairs", waits, "share", "idle", "unshare", waits, "ready-made pairs", waits, "share", "unshare", "remove",
	}
	if diff := cmp.Diff(want, names(report.Ours, 2)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{"start", waits, "ready-made pairs", waits, "share", "idle", "unshare"}
	if diff := cmp.Diff(want, names(report.SharedPeer, 1)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The real one is not at hand.
func TestASharedPeerFindsWhatItNeedsInTheEnvironment(t *testing.T) {
	script := filepath.Join(t.TempDir(), "peer")
	text := "#!/bin/sh\necho \"args=$*\"\nenv\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	operator, err := env.RunFile(script, []string{"--zap-level", "info"}, sharedPeerEnvironment("some.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	<-operator.Done()
	got := "\n" + operator.Output()
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"args=--zap-level info", "KUBECONFIG=some.kubeconfig", "WATCH_NAMESPACE=", "OPERATOR_NAME=aws-efs-operator", "POD_NAME=bench-peer",
		"OPERATOR_NAMESPACE=openshift-cluster-csi-drivers", "OPERATOR_RUN_MODE=local",
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("the peer does not see %q but\n%s", want, got)
		}
	}
}
