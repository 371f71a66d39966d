package efshealth

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// bringing is a reconciler that has seen access points of this cluster, whose ClusterCSIDriver has the keys of tags that were set before.
func bringing(t *testing.T, owned map[string]aws.Tags, kept string) (*Reconciler, *canned.Cluster, *operatorv1.ClusterCSIDriver) {
	t.Helper()
	r, c := newReconciler(t)
	all := &points{ids: map[string]bool{}, owned: owned}
	for id := range owned {
		all.ids[id] = true
	}
	r.seen = &snapshot{at: at, complete: true, systems: map[string]string{regional: ""}, points: map[string]*points{regional: all}}
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, UID: "1-2"}}
	if kept != "" {
		cr.Spec.ObservedConfig.Raw = []byte(`{"accessPointTags":` + kept + `}`)
	}
	return r, c, cr
}

// made are the tags of an access point that the driver has made, with others as key and value.
func made(more ...string) aws.Tags {
	tags := aws.Tags{driverTag: "true"}
	for i := 0; i < len(more); i += 2 {
		tags[more[i]] = more[i+1]
	}
	return tags
}

// keysWrite is what keeps keys.
func keysWrite(keys string) string {
	return `apply ClusterCSIDriver efs.csi.aws.com {"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver",` +
		`"metadata":{"name":"efs.csi.aws.com","uid":"1-2"},"spec":{"observedConfig":{"accessPointTags":` + keys + `}}}`
}

