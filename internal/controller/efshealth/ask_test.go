package efshealth

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// account has a regional file system and one of a zone, with mount targets and access points in all states.
func account() *scripted {
	target := func(zone, state string) aws.MountTarget { return aws.MountTarget{Zone: zone, State: state} }
	point := func(id, state string, tags aws.Tags) aws.AccessPoint {
		return aws.AccessPoint{ID: id, State: state, Tags: tags}
	}
	return &scripted{
		systems: []aws.FileSystem{{ID: regional, Bytes: 6144}, {ID: oneZone, Zone: "us-east-1a"}, {ID: "fs-99999999"}},
		targets: map[string][]aws.MountTarget{regional: {
			target("us-east-1c", "updating"), target("us-east-1b", aws.StateCreating), target("us-east-1a", aws.StateAvailable),
			target("us-east-1d", aws.StateDeleting), target("us-east-1e", aws.StateError),
		}},
		points: map[string][]aws.AccessPoint{regional: {
			point("fsap-1", aws.StateAvailable, aws.Tags{"cluster": "owned", "a": "b"}), point("fsap-2", aws.StateCreating, aws.Tags{"cluster": "shared"}),
			point("fsap-3", aws.StateDeleting, aws.Tags{"cluster": "owned"}), point("fsap-4", aws.StateDeleted, nil), point("fsap-5", aws.StateError, nil),
		}},
	}
}

func inUse() uses {
	return uses{
		volumes: []volume{
			{name: "old", fileSystem: regional, accessPoint: "fsap-1", created: at.Add(-minAge)},
			{name: "new", fileSystem: absent, accessPoint: "fsap-9", created: at.Add(time.Second - minAge)},
		},
		classes: []class{{name: "zone", fileSystem: oneZone}},
	}
}

