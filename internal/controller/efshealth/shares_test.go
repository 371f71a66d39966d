package efshealth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// counted is a cloud that counts lists, and fails if it has an error.
type counted struct {
	Cloud
	systems []aws.FileSystem
	err     error
	lists   int
}

func (c *counted) FileSystems(context.Context) ([]aws.FileSystem, error) {
	c.lists++
	return c.systems, c.err
}

// asked is Shares that asks a cloud.
func asked(cloud Cloud) *Shares {
	k := &Shares{}
	k.setClient(cloud)
	k.clearFindings()
	return k
}

func TestAShareLearnsWhatAWSHasOfIt(t *testing.T) {
	zones := []string{"us-east-1a", "us-east-1b"}
	noTarget := finding{problem: mountTargetMissing, fileSystem: regional, object: "us-east-1b", message: "no mount target"}
	for name, tc := range map[string]struct {
		fileSystem, zone string
		findings         []finding
		zones            []string
		want             efs.Placement
	}{
		"a regional one":        {regional, "", nil, zones, efs.Placement{Known: true}},
		"one of a zone":         {regional, "us-east-1a", nil, zones, efs.Placement{Known: true, Zone: "us-east-1a"}},
		"nodes have no zone":    {regional, "us-east-1a", nil, nil, efs.Placement{Known: true, Zone: "us-east-1a"}},
		"another access point":  {regional, "", []finding{{problem: accessPointMissing, object: other}}, zones, efs.Placement{Known: true}},
		"one zone of two lacks": {regional, "", []finding{noTarget}, zones, efs.Placement{Known: true}},
		"no zone has a target": {regional, "", []finding{{problem: mountTargetMissing, alone: true, message: "no mount target"}}, zones,
			efs.Placement{Known: true, Reason: efs.ReasonMountTargetMissing, Message: "no mount target"}},
		"its one zone lacks": {regional, "us-east-1a", []finding{noTarget}, zones,
			efs.Placement{Known: true, Zone: "us-east-1a", Reason: efs.ReasonMountTargetMissing, Message: "no mount target"}},
		"no node in its zone": {regional, "us-east-1c", nil, zones, efs.Placement{Known: true, Zone: "us-east-1c", Reason: efs.ReasonNoNodeInZone,
			Message: "file system fs-11111111 is One Zone in us-east-1c, where the cluster has no node: pods that use it stay Pending; ask a cluster administrator " +
				"for nodes in this zone"}},
		"its access point": {regional, "", []finding{{problem: accessPointMissing, object: point}, noTarget}, zones, efs.Placement{Known: true,
			Reason: efs.ReasonAccessPointNotFound, Message: "file system fs-11111111 has no access point fsap-11111111: pods can't mount it; create another SharedVolume"}},
		"no file system": {absent, "", nil, zones, efs.Placement{Known: true, Reason: efs.ReasonFileSystemNotFound,
			Message: "file system fs-33333333 does not exist in the AWS region and account of this cluster: pods can't mount it; if the ID is wrong, " +
				"create another SharedVolume"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := asked(nil)
			k.systems, k.findings = map[string]string{regional: tc.zone}, map[string][]finding{regional: tc.findings}
			if diff := cmp.Diff(tc.want, k.placement(tc.fileSystem, point, tc.zones)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	k := &Shares{systems: map[string]string{regional: ""}}
	if got := k.placement(regional, point, zones); !got.Pending {
		t.Errorf("before the first evaluation: %+v", got)
	}
}

func TestAListIsMadeAnewOnlyForWhatIsNotInIt(t *testing.T) {
	cloud := &counted{systems: []aws.FileSystem{{ID: regional}}}
	k, now := asked(cloud), at
	for _, step := range []struct {
		what       string
		fileSystem string
		after      time.Duration
		lists      int
	}{
		{"the first one", regional, 0, 1},
		{"the same again", regional, time.Hour, 1},
		{"one that is not there", absent, 0, 2},
		{"once more soon", absent, time.Second, 2},
		{"once more later", absent, listMaxAge, 3},
		{"long after it was asked for first", absent, time.Minute, 3},
		{"long after it was asked for last", absent, shortInterval, 4},
	} {
		now = now.Add(step.after)
		if !k.list(t.Context(), step.fileSystem, now) || cloud.lists != step.lists {
			t.Errorf("%s: %d lists, want %d", step.what, cloud.lists, step.lists)
		}
	}
}

func TestAWSThatDoesNotAnswerIsLeftInPeace(t *testing.T) {
	cloud := &counted{err: errors.New("no route")}
	k := asked(cloud)
	for _, step := range []struct {
		after time.Duration
		lists int
	}{{0, 1}, {time.Second, 1}, {failurePause, 2}} {
		if k.list(t.Context(), regional, at.Add(step.after)) || cloud.lists != step.lists {
			t.Errorf("after %s: %d lists, want %d", step.after, cloud.lists, step.lists)
		}
	}
	k.recordFailure(at.Add(time.Hour))
	if k.list(t.Context(), regional, at.Add(time.Hour)) || cloud.lists != 2 {
		t.Error("a look that has failed just now is tried again by a share")
	}
}

func TestOtherCredentialsForgetWhatWasMissingAndNoneForgetAll(t *testing.T) {
	first, second := &counted{}, &counted{}
	k := asked(first)
	k.systems, k.at = map[string]string{regional: ""}, at
	k.lookups = lookups{answers: map[share]answered{{regional, point}: {exists: true}, {regional, other}: {}, {absent, ""}: {}}, failed: at}
	if k.setClient(first) {
		t.Error("the same credentials are new")
	}
	if !k.setClient(second) || len(k.lookups.answers) != 1 || !k.lookups.answers[share{regional, point}].exists || !k.lookups.failed.IsZero() || k.systems == nil || !k.evaluated {
		t.Errorf("a renewal: %+v", k)
	}
	if !k.setClient(nil) || k.systems != nil || k.lookups.answers != nil || k.evaluated || !k.decided {
		t.Errorf("without credentials: %+v", k)
	}
}

func TestSharedVolumesWakeUpForWhatIsNew(t *testing.T) {
	used, seen := healthy()
	seen.at = at
	target := finding{problem: mountTargetMissing, fileSystem: regional, object: "us-east-1b"}
	woken := func(r *Reconciler) []string {
		names := []string{}
		for len(r.Shares.changes) > 0 {
			names = append(names, (<-r.Shares.changes).Object.GetName())
		}
		return names
	}
	r, _ := newReconciler(t)
	for _, step := range []struct {
		what     string
		change   func()
		findings []finding
		want     []string
	}{
		{"the first look", func() {}, nil, []string{regional, oneZone}},
		{"nothing new", func() {}, nil, []string{}},
		{"a finding", func() {}, []finding{target}, []string{regional}},
		{"one of no share", func() {}, []finding{target, {problem: accessPointsUnused, fileSystem: oneZone}}, []string{}},
		{"mended", func() {}, nil, []string{regional}},
		{"another zone with nodes", func() { used.zones = []string{"us-east-1a"} }, nil, []string{regional, oneZone}},
		{"a file system has gone", func() {
			seen.systems, seen.at = map[string]string{regional: ""}, at.Add(time.Hour)
		}, nil, []string{oneZone}},
	} {
		step.change()
		r.Shares.publish(used, seen, step.findings)
		if diff := cmp.Diff(step.want, woken(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	r.Shares.publish(used, &snapshot{}, []finding{target})
	if got := woken(r); len(got) > 0 {
		t.Errorf("without an answer: %v", got)
	}
	var many []string
	for range mostWoken + 1 {
		many = append(many, regional)
	}
	r.Shares.wake(many...)
	if diff := cmp.Diff([]string{""}, woken(r)); diff != "" {
		t.Errorf("of very many (-want +got):\n%s", diff)
	}
}

func TestAConnectionThatIsNewWakesAllOnce(t *testing.T) {
	r, _ := newReconciler(t)
	r.Shares.setClient(&counted{})
	r.Shares.wakeIfRenewed()
	if len(r.Shares.changes) > 0 {
		t.Error("before the first look is over, they wait anyway")
	}
	close(r.Shares.first)
	r.Shares.setClient(nil)
	r.Shares.wakeIfRenewed()
	r.Shares.wakeIfRenewed()
	if len(r.Shares.changes) != 1 {
		t.Errorf("%d events", len(r.Shares.changes))
	}
}

func TestWhoAsksForAShareIsAnsweredInTime(t *testing.T) {
	cloud := &counted{systems: []aws.FileSystem{{ID: regional}}}
	for name, tc := range map[string]struct {
		prepare func(r *Reconciler, c *canned.Cluster)
		id      string
		want    efs.Placement
	}{
		"nobody has found out who looks": {func(*Reconciler, *canned.Cluster) {}, regional, efs.Placement{}},
		"nobody looks":                   {func(r *Reconciler, _ *canned.Cluster) { r.Shares.setClient(nil) }, regional, efs.Placement{Off: true}},
		"what is no ID":                  {func(r *Reconciler, _ *canned.Cluster) { r.Shares.setClient(cloud) }, "fs-1", efs.Placement{}},
		"before the first evaluation":    {func(r *Reconciler, _ *canned.Cluster) { r.Shares.setClient(cloud) }, regional, efs.Placement{Known: true, Pending: true}},
		"no answer":                      {func(r *Reconciler, _ *canned.Cluster) { r.Shares.setClient(&counted{err: errors.New("no route")}) }, regional, efs.Placement{}},
		"a node in another zone": {func(r *Reconciler, _ *canned.Cluster) {
			r.Shares.setClient(&counted{systems: []aws.FileSystem{{ID: regional, Zone: "us-east-1b"}}})
			r.Shares.clearFindings()
		}, regional, efs.Placement{Known: true, Zone: "us-east-1b", Reason: efs.ReasonNoNodeInZone, Message: "file system fs-11111111 is One Zone in " +
			"us-east-1b, where the cluster has no node: pods that use it stay Pending; ask a cluster administrator for nodes in this zone"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := onAWS(t, &region{}, nodeIn("n", "us-east-1a"))
			tc.prepare(r, c)
			close(r.Shares.first)
			r.Shares.firstOnce.Do(func() {})
			if diff := cmp.Diff(tc.want, r.Shares.Locate(t.Context(), tc.id, "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// After it has waited once in vain, nobody waits any more.
func TestNobodyWaitsTwiceForAFirstLookThatNeverEnds(t *testing.T) {
	r, _ := onAWS(t, &region{})
	r.Shares.setClient(nil)
	leaves, leave := context.WithCancel(t.Context())
	leave()
	if got := r.Shares.Locate(leaves, regional, ""); got != (efs.Placement{Off: true}) {
		t.Errorf("it is told %+v", got)
	}
	select {
	case <-r.Shares.first:
	default:
		t.Error("the next one waits as well")
	}
	r.Shares.firstOnce.Do(func() { t.Error("the end of the first look would close it once more") })
}

// What only waits for a listener must not wait for ever.
func TestNewsForNobodyAreDropped(t *testing.T) {
	r, _ := newReconciler(t)
	for range 2 * cap(r.Shares.changes) {
		r.Shares.wake(regional)
	}
	if len(r.Shares.changes) != cap(r.Shares.changes) {
		t.Errorf("%d events are kept", len(r.Shares.changes))
	}
}

// Whoever makes a SharedVolume learns at once that its access point is wrong, and AWS is asked for few of them.
func TestAnAccessPointThatNoPollHasSeenIsAskedForAtOnce(t *testing.T) {
	refused := refusal("DescribeAccessPoints")
	here := []aws.AccessPoint{{ID: point, FileSystem: regional, State: aws.StateAvailable}}
	for name, tc := range map[string]struct {
		points   map[string][]aws.AccessPoint
		fails    map[string]error
		polled   map[string]*points
		findings []finding
		id       string
		missing  bool
		asked    []string
	}{
		"it is there":               {points: map[string][]aws.AccessPoint{regional: here}, id: point, asked: []string{"point " + point}},
		"it is not there":           {id: point, missing: true, asked: []string{"point " + point}},
		"of another file system":    {points: map[string][]aws.AccessPoint{oneZone: {{ID: point, FileSystem: oneZone}}}, id: point, missing: true, asked: []string{"point " + point}},
		"it goes":                   {points: map[string][]aws.AccessPoint{regional: {{ID: point, FileSystem: regional, State: aws.StateDeleting}}}, id: point, missing: true, asked: []string{"point " + point}},
		"a poll has seen it":        {polled: map[string]*points{regional: {ids: map[string]bool{point: true}}}, id: point},
		"a poll has seen others":    {polled: map[string]*points{regional: {ids: map[string]bool{other: true}}}, id: point, missing: true, asked: []string{"point " + point}},
		"a poll has missed it":      {findings: []finding{{problem: accessPointMissing, object: point}}, id: point, missing: true},
		"the credentials may not":   {fails: map[string]error{"point": refused}, id: point, asked: []string{"point " + point}},
		"it is no ID":               {id: "fsap-x"},
		"the share has none to ask": {},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &scripted{points: tc.points, fails: tc.fails}
			r, _ := onAWS(t, &region{})
			close(r.Shares.first)
			r.Shares.firstOnce.Do(func() {})
			r.Shares.setClient(cloud)
			r.Shares.clearFindings()
			r.Shares.systems, r.Shares.points, r.Shares.findings = map[string]string{regional: ""}, tc.polled, map[string][]finding{regional: tc.findings}
			for range 2 {
				got := r.Shares.Locate(t.Context(), regional, tc.id)
				if want := "file system fs-11111111 has no access point " + tc.id + ": pods can't mount it; create another SharedVolume"; tc.missing &&
					(got.Reason != efs.ReasonAccessPointNotFound || got.Message != want) || !tc.missing && got != (efs.Placement{Known: true}) {
					t.Errorf("it is told %+v", got)
				}
			}
			if diff := cmp.Diff(tc.asked, cloud.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMadeUpAccessPointsCostFewRequests(t *testing.T) {
	cloud, l := &scripted{}, lookups{}
	lacking := func(now time.Time) int {
		count := 0
		for i := range 3 * mostPointRequests {
			if l.lacks(t.Context(), cloud, share{regional, fmt.Sprint(i)}, now) {
				count++
			}
		}
		return count
	}
	for i, want := range []int{mostPointRequests, 2 * mostPointRequests} {
		// What was asked for before is not asked for again within the time of fresh.
		now := at.Add(time.Duration(i) * (listMaxAge - time.Nanosecond))
		l.window = time.Time{}
		if got := lacking(now); got != want || len(cloud.asked) != want {
			t.Errorf("round %d: %d are known to be lacking, after %d requests; want %d", i, got, len(cloud.asked), want)
		}
	}
	// One that comes late is found.
	cloud.points = map[string][]aws.AccessPoint{regional: {{ID: "0", FileSystem: regional}}}
	if l.window = (time.Time{}); l.lacks(t.Context(), cloud, share{regional, "0"}, at.Add(30*time.Second)) {
		t.Error("it is not asked for again")
	}
	if !l.hasAbsent(regional) || l.hasAbsent(oneZone) {
		t.Error("which file system lacks one is not known")
	}
}

func TestAPollWakesUpWhoWasToldThatAnAccessPointIsMissing(t *testing.T) {
	used, seen := healthy()
	seen.at = at
	r, _ := newReconciler(t)
	r.Shares.publish(used, seen, nil)
	for len(r.Shares.changes) > 0 {
		<-r.Shares.changes
	}
	r.Shares.lookups.answers = map[share]answered{{regional, "late"}: {}}
	seen.at = at.Add(time.Hour)
	r.Shares.publish(used, seen, nil)
	if len(r.Shares.changes) != 1 || (<-r.Shares.changes).Object.GetName() != regional || r.Shares.lookups.answers != nil {
		t.Error("nobody is woken up")
	}
}
