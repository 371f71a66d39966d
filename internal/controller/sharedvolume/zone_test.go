package sharedvolume

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

var (
	regional = efs.Placement{Known: true}
	oneZone  = efs.Placement{Known: true, Zone: "us-east-1a"}
	noNode   = efs.Placement{Known: true, Zone: "us-east-1a", Reason: efs.ReasonNoNodeInZone, Message: "no node is in us-east-1a"}
	notFound = efs.Placement{Known: true, Reason: efs.ReasonFileSystemNotFound, Message: "fs-1234cdef does not exist"}
)

// annotated is a SharedVolume that asks for the affinity.
func annotated(value string) *v1alpha1.SharedVolume {
	sv := owner("ns", "sv1")
	sv.Annotations = map[string]string{ZoneAffinityAnnotation: value}
	return sv
}

// asking is a world in which AWS has not been asked.
func asking(w seen) seen {
	w.askable = true
	return w
}

func TestAWSIsAskedBeforeAVolumeIsMadeAndBeforeTheStatusTells(t *testing.T) {
	sv := owner("ns", "sv1")
	now := metav1.NewTime(time.Unix(0, 0))
	leaving := owner("ns", "sv1")
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{"example.com/other"}
	foreign := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-ns-sv1"}}
	for name, tc := range map[string]struct {
		owner *v1alpha1.SharedVolume
		world seen
		step  string
	}{
		// What has to be fresh is read after AWS, which may take seconds.
		"nothing is there":           {sv, seen{}, "ask AWS"},
		"both names are taken":       {sv, seen{plain: foreign, unique: foreign}, "ask AWS"},
		"nothing may be used":        {sv, seen{limits: notYours()}, "look at the cluster"},
		"the PVC is to be made":      {sv, pair(sv, func(w *seen) { w.pvc = nil }), "create PVC pvc-sv1 on pv-ns-sv1"},
		"the volume is to be made":   {sv, pair(sv, func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimPending }), "ask AWS"},
		"the volume was lost":        {sv, pair(sv, func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimLost }), "create volume pv-ns-sv1"},
		"the volume is to be marked": {sv, pair(sv, func(w *seen) { w.plain.Labels = nil }), "mark volume pv-ns-sv1"},
		"bound":                      {sv, pair(sv, nil), "ask AWS"},
		"bound, and to be confined":  {annotated("true"), pair(sv, nil), "ask AWS"},
		"bound, not allowed any more": {sv, pair(sv, func(w *seen) {
			w.limits = notYours()
		}), "ask AWS"},
		"not bound yet": {sv, pair(sv, func(w *seen) { w.pvc.Status.Phase = corev1.ClaimPending }), "ask AWS"},
		"it ends":       {leaving, pair(sv, nil), "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := next(tc.owner, asking(tc.world)); step(got) != tc.step {
				t.Errorf("%s, want %s: %+v", step(got), tc.step, got)
			}
		})
	}
}