func TestAPollReadsWhatIsUsed(t *testing.T) {
	cloud := account()
	seen, err := subject{cloud, inUse(), "cluster"}.ask(t.Context(), at, denials{})
	if err != nil {
		t.Fatal(err)
	}
	want := &snapshot{
		at: at, systems: map[string]string{regional: "", oneZone: "us-east-1a", "fs-99999999": ""},
		bytes:   map[string]int64{regional: 6144, oneZone: 0, "fs-99999999": 0},
		targets: map[string][]string{regional: {"us-east-1a", "us-east-1b", "us-east-1c"}, oneZone: {}},
		points: map[string]*points{
			regional: {ids: map[string]bool{"fsap-1": true, "fsap-2": true, "fsap-5": true}, owned: map[string]aws.Tags{"fsap-1": {"cluster": "owned", "a": "b"}}},
			oneZone:  {ids: map[string]bool{}, owned: map[string]aws.Tags{}},
		},
		network: &network{groups: map[string]aws.SecurityGroup{}, interfaces: map[string]aws.NetworkInterface{}, lists: map[string][]string{}},
		asked:   map[string]bool{regional: true, "fsap-1": true, oneZone: true}, complete: true,
	}
	if diff := cmp.Diff(want, seen, cmp.AllowUnexported(snapshot{}, points{}, network{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"list", "targets " + regional, "points " + regional, "targets " + oneZone, "points " + oneZone}, cloud.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	// Who does not know what the cluster is called owns nothing.
	if seen, err = (subject{account(), inUse(), ""}).ask(t.Context(), at, denials{}); err != nil || len(seen.points[regional].owned) > 0 {
		t.Errorf("without a name %+v is owned, error %v", seen.points[regional].owned, err)
	}
}

func TestWhatAPollMayNotReadIsLeftOut(t *testing.T) {
	const describe = "elasticfilesystem:Describe"
	for name, tc := range map[string]struct {
		fails    map[string]error
		denied   []string
		asked    []string
		targets  int
		points   int
		systems  int
		complete bool
		err      string
	}{
		"everything is read": {asked: []string{"list", "targets " + regional, "points " + regional, "targets " + oneZone, "points " + oneZone},
			targets: 2, points: 2, systems: 3, complete: true},
		"the list": {fails: map[string]error{"list": refusal("DescribeFileSystems")}, denied: []string{describe + "FileSystems"}, asked: []string{"list"}},
		"mount targets": {fails: map[string]error{"targets": refusal("DescribeMountTargets")}, denied: []string{describe + "MountTargets"},
			asked: []string{"list", "targets " + regional, "points " + regional, "points " + oneZone}, points: 2, systems: 3, complete: true},
		"access points": {fails: map[string]error{"points": refusal("DescribeAccessPoints")}, denied: []string{describe + "AccessPoints"},
			asked: []string{"list", "targets " + regional, "points " + regional, "targets " + oneZone}, targets: 2, systems: 3},
		"one that has gone": {fails: map[string]error{"targets " + regional: answer("FileSystemNotFound")},
			asked: []string{"list", "targets " + regional, "targets " + oneZone, "points " + oneZone}, targets: 1, points: 1, systems: 2, complete: true},
		"one that goes": {fails: map[string]error{"points " + regional: answer("FileSystemNotFound")},
			asked:   []string{"list", "targets " + regional, "points " + regional, "targets " + oneZone, "points " + oneZone},
			targets: 2, points: 1, systems: 2, complete: true},
		"no answer at all":  {fails: map[string]error{"list": errors.New("no route")}, asked: []string{"list"}, err: "check AWS: no route"},
		"no answer in half": {fails: map[string]error{"points": errors.New("no route")}, asked: []string{"list", "targets " + regional, "points " + regional}, targets: 1, systems: 3, err: "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, denied := account(), denials{}
			cloud.fails = tc.fails
			seen, err := subject{cloud, inUse(), "cluster"}.ask(t.Context(), at, denied)
			if (tc.err == "") != (err == nil) || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if diff := cmp.Diff(tc.asked, cloud.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if len(seen.targets) != tc.targets || len(seen.points) != tc.points || len(seen.systems) != tc.systems || seen.complete != tc.complete {
				t.Errorf("seen %+v", seen)
			}
			var actions []string
			for action, text := range denied {
				actions = append(actions, action)
				if want := action + " of x: AccessDeniedException: as the test says"; text != want && text != "check AWS: "+want {
					t.Errorf("it says %q", text)
				}
			}
			if diff := cmp.Diff(tc.denied, actions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("denied (-want +got):\n%s", diff)
			}
		})
	}
}

// pollNow asks AWS whether or not that is due.
func pollNow(t *testing.T, r *Reconciler, about subject) {
	t.Helper()
	r.poller.configure(about)
	r.poller.poll(t.Context(), about)
	r.facts, _ = r.poller.configure(about)
}

func TestAPollInVainKeepsWhatWasKnown(t *testing.T) {
	const polls = "csi_operator_cloud_sweeps_total efs.csi.aws.com"
	r, registry := measured(t)
	cloud := account()
	pollNow(t, r, subject{cloud: cloud, used: inUse()})
	before := r.seen
	if before == nil || r.answered != at || canned.Metrics(t, registry)[polls] != 1 {
		t.Fatalf("seen %+v, facts %+v", r.seen, r.facts)
	}
	cloud.fails = map[string]error{"list": errors.New("no route")}
	r.setClock(func() time.Time { return at.Add(time.Hour) })
	for _, want := range []int{1, 2} {
		pollNow(t, r, subject{cloud: cloud, used: inUse()})
		if r.seen != before || r.failures != want || r.answered != at || !r.silent || r.tried != at.Add(time.Hour) {
			t.Errorf("after %d failures: facts %+v", want, r.facts)
		}
	}
	cloud.fails = map[string]error{"targets": errors.New("no route")}
	pollNow(t, r, subject{cloud: cloud, used: inUse()})
	if r.seen != before || r.answered != at.Add(time.Hour) || r.silent {
		t.Errorf("AWS has answered in half: facts %+v", r.facts)
	}
	cloud.fails = map[string]error{"list": refusal("DescribeFileSystems")}
	pollNow(t, r, subject{cloud: cloud, used: inUse()})
	if r.seen == before || r.seen.systems != nil || r.denied["elasticfilesystem:DescribeFileSystems"] == "" || r.failures != 0 {
		t.Errorf("a denial is an answer: seen %+v, denied %v, facts %+v", r.seen, r.denied, r.facts)
	}
	if got := canned.Metrics(t, registry)[polls]; got != 2 {
		t.Errorf("%v polls are counted", got)
	}
}
