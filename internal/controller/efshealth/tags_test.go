package efshealth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const driverTag = "efs.csi.aws.com/cluster"

func TestOnlyWhatDiffersIsChanged(t *testing.T) {
	r := &Reconciler{DriverTag: driverTag, tags: tagger{failed: map[string]bool{"fsap-1": true}}}
	ours := func(more ...string) aws.Tags {
		tags := aws.Tags{driverTag: "true"}
		for i := 0; i < len(more); i += 2 {
			tags[more[i]] = more[i+1]
		}
		return tags
	}
	r.seen = &snapshot{points: map[string]*points{regional: {owned: map[string]aws.Tags{
		"fsap-1": ours(), "fsap-2": ours("team", "a", "somebody", "else"), "fsap-3": ours("team", "b", "old", "x"), "fsap-4": {}, "fsap-5": ours("Team", "a", "team", "a"),
	}}}}
	got := r.outdated(aws.Tags{"team": "a"}, []string{"old", "team"})
	want := []change{
		{id: "fsap-3", set: aws.Tags{"team": "a"}, off: []string{"old"}},
		// What failed before is last.
		{id: "fsap-1", set: aws.Tags{"team": "a"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whoever may change the ClusterCSIDriver must not make the operator remove the tags of what the cluster owns.
func TestMarksAreNeverTakenOff(t *testing.T) {
	r := &Reconciler{DriverTag: driverTag}
	for raw, want := range map[string][]string{
		``:                            nil,
		`null`:                        nil,
		`"text"`:                      nil,
		`{"accessPointTags": "text"}`: nil,
		`{"accessPointTags": ["b", "a", "b"], "more": 1}`:                                              {"a", "b"},
		`{"accessPointTags": ["efs.csi.aws.com/cluster", "kubernetes.io/cluster/x", "AWS:x", "team"]}`: {"team"},
	} {
		cr := &operatorv1.ClusterCSIDriver{}
		cr.Spec.ObservedConfig.Raw = []byte(raw)
		if diff := cmp.Diff(want, r.observedIn(cr)); diff != "" && len(want) > 0 {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