func TestANewVolumeIsConfinedToItsZoneUnlessPodsMayUseItsPVC(t *testing.T) {
	sv := owner("ns", "sv1")
	lost := func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimLost }
	isNew := func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimPending }
	for name, tc := range map[string]struct {
		owner     *v1alpha1.SharedVolume
		world     seen
		placement efs.Placement
		want      *corev1.VolumeNodeAffinity
	}{
		"AWS is unknown":          {sv, pair(sv, isNew), efs.Placement{}, nil},
		"regional":                {sv, pair(sv, isNew), regional, nil},
		"One Zone":                {sv, pair(sv, isNew), oneZone, affinityTo("us-east-1a")},
		"One Zone without a node": {sv, pair(sv, isNew), noNode, affinityTo("us-east-1a")},
		"it does not exist":       {sv, pair(sv, isNew), notFound, nil},
		"made again for a PVC":    {sv, pair(sv, lost), oneZone, nil},
		// Where its pods are is looked at when it is bound.
		"made again for a PVC, annotated": {annotated("true"), pair(sv, lost), oneZone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.world.placement, tc.world.now = tc.placement, sv.CreationTimestamp.Add(time.Hour)
			got := next(tc.owner, tc.world)
			volume, ok := got.do.object.(*corev1.PersistentVolume)
			if !ok || got.do.what != createVolume {
				t.Fatalf("%+v", got)
			}
			if diff := cmp.Diff(tc.want, volume.Spec.NodeAffinity); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAnExistingVolumeIsConfinedOnlyIfAskedAndIfNobodyIsHit(t *testing.T) {
	sv := owner("ns", "sv1")
	with := func(placement efs.Placement, outsideZone []string, change func(*seen)) seen {
		w := pair(sv, change)
		w.placement, w.outsideZone = placement, outsideZone
		return w
	}
	own := func(w *seen) { w.plain.Spec.NodeAffinity = affinityTo("us-east-1b") }
	for name, tc := range map[string]struct {
		owner *v1alpha1.SharedVolume
		world seen
		step  string
		retry time.Duration
	}{
		"nobody asks":                   {sv, with(oneZone, []string{}, nil), "nothing", 0},
		"asked for with another value":  {annotated("yes"), with(oneZone, []string{}, nil), "nothing", 0},
		"nobody has looked for pods":    {annotated("true"), with(oneZone, nil, nil), "look where pods are", 0},
		"no pod is elsewhere":           {annotated("true"), with(oneZone, []string{}, nil), "add zone affinity pv-ns-sv1", 0},
		"a pod is elsewhere":            {annotated("true"), with(oneZone, []string{"web on node b in us-east-1b"}, nil), "nothing", 0},
		"regional":                      {annotated("true"), with(regional, nil, nil), "nothing", 0},
		"AWS is unknown":                {annotated("true"), with(efs.Placement{Zone: "us-east-1a"}, nil, nil), "nothing", 0},
		"no node is in the zone":        {annotated("true"), with(noNode, nil, nil), "nothing", 0},
		"it does not exist":             {annotated("true"), with(notFound, nil, nil), "nothing", 0},
		"the volume has an affinity":    {annotated("true"), with(oneZone, nil, own), "nothing", 0},
		"the PVC is not bound":          {annotated("true"), with(oneZone, nil, func(w *seen) { w.pvc.Status.Phase = corev1.ClaimPending }), "nothing", patience},
		"what is wrong is mended first": {annotated("true"), with(oneZone, []string{}, func(w *seen) { w.plain.Labels = nil }), "mark volume pv-ns-sv1", 0},
		"also where no driver is there": {annotated("true"), with(oneZone, nil, func(w *seen) { w.noDriver = true }), "look where pods are", 0},
		"also where it is allowed no more": {annotated("true"), with(oneZone, []string{}, func(w *seen) {
			w.limits = notYours()
		}), "add zone affinity pv-ns-sv1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := next(tc.owner, tc.world)
			if paced := name == "a pod is elsewhere"; got.paced != paced {
				t.Errorf("paced %v, want %v", got.paced, paced)
			}
			if step(got) != tc.step || got.retry != tc.retry {
				t.Errorf("%s, again in %s; want %s, %s", step(got), got.retry, tc.step, tc.retry)
			}
		})
	}
}

func TestConfiningChangesNothingButTheAffinity(t *testing.T) {
	w := pair(owner("ns", "sv1"), nil)
	w.placement, w.outsideZone = oneZone, []string{}
	got := next(annotated("true"), w)
	want := map[string]any{"spec": map[string]any{"nodeAffinity": affinityTo("us-east-1a")}}
	if diff := cmp.Diff(want, got.do.fields); diff != "" || got.do.object != w.plain {
		t.Errorf("%+v -want +got:\n%s", got.do, diff)
	}
	w.plain.Spec.NodeAffinity = affinityTo("us-east-1a")
	if got := next(annotated("true"), w); got.do != nil || got.query != 0 || got.phase != v1alpha1.Ready {
		t.Errorf("there is no end: %+v", got)
	}
}

func TestTheStatusTellsWhetherPodsCanMount(t *testing.T) {
	sv := owner("ns", "sv1")
	confined := func(zone string) func(*seen) {
		return func(w *seen) { w.plain.Spec.NodeAffinity = affinityTo(zone) }
	}
	waitsFor := func(pods ...string) func(*seen) { return func(w *seen) { w.outsideZone = pods } }
	for name, tc := range map[string]struct {
		placement efs.Placement
		change    func(*seen)
		want      metav1.ConditionStatus
		reason    string
		// message must contain this, and the status says it if it is wrong.
		message string
	}{
		"nobody knows":         {efs.Placement{}, nil, "", "", ""},
		"regional":             {regional, nil, metav1.ConditionTrue, "Regional", "file system fs-1234cdef is regional"},
		"confined":             {oneZone, confined("us-east-1a"), metav1.ConditionTrue, "OneZone", "is One Zone in us-east-1a: Kubernetes schedules the pods of this volume in that zone"},
		"not confined":         {oneZone, nil, metav1.ConditionTrue, "OneZone", "may fail to mount it"},
		"confined otherwise":   {oneZone, confined("us-east-1b"), metav1.ConditionTrue, "OneZone", "PersistentVolume pv-ns-sv1 has another node affinity"},
		"to be confined":       {oneZone, waitsFor("web on node b in us-east-1b"), metav1.ConditionTrue, "OneZone", "other zones end: web on node b in us-east-1b"},
		"no node in the zone":  {noNode, confined("us-east-1a"), metav1.ConditionFalse, "NoNodeInZone", "no node is in us-east-1a"},
		"no file system":       {notFound, nil, metav1.ConditionFalse, "FileSystemNotFound", "fs-1234cdef does not exist"},
		"no file system, Lost": {notFound, func(w *seen) { w.plain.Spec.CSI.Driver = "x" }, metav1.ConditionFalse, "FileSystemNotFound", "fs-1234cdef does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := pair(sv, tc.change)
			w.placement = tc.placement
			before := owner("ns", "sv1")
			meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionMountable, Status: metav1.ConditionUnknown})
			p := next(annotated("true"), w)
			if len(w.outsideZone) == 0 {
				p = next(sv, w)
			}
			got := statusOf(before, w, p)
			condition := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMountable)
			switch {
			case tc.want == "" && condition != nil:
				t.Errorf("%+v, want no condition", condition)
			case tc.want == "":
			case condition == nil || condition.Status != tc.want || condition.Reason != tc.reason || !strings.Contains(condition.Message, tc.message):
				t.Errorf("%+v, want %s %s with %q", condition, tc.want, tc.reason, tc.message)
			}
			if p.phase == v1alpha1.Ready && (got.Message != "") != (tc.want == metav1.ConditionFalse) {
				t.Errorf("message %q", got.Message)
			}
			if wanted := next(sv, pair(sv, tc.change)).phase; got.Phase != wanted {
				t.Errorf("phase %s, without AWS it is %s", got.Phase, wanted)
			}
		})
	}
}