func TestTagsAreBroughtAndTakenOff(t *testing.T) {
	const noTag, noUntag = "the credentials lack permission elasticfilesystem:TagResource", "the credentials lack permission " +
		"elasticfilesystem:UntagResource"
	for name, tc := range map[string]struct {
		owned map[string]aws.Tags
		fails map[string]error
		asked []string
		want  tagging
		// denied are the actions that were denied, left what is known afterwards.
		denied denials
		left   map[string]aws.Tags
	}{
		"nothing is there": {},
		"all is as wanted": {owned: map[string]aws.Tags{"a": made("team", "x")}, left: map[string]aws.Tags{"a": made("team", "x")}},
		"new and old": {
			owned: map[string]aws.Tags{"a": made(), "b": made("old", "1", "team", "y"), "c": {"old": "1"}},
			asked: []string{"tag a team=x", "tag b team=x", "untag b old"},
			left:  map[string]aws.Tags{"a": made("team", "x"), "b": made("team", "x"), "c": {"old": "1"}},
		},
		"gone before it is tagged": {
			owned: map[string]aws.Tags{"a": made("old", "1"), "b": made()}, fails: map[string]error{"tag a": answer("AccessPointNotFound")},
			asked: []string{"tag a team=x", "tag b team=x"}, left: map[string]aws.Tags{"b": made("team", "x")},
		},
		"gone before a tag is taken off": {
			owned: map[string]aws.Tags{"a": made("old", "1", "team", "x")}, fails: map[string]error{"untag a": answer("AccessPointNotFound")},
			asked: []string{"untag a old"}, left: map[string]aws.Tags{},
		},
		"one fails": {
			owned: map[string]aws.Tags{"a": made("old", "1"), "b": made()}, fails: map[string]error{"tag a": errors.New("no route")},
			asked: []string{"tag a team=x", "tag b team=x"},
			want:  tagging{outdated: 1, problem: "update the tags of access point a: no route", again: tagRetry},
			left:  map[string]aws.Tags{"a": made("old", "1"), "b": made("team", "x")},
		},
		"nobody may tag": {
			owned: map[string]aws.Tags{"a": made(), "b": made()}, fails: map[string]error{"tag": refusal("TagResource")},
			asked: []string{"tag a team=x"}, want: tagging{outdated: 2, problem: noTag, again: tagRetry},
			denied: denials{"elasticfilesystem:TagResource": noTag}, left: map[string]aws.Tags{"a": made(), "b": made()},
		},
		// Roles of before have only the right to tag.
		"nobody may take tags off": {
			owned: map[string]aws.Tags{"a": made("old", "1"), "b": made("old", "1"), "c": made()}, fails: map[string]error{"untag": refusal("UntagResource")},
			asked: []string{"tag a team=x", "untag a old", "tag b team=x", "tag c team=x"}, want: tagging{outdated: 2, problem: noUntag, again: tagRetry},
			denied: denials{"elasticfilesystem:UntagResource": noUntag},
			left:   map[string]aws.Tags{"a": made("old", "1", "team", "x"), "b": made("old", "1", "team", "x"), "c": made("team", "x")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, cr := bringing(t, tc.owned, `["old","team"]`)
			cloud := &scripted{fails: tc.fails}
			got, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"})
			if err != nil || len(c.Writes) > 0 {
				t.Errorf("error %v, writes %v", err, c.Sent())
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(tagging{})); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.asked, cloud.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.denied, r.tags.denied, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("denied (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, r.seen.points[regional].owned, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("known afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// Whoever is ended between two requests leaves no tag of which nobody knows.
func TestTheKeysOfTagsAreKeptBeforeAnyIsSet(t *testing.T) {
	r, c, cr := bringing(t, map[string]aws.Tags{"a": made()}, "")
	cloud := &scripted{}
	c.Refuse(errors.New("refused"))
	got, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"})
	if err == nil || err.Error() != "record the tag keys of access points: refused" || got != (tagging{}) || len(cloud.asked) > 0 {
		t.Errorf("%+v, error %v, asked %v", got, err, cloud.asked)
	}
	c.Fail = func(string) error {
		if len(cloud.asked) > 0 {
			t.Errorf("a tag is set before its key is kept: %v", cloud.asked)
		}
		return nil
	}
	if _, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x", "cost": "1"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(keysWrite(`["cost","team"]`), c.Sent()[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tag a cost=1 team=x"}, cloud.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := string(cr.Spec.ObservedConfig.Raw); got != `{"accessPointTags":["cost","team"]}` {
		t.Errorf("the same reconcile goes on with %s", got)
	}
}

// Those of before are still on some access point.
func TestTheKeysOfBeforeAreKeptWithTheNewOnes(t *testing.T) {
	r, c, cr := bringing(t, map[string]aws.Tags{"a": made("old", "1")}, `["old"]`)
	cloud := &scripted{fails: map[string]error{"untag": errors.New("no route")}}
	if _, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{keysWrite(`["old","team"]`)}, c.Sent()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The driver may go on to make access points with a tag for a while, and AWS lists them late.
func TestAKeyIsForgottenWhenALaterPollFindsItNowhere(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *Reconciler, owned map[string]aws.Tags)
		want   []string
	}{
		"at once":                    {func(*Reconciler, map[string]aws.Tags) {}, nil},
		"nearly":                     {func(r *Reconciler, _ map[string]aws.Tags) { r.seen.at = at.Add(shortInterval - time.Second) }, nil},
		"later":                      {func(r *Reconciler, _ map[string]aws.Tags) { r.seen.at = at.Add(shortInterval) }, []string{keysWrite(`["team"]`)}},
		"later, but not all is seen": {func(r *Reconciler, _ map[string]aws.Tags) { r.seen.at, r.seen.complete = at.Add(shortInterval), false }, nil},
		"later, but somebody has it": {func(r *Reconciler, owned map[string]aws.Tags) {
			r.seen.at, owned["b"] = at.Add(shortInterval), made("old", "1", "team", "x")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			owned := map[string]aws.Tags{"a": made("team", "x")}
			r, c, cr := bringing(t, owned, `["old","team"]`)
			cloud := &scripted{fails: map[string]error{"untag": errors.New("no route")}}
			for range 2 {
				if _, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"}); err != nil {
					t.Fatal(err)
				}
				tc.change(r, owned)
			}
			if diff := cmp.Diff(tc.want, c.Sent()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyAccessPointsAreDoneABatchAtATime(t *testing.T) {
	owned := map[string]aws.Tags{}
	for i := range batch + 2 {
		owned[fmt.Sprintf("fsap-%03d", i)] = made()
	}
	r, _, cr := bringing(t, maps.Clone(owned), `["team"]`)
	cloud := &scripted{}
	for _, want := range []tagging{{outdated: 2, again: time.Second}, {}, {}} {
		got, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"})
		if err != nil || got != want {
			t.Errorf("%+v, error %v, want %+v", got, err, want)
		}
	}
	if len(cloud.asked) != batch+2 {
		t.Errorf("asked %d times", len(cloud.asked))
	}
}

// The next ones would fail as well; those that did come last, so that they keep nothing else from being done.
func TestABatchIsLeftAfterAFewFailuresAndTheOthersComeFirst(t *testing.T) {
	owned := map[string]aws.Tags{}
	for i := range mostFailures + 3 {
		owned[fmt.Sprint("fsap-", i)] = made()
	}
	r, _, cr := bringing(t, owned, `["team"]`)
	now := at
	r.Now = func() time.Time { return now }
	cloud := &scripted{fails: map[string]error{"tag": errors.New("no route")}}
	look := func(want tagging, asked ...string) {
		t.Helper()
		cloud.asked = nil
		got, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"})
		if err != nil || got != want {
			t.Errorf("%+v, error %v, want %+v", got, err, want)
		}
		if diff := cmp.Diff(asked, cloud.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	}
	tag := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf("tag fsap-%d team=x", i))
		}
		return all
	}
	failure := func(last string, again time.Duration) tagging {
		return tagging{outdated: mostFailures + 3, problem: "update the tags of access point " + last + ": no route", again: again}
	}
	look(failure("fsap-4", tagRetry), tag(0, 5)...)
	now = at.Add(tagRetry / 3)
	look(failure("fsap-4", tagRetry-tagRetry/3))
	now = at.Add(tagRetry)
	look(failure("fsap-1", 2*tagRetry), append(tag(5, 8), tag(0, 2)...)...)
	now, cloud.fails = now.Add(2*tagRetry), nil
	look(tagging{}, tag(0, 8)...)
	if r.tags.pause != 0 || len(r.tags.failed) > 0 {
		t.Errorf("what failed is remembered: %+v", r.tags)
	}
}

func TestThePauseAfterRefusalsDoublesUpToTenMinutes(t *testing.T) {
	r, _, cr := bringing(t, map[string]aws.Tags{"a": made()}, `["team"]`)
	now := at
	r.Now = func() time.Time { return now }
	cloud := &scripted{fails: map[string]error{"tag": errors.New("no route")}}
	var got []time.Duration
	for range 7 {
		progress, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"})
		if err != nil {
			t.Fatal(err)
		}
		got, now = append(got, progress.again), now.Add(progress.again)
	}
	want := []time.Duration{30, 60, 120, 240, 480, 600, 600}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, got); diff != "" || len(cloud.asked) != 7 {
		t.Errorf("asked %d times (-want +got):\n%s", len(cloud.asked), diff)
	}
}

// What SharedVolumes read of the last poll changes while tags are brought.
func TestAnAccessPointGoesWhileASharedVolumeAsksForIt(t *testing.T) {
	r, _, cr := bringing(t, map[string]aws.Tags{point: made()}, `["team"]`)
	r.followAll(nil)
	cloud := &scripted{fails: map[string]error{"tag": answer("AccessPointNotFound")}}
	r.Shares.setClient(&scripted{})
	r.Shares.clearFindings()
	r.Shares.stopWaiting()
	r.Shares.systems, r.Shares.points = r.seen.systems, r.seen.points
	var group sync.WaitGroup
	group.Go(func() { r.Shares.Locate(t.Context(), regional, point) })
	if _, err := r.syncTags(t.Context(), cr, cloud, aws.Tags{"team": "x"}); err != nil {
		t.Error(err)
	}
	group.Wait()
	if len(r.seen.points[regional].ids) > 0 {
		t.Error("it is still there")
	}
}
