package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
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
		"everything":        {nil, ""},
		"no SharedVolumes":  {[]string{"-shared", "0"}, ""},
		"nothing but them":  {[]string{"-nodes", "", "-shared", "300"}, ""},
		"nothing at all":    {[]string{"-nodes", "0", "-shared", "", "-vcenter", "0", "-reader", "0"}, "nothing to measure"},
		"no number":         {[]string{"-shared", "many"}, `-shared "many"`},
		"none among others": {[]string{"-shared", "300,0"}, `-shared "300,0": "0" is no number of at least 1`},
		"no round":          {[]string{"-shared-rounds", "0"}, "-shared-rounds"},
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

func TestTheFirstRoundRestsAndTheLastIsFollowedByTheRemoval(t *testing.T) {
	var got []string
	for _, step := range (sharing{300, 2}).steps() {
		got = append(got, step.name)
	}
	want := []string{
		"start", "converge", waits, "ready-made pairs", waits, "share", "idle", "unshare", waits, "ready-made pairs", waits, "share", "unshare", "remove",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