func TestWhatNobodyHasAskedStaysAsItWasReported(t *testing.T) {
	before := owner("ns", "sv1")
	meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionMountable, Status: metav1.ConditionTrue, Reason: "Regional"})
	w := asking(pair(before, func(w *seen) { w.pvc, w.plain.Spec.ClaimRef.UID = nil, "" }))
	p := refused(next(before, w), errors.New("no"))
	if got := statusOf(before, w, p); !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionMountable) || got.Phase != v1alpha1.Failed {
		t.Errorf("%+v", got)
	}
	// But who may not use a share learns nothing about it, nor has anybody asked.
	w = seen{limits: notYours(), live: true, askable: true}
	if got := statusOf(before, w, next(before, w)); meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMountable) != nil {
		t.Errorf("%+v", got)
	}
}

// A new SharedVolume costs a PVC, a volume, a word and a status, whatever AWS says.
func TestWhatAWSSaysCostsANewSharedVolumeNoWrite(t *testing.T) {
	for name, placement := range map[string]efs.Placement{"unknown": {}, "regional": regional, "One Zone": oneZone, "missing": notFound} {
		t.Run(name, func(t *testing.T) {
			sv := owner("ns", "sv1")
			w := seen{askable: true, now: time.Unix(1000, 0)}
			var steps []string
			for range mostSteps {
				p := next(sv, w)
				steps = append(steps, step(p))
				switch {
				case p.query == queryShare:
					w.placement, w.askable = placement, false
				case p.do != nil:
					p.do.object.SetCreationTimestamp(metav1.NewTime(w.now))
					p.do.object.SetUID("made")
					w.put(sv, p.do.object)
				default:
					if p.phase != v1alpha1.Pending || p.message != "" {
						t.Errorf("a status is written for %+v", p)
					}
				}
			}
			unique := uniqueVolumeName("ns", "sv1", string(sv.UID))
			want := "ask AWS, create PVC pvc-sv1 on " + unique + ", create volume " + unique + ", nothing"
			if got := strings.Join(steps[:4], ", "); got != want {
				t.Error(got)
			}
		})
	}
}

// shares answers always the same.
type shares struct {
	efs.Placement
	asked []string
}

func (s *shares) Locate(_ context.Context, fileSystem, accessPoint string) efs.Placement {
	s.asked = append(s.asked, fileSystem+" "+accessPoint)
	return s.Placement
}

func (s *shares) Events(handler.EventHandler) source.Source { return nil }

func TestTheAnswerOfAWSIsKeptUntilThePlanIsDone(t *testing.T) {
	known := &shares{Placement: oneZone}
	sv, w := owner("ns", "sv1"), seen{askable: true}
	if err := (&Reconciler{Shares: known}).runQuery(t.Context(), sv, &w, plan{query: queryShare}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"fs-1234cdef fsap-0123456789abcdef"}, known.asked); diff != "" || w.askable || w.placement != oneZone {
		t.Errorf("%+v %s", w, diff)
	}
}

func TestPodsOutsideOfAZone(t *testing.T) {
	zones := map[string]string{"a": "us-east-1a", "b": "us-east-1b", "unlabelled": ""}
	users := []user{
		{pod: "web-2", node: "b"}, {pod: "here", node: "a"}, {pod: "done", node: "b", finished: true},
		{pod: "web-1", node: "unlabelled"}, {pod: "web-3", node: "deleted"},
	}
	want := []string{"web-1 on node unlabelled in an unknown zone", "web-2 on node b in us-east-1b", "web-3 on node deleted in an unknown zone"}
	if diff := cmp.Diff(want, outside(users, zones, "us-east-1a")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := outside(users[1:3], zones, "us-east-1a"); got == nil || len(got) != 0 {
		t.Errorf("%v: nil would mean that nobody has looked", got)
	}
}

func TestOnlyPodsWithANodeThatHaveNotFinishedCount(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-sv1"},
	}}}}}
	if uses(pod, "pvc-sv1") {
		t.Error("a pod without a node uses a PVC")
	}
	pod.Spec.NodeName = "a"
	if !uses(pod, "pvc-sv1") || uses(pod, "pvc-sv2") {
		t.Error("not the PVC that the pod names")
	}
}

// The cache must show the affinity, or it would be added for ever, and nothing else may fight about it.
func TestTheAffinityOfAVolumeIsSeenAndLeftAlone(t *testing.T) {
	sv := owner("ns", "sv1")
	w := pair(sv, nil)
	w.plain.Spec.NodeAffinity = affinityTo("us-east-1a")
	w.plain = keep(t, stripVolume, w.plain)
	unfold(w.plain)
	if diff := cmp.Diff(affinityTo("us-east-1a"), w.plain.Spec.NodeAffinity); diff != "" {
		t.Errorf("the cache has (-want +got):\n%s", diff)
	}
	if got := marking(sv, w, w.plain); got != nil {
		t.Errorf("it is marked: %v", got.fields)
	}
}

func TestAFileSystemWakesItsSharedVolumes(t *testing.T) {
	first, second := owner("a", "sv1"), owner("b", "sv2")
	second.Spec.FileSystemID = "fs-99999999"
	all := []v1alpha1.SharedVolume{*first, *second}
	for fileSystem, want := range map[string]string{"": "[a/sv1 b/sv2]", "fs-1234cdef": "[a/sv1]", "fs-99999999": "[b/sv2]", "fs-1234": "[]"} {
		names := []string{}
		for _, request := range on(all, fileSystem) {
			names = append(names, request.String())
		}
		if got := "[" + strings.Join(names, " ") + "]"; got != want {
			t.Errorf("%q wakes %s, want %s", fileSystem, got, want)
		}
	}
}

func TestAnEventTellsOnceThatPodsCannotMount(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Events: recorder}
	sv := owner("ns", "sv1")
	now := func(placement efs.Placement) {
		before := sv.DeepCopy()
		w := pair(sv, nil)
		w.placement = placement
		sv.Status = statusOf(sv, w, next(sv, w))
		r.emit(before, sv)
	}
	for _, placement := range []efs.Placement{{}, notFound, notFound, oneZone, oneZone, noNode, notFound, regional, {}} {
		now(placement)
	}
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, strings.Join(strings.Fields(event)[:2], " "))
	}
	want := []string{
		"Warning FileSystemNotFound", "Normal Mountable", "Warning NoNodeInZone", "Warning FileSystemNotFound", "Normal Mountable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
