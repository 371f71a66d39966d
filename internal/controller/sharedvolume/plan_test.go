package sharedvolume

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// pair is what the cluster has when all is well; change damages it.
func pair(sv *v1alpha1.SharedVolume, change func(*seen)) seen {
	w := seen{plain: newVolume(sv, plainVolumeName(sv.Namespace, sv.Name), "uid-of-pvc"), now: time.Unix(1000, 0), live: true}
	w.plain.UID = "uid-of-volume"
	w.pvc = newPVC(sv, w.plain.Name)
	w.pvc.UID = "uid-of-pvc"
	w.pvc.CreationTimestamp = metav1.NewTime(w.now)
	w.plain.Spec.ClaimRef.UID = w.pvc.UID
	w.pvc.Status.Phase = corev1.ClaimBound
	if change != nil {
		change(&w)
	}
	return w
}

// notYours is a list with nothing in it.
func notYours() limits { return limits{Namespace: "ns", Listed: true} }

// step names what a plan does.
func step(p plan) string {
	switch {
	case p.query == queryLive:
		return "look at the cluster"
	case p.query == queryUsers:
		return "look for pods"
	case p.query == queryShare:
		return "ask AWS"
	case p.query == queryPods:
		return "look where pods are"
	case p.do == nil:
		return "nothing"
	default:
		text := string(p.do.what) + " " + p.do.object.GetName()
		if pvc, ok := p.do.object.(*corev1.PersistentVolumeClaim); ok && p.do.what == createPVC {
			text += " on " + pvc.Spec.VolumeName
		}
		return text
	}
}

func TestTheNextStep(t *testing.T) {
	sv := owner("ns", "sv1")
	other := uniqueVolumeName("ns", "sv1", string(sv.UID))
	now := metav1.NewTime(time.Unix(0, 0))
	forged := owner("ns", "sv1")
	forged.CreationTimestamp, forged.Finalizers = metav1.NewTime(time.Unix(5000, 0)), []string{CommunityFinalizer}
	foreign := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-ns-sv1"}}
	cases := map[string]struct {
		world seen
		step  string
		phase v1alpha1.Phase
		// message must contain this.
		message string
	}{
		"nothing is there":      {seen{live: true}, "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"the cache has nothing": {seen{}, "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"the PVC is there":      {pair(sv, func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimPending }), "create volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the PVC is there, and nothing may be used": {pair(sv, func(w *seen) {
			w.plain, w.pvc.Status.Phase, w.limits = nil, corev1.ClaimPending, notYours()
		}), "nothing", v1alpha1.Failed, "may not use access point"},
		"the cache has nothing, and nothing may be used": {seen{limits: notYours()}, "look at the cluster", v1alpha1.Failed, ""},
		"nothing may be used":                            {seen{limits: notYours(), live: true}, "nothing", v1alpha1.Failed, "may not use access point"},
		"the volume is open to any PVC of that name": {pair(sv, func(w *seen) {
			w.pvc, w.plain.Spec.ClaimRef.UID, w.plain.Status.Phase = nil, "", corev1.VolumeAvailable
		}), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the volume is open, as the cache has it": {pair(sv, func(w *seen) {
			w.pvc, w.plain.Spec.ClaimRef.UID, w.live = nil, "", false
		}), "look at the cluster", v1alpha1.Pending, ""},
		"the volume names no PVC, as the cache has it": {pair(sv, func(w *seen) {
			w.plain.Spec.ClaimRef, w.live = nil, false
		}), "look at the cluster", v1alpha1.Pending, ""},
		"Kubernetes saw the PVC before the volume": {pair(sv, func(w *seen) {
			w.pvc.Status.Phase, w.plain.Status.Phase = corev1.ClaimPending, corev1.VolumeBound
		}), "annotate PVC pvc-sv1", v1alpha1.Pending, ""},
		"Kubernetes was told": {pair(sv, func(w *seen) {
			w.pvc.Status.Phase, w.plain.Status.Phase = corev1.ClaimPending, corev1.VolumeBound
			w.pvc.Annotations = map[string]string{volumeUIDAnnotation: string(w.plain.UID)}
		}), "nothing", v1alpha1.Pending, ""},
		"both are there, not bound": {pair(sv, func(w *seen) { w.pvc.Status.Phase = corev1.ClaimPending }), "nothing", v1alpha1.Pending, ""},
		"not bound for long": {pair(sv, func(w *seen) {
			w.pvc.Status.Phase, w.now = corev1.ClaimPending, w.now.Add(patience)
		}), "nothing", v1alpha1.Pending, "waiting for Kubernetes to bind"},
		"not bound, just made, and the API server's clock is behind": {pair(sv, func(w *seen) {
			w.pvc.Status.Phase, w.now = corev1.ClaimPending, w.now.Add(patience)
			w.pvcMade = w.now
		}), "nothing", v1alpha1.Pending, ""},
		"not bound for long, and the API server's clock is ahead": {pair(sv, func(w *seen) {
			w.pvc.Status.Phase, w.pvcMade = corev1.ClaimPending, w.now.Add(-patience)
		}), "nothing", v1alpha1.Pending, "waiting for Kubernetes to bind"},
		"bound":                                {pair(sv, nil), "nothing", v1alpha1.Ready, ""},
		"bound, but no driver is there":        {pair(sv, func(w *seen) { w.noDriver = true }), "nothing", v1alpha1.Ready, "until the EFS driver is installed"},
		"bound, and not allowed any more":      {pair(sv, func(w *seen) { w.limits = notYours() }), "nothing", v1alpha1.Ready, ""},
		"the spec was changed":                 {pair(sv, func(w *seen) { w.plain.Spec.CSI.VolumeHandle = "fs-99999999::fsap-99999999" }), "restore IDs sv1", v1alpha1.Pending, "the operator restores them"},
		"the cache has no PVC":                 {pair(sv, func(w *seen) { w.pvc, w.live = nil, false }), "look at the cluster", v1alpha1.Pending, ""},
		"the PVC was deleted":                  {pair(sv, func(w *seen) { w.pvc = nil }), "create PVC pvc-sv1 on pv-ns-sv1", v1alpha1.Pending, ""},
		"the PVC was deleted, and not allowed": {pair(sv, func(w *seen) { w.pvc, w.limits = nil, notYours() }), "nothing", v1alpha1.Failed, "may not use access point"},
		"the PVC is being deleted":             {pair(sv, func(w *seen) { w.pvc.DeletionTimestamp = &now }), "look for pods", v1alpha1.Failed, ""},
		"the PVC is being deleted under a pod": {pair(sv, func(w *seen) {
			w.pvc.DeletionTimestamp, w.users = &now, []string{"app"}
		}), "nothing", v1alpha1.Failed, "used by app"},
		"the PVC is about to go":      {pair(sv, func(w *seen) { w.pvc.DeletionTimestamp, w.users = &now, []string{} }), "nothing", v1alpha1.Pending, "waiting for the deletion of PVC"},
		"the volume is being deleted": {pair(sv, func(w *seen) { w.plain.DeletionTimestamp = &now }), "look for pods", v1alpha1.Failed, ""},
		"the volume is being deleted under a pod": {pair(sv, func(w *seen) {
			w.plain.DeletionTimestamp, w.users = &now, []string{"app"}
		}), "nothing", v1alpha1.Failed, "pods use it: app"},
		"the volume is being deleted, nobody uses it": {pair(sv, func(w *seen) {
			w.plain.DeletionTimestamp, w.users = &now, []string{}
		}), "delete PVC pvc-sv1", v1alpha1.Pending, ""},
		"the volume is being deleted, and would not be made again": {pair(sv, func(w *seen) {
			w.plain.DeletionTimestamp, w.users, w.limits = &now, []string{}, notYours()
		}), "nothing", v1alpha1.Failed, "may not use access point"},
		"the volume names its PVC no more":    {pair(sv, func(w *seen) { w.plain.Spec.ClaimRef = nil }), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the PVC is lost for lack of its UID": {pair(sv, func(w *seen) { w.plain.Spec.ClaimRef.UID, w.pvc.Status.Phase = "", corev1.ClaimLost }), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"left by the community for another share": {pair(sv, func(w *seen) {
			w.pvc, w.plain.Annotations, w.plain.Spec.CSI.VolumeHandle = nil, nil, "fs-99999999::fsap-99999999"
		}), "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"the PVC of a previous one was kept": {pair(sv, func(w *seen) {
			w.plain.Annotations[ownerUIDAnnotation], w.pvc.OwnerReferences = "previous", nil
		}), "nothing", v1alpha1.Failed, "belongs to a deleted SharedVolume"},
		"the PVC has another owner as well": {pair(sv, func(w *seen) {
			w.pvc.OwnerReferences = append([]metav1.OwnerReference{{APIVersion: "aws-efs.managed.openshift.io/v1alpha1", Kind: "SharedVolume", UID: "x"}}, w.pvc.OwnerReferences...)
		}), "nothing", v1alpha1.Ready, ""},
		"the volume is about to go": {pair(sv, func(w *seen) { w.plain.DeletionTimestamp, w.pvc = &now, nil }), "nothing", v1alpha1.Pending, "is being deleted"},
		"the volume was deleted":    {pair(sv, func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimLost }), "create volume pv-ns-sv1", v1alpha1.Pending, ""},
		"a bound PVC wants another volume": {pair(sv, func(w *seen) {
			w.pvc.Spec.VolumeName = "pv-x"
		}), "nothing", v1alpha1.Failed, "names volume pv-x instead of pv-ns-sv1"},
		"a PVC that waits for another volume": {pair(sv, func(w *seen) {
			w.pvc.Spec.VolumeName, w.pvc.Status.Phase, w.users = "pv-x", corev1.ClaimPending, []string{}
		}), "delete PVC pvc-sv1", v1alpha1.Pending, ""},
		"a PVC under a pod that waits for another volume": {pair(sv, func(w *seen) {
			w.pvc.Spec.VolumeName, w.pvc.Status.Phase, w.users = "pv-x", corev1.ClaimPending, []string{"app"}
		}), "nothing", v1alpha1.Failed, "used by app"},
		"the volume is bound to a previous PVC": {pair(sv, func(w *seen) {
			w.plain.Spec.ClaimRef.UID = "previous"
		}), "rejoin volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the volume is no share any more":       {pair(sv, func(w *seen) { w.plain.Spec.CSI.Driver = "ebs.csi.aws.com" }), "nothing", v1alpha1.Failed, "no longer names an EFS access point"},
		"deleting the volume would lose data":   {pair(sv, func(w *seen) { w.plain.Spec.PersistentVolumeReclaimPolicy = "Delete" }), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the volume has lost its label":         {pair(sv, func(w *seen) { w.plain.Labels = nil }), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the PVC has lost its label":            {pair(sv, func(w *seen) { w.pvc.Labels = nil }), "adopt PVC pvc-sv1", v1alpha1.Pending, ""},
		"the PVC has lost its owner":            {pair(sv, func(w *seen) { w.pvc.OwnerReferences = nil }), "adopt PVC pvc-sv1", v1alpha1.Pending, ""},
		"somebody else has the volume's name":   {seen{plain: foreign, live: true}, "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"the volume has the other name":         {pair(sv, func(w *seen) { otherName(w, foreign, other) }), "nothing", v1alpha1.Ready, ""},
		"the volume of the other name was lost": {pair(sv, func(w *seen) { otherName(w, nil, other); w.unique = nil }), "create volume " + other, v1alpha1.Pending, ""},
		"somebody else has both names":          {seen{plain: foreign, unique: foreign, live: true}, "nothing", v1alpha1.Failed, "has another owner"},
		"somebody else has the PVC's name": {pair(sv, func(w *seen) {
			w.pvc.OwnerReferences, w.pvc.Labels, w.pvc.UID = nil, nil, "another"
		}), "nothing", v1alpha1.Failed, "has another owner"},
		"somebody else has the volume":             {pair(sv, func(w *seen) { w.pvc.OwnerReferences, w.pvc.Labels = nil, nil }), "nothing", v1alpha1.Failed, "is bound to"},
		"the PVC is of a previous SharedVolume":    {pair(sv, func(w *seen) { w.pvc.OwnerReferences[0].UID = "previous" }), "nothing", v1alpha1.Pending, "deleted SharedVolume"},
		"the volume is of a previous SharedVolume": {pair(sv, func(w *seen) { w.pvc, w.plain.Annotations[ownerUIDAnnotation] = nil, "previous" }), "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"a forged volume for another PVC":          {pair(sv, func(w *seen) { w.pvc, w.plain.Spec.ClaimRef.Namespace = nil, "victim" }), "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		// A tenant of a namespace that was made again wants the share of the tenant before.
		"a forged finalizer and a volume of the community that is older": {pair(forged, func(w *seen) {
			w.pvc, w.plain.Annotations, w.plain.Status.Phase = nil, nil, corev1.VolumeReleased
			w.plain.CreationTimestamp, w.plain.Spec.CSI.VolumeHandle = metav1.NewTime(forged.CreationTimestamp.Add(-time.Second)), "fs-99999999::fsap-99999999"
		}), "create PVC pvc-sv1 on " + other, v1alpha1.Pending, ""},
		"the IDs were changed, and those of the volume may not be used": {pair(sv, func(w *seen) {
			w.pvc, w.limits, w.plain.Spec.CSI.VolumeHandle = nil, limits{Listed: true, List: "fs-1234cdef"}, "fs-99999999::fsap-99999999"
		}), "nothing", v1alpha1.Failed, "may not use the IDs"},
		"the IDs of a bound volume were changed, and may not be used any more": {pair(sv, func(w *seen) {
			w.limits, w.plain.Spec.CSI.VolumeHandle = limits{Listed: true, List: "fs-1234cdef"}, "fs-99999999::fsap-99999999"
		}), "restore IDs sv1", v1alpha1.Pending, ""},
		"not allowed, and never bound": {pair(sv, func(w *seen) {
			w.pvc, w.limits, w.plain.Spec.ClaimRef.UID, w.plain.Status.Phase = nil, notYours(), "", corev1.VolumeAvailable
		}), "delete volume pv-ns-sv1", v1alpha1.Pending, ""},
		"not allowed, and never bound, as the cache has it": {pair(sv, func(w *seen) {
			w.pvc, w.limits, w.plain.Spec.ClaimRef.UID, w.plain.Status.Phase, w.live = nil, notYours(), "", corev1.VolumeAvailable, false
		}), "look at the cluster", v1alpha1.Pending, ""},
		"not allowed, and somebody removed the PVC's UID": {pair(sv, func(w *seen) {
			w.limits, w.plain.Spec.ClaimRef.UID, w.plain.Status.Phase = notYours(), "", corev1.VolumeAvailable
		}), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
		"a volume that is not made again": {pair(sv, func(w *seen) {
			w.pvc, w.limits, w.plain.DeletionTimestamp = nil, notYours(), &now
		}), "nothing", v1alpha1.Failed, "may not use access point"},
		"the PVC is for a volume of somebody else": {pair(sv, func(w *seen) {
			w.plain, w.pvc.Status.Phase = foreign, corev1.ClaimBound
		}), "nothing", v1alpha1.Failed, "names PersistentVolume pv-ns-sv1"},
		"the cache has a PVC that is being deleted": {pair(sv, func(w *seen) { w.pvc.DeletionTimestamp, w.live = &now, false }), "look at the cluster", v1alpha1.Failed, ""},
		"made by the community's operator": {pair(sv, func(w *seen) {
			w.plain.Annotations, w.pvc.OwnerReferences = nil, nil
			w.plain.Spec.CSI.VolumeHandle, w.plain.Spec.MountOptions = "fs-1234cdef", []string{"accesspoint=fsap-0123456789abcdef"}
		}), "mark volume pv-ns-sv1", v1alpha1.Pending, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			who := sv
			if strings.HasPrefix(name, "a forged finalizer") {
				who = forged
			}
			got := next(who, tc.world)
			if step(got) != tc.step || got.phase != tc.phase || !strings.Contains(got.message, tc.message) {
				t.Errorf("%s, %s %q; want %s, %s with %q", step(got), got.phase, got.message, tc.step, tc.phase, tc.message)
			}
			if got.phase == v1alpha1.Failed && got.query == 0 && (got.message == "" || got.reason == "") {
				t.Errorf("a failure without reason or message: %+v", got)
			}
		})
	}
}

// otherName is a world in which the SharedVolume has the volume of its other name.
func otherName(w *seen, usual *corev1.PersistentVolume, other string) {
	w.unique, w.plain = w.plain, usual
	w.unique.Name, w.pvc.Spec.VolumeName = other, other
}

// Any PVC of its name could have it, whatever else is wrong.
func TestAnOpenVolumeIsClosedBeforeAllElse(t *testing.T) {
	now := metav1.NewTime(time.Unix(0, 0))
	leaving := owner("ns", "sv1")
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{"example.com/other"}
	open := func(change func(*seen)) func(*seen) {
		return func(w *seen) {
			if w.plain.Spec.ClaimRef.UID = ""; change != nil {
				change(w)
			}
		}
	}
	for name, tc := range map[string]struct {
		owner  *v1alpha1.SharedVolume
		change func(*seen)
		want   types.UID
	}{
		"its PVC is there":                 {owner("ns", "sv1"), open(nil), "uid-of-pvc"},
		"its PVC has gone":                 {owner("ns", "sv1"), open(func(w *seen) { w.pvc = nil }), "uid-of-sv"},
		"the PVC is a stranger's":          {owner("ns", "sv1"), open(func(w *seen) { w.pvc.OwnerReferences, w.pvc.Labels = nil, nil }), "uid-of-sv"},
		"the PVC is for another volume":    {owner("ns", "sv1"), open(func(w *seen) { w.pvc.Spec.VolumeName = "pv-x" }), "uid-of-sv"},
		"the policy of its data is Delete": {owner("ns", "sv1"), open(func(w *seen) { w.plain.Spec.PersistentVolumeReclaimPolicy = "Delete" }), "uid-of-pvc"},
		"it names no PVC":                  {owner("ns", "sv1"), func(w *seen) { w.plain.Spec.ClaimRef = nil }, "uid-of-pvc"},
		"it is no share any more":          {owner("ns", "sv1"), open(func(w *seen) { w.plain.Spec.CSI.Driver = "ebs.csi.aws.com" }), "uid-of-pvc"},
		"the IDs were changed":             {owner("ns", "sv1"), open(func(w *seen) { w.plain.Spec.CSI.VolumeHandle = "fs-99999999::fsap-99999999" }), "uid-of-pvc"},
		"not allowed, and about to be bound": {owner("ns", "sv1"), func(w *seen) {
			w.plain.Spec.ClaimRef, w.limits, w.pvc.Status.Phase, w.plain.Status.Phase = nil, notYours(), corev1.ClaimPending, corev1.VolumeFailed
		}, "uid-of-sv"},
		"the SharedVolume is being deleted": {leaving, open(nil), "uid-of-pvc"},
	} {
		got := next(tc.owner, pair(tc.owner, tc.change))
		if got.do == nil || got.do.what != markVolume {
			t.Errorf("%s: %s", name, step(got))
			continue
		}
		spec, _ := got.do.fields["spec"].(map[string]any)
		ref, _ := spec["claimRef"].(*corev1.ObjectReference)
		if ref == nil || ref.UID != tc.want {
			t.Errorf("%s: the volume is for %+v, want %s", name, ref, tc.want)
		}
		if name == "the policy of its data is Delete" && spec["persistentVolumeReclaimPolicy"] != corev1.PersistentVolumeReclaimRetain {
			t.Error("it is changed without its policy, which the policies of config/limits refuse")
		}
	}
}

func TestALostVolumeIsMadeAgainForThePVCThatIsThere(t *testing.T) {
	sv := owner("ns", "sv1")
	got := next(sv, pair(sv, func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimLost }))
	volume, ok := got.do.object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef.UID != "uid-of-pvc" {
		t.Errorf("the volume does not name the PVC by UID, so that it would stay lost: %+v", got.do.object)
	}
}

// A SharedVolume of the community's operator that is being deleted goes only when nothing of it would stay behind.
func TestTheEndOfACommunitysSharedVolume(t *testing.T) {
	sv := owner("ns", "sv1")
	now := metav1.NewTime(time.Unix(0, 0))
	sv.DeletionTimestamp, sv.Finalizers = &now, []string{"example.com/other", CommunityFinalizer}
	w := pair(sv, func(w *seen) { w.plain.Annotations, w.pvc.OwnerReferences = nil, nil })
	var steps []string
	for range 3 {
		p := next(sv, w)
		steps = append(steps, step(p))
		switch p.do.what {
		case markVolume:
			w.plain.Annotations = newVolume(sv, "", "uid-of-pvc").Annotations
		case adoptPVC:
			w.pvc.OwnerReferences = newPVC(sv, "").OwnerReferences
		default:
			sv.Finalizers = []string{"example.com/other"}
		}
	}
	if got := strings.Join(steps, ", "); got != "mark volume pv-ns-sv1, adopt PVC pvc-sv1, drop finalizer sv1" {
		t.Error(got)
	}
	if p := next(sv, w); p.phase != v1alpha1.Deleting || p.do != nil || !strings.Contains(p.message, "example.com/other") {
		t.Errorf("%+v", p)
	}
}

// "a/b-c" and "a-b/c" want the same name for their volumes. Neither may ever get the other's.
func TestTwoSharedVolumesThatWantOneName(t *testing.T) {
	first, second := owner("a", "b-c"), owner("a-b", "c")
	first.UID, second.UID = "first", "second"
	second.Spec.FileSystemID = "fs-99999999"
	taken := pair(first, nil)
	got := next(second, seen{plain: taken.plain, live: true})
	if step(got) != "create PVC pvc-c on "+uniqueVolumeName("a-b", "c", "second") {
		t.Fatalf("%s %s", step(got), got.message)
	}
	made := newPVC(second, uniqueVolumeName("a-b", "c", "second"))
	made.UID = "pvc-of-second"
	if got = next(second, seen{plain: taken.plain, pvc: made, live: true}); step(got) != "create volume "+made.Spec.VolumeName {
		t.Fatalf("%s %s", step(got), got.message)
	}
	volume, ok := got.do.object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef.Namespace != "a-b" || volume.Spec.CSI.VolumeHandle != "fs-99999999::fsap-0123456789abcdef" {
		t.Errorf("the volume is %+v", got.do.object)
	}
	if again := next(first, taken); again.phase != v1alpha1.Ready {
		t.Errorf("the first one is %s: %s", again.phase, again.message)
	}
}

func TestANewSharedVolumeWaitsAMinuteForItsFileSystem(t *testing.T) {
	sv := owner("ns", "sv1")
	lost := func(w *seen) { w.plain, w.pvc.Status.Phase = nil, corev1.ClaimLost }
	for name, tc := range map[string]struct {
		age   time.Duration
		world seen
		step  string
	}{
		"new":                     {30 * time.Second, seen{live: true}, "nothing"},
		"no more":                 {time.Minute, seen{live: true}, "create PVC pvc-sv1 on " + uniqueVolumeName("ns", "sv1", string(sv.UID))},
		"made again for a PVC":    {30 * time.Second, pair(sv, lost), "create volume pv-ns-sv1"},
		"that has its volume too": {30 * time.Second, pair(sv, nil), "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.world.placement, tc.world.now = notFound, sv.CreationTimestamp.Add(tc.age)
			got := next(sv, tc.world)
			if step(got) != tc.step {
				t.Errorf("the step is %q, want %q", step(got), tc.step)
			}
			if waits := got.reason == "WaitingForFileSystem"; waits != (name == "new") || waits && (!got.paced || got.retry != 30*time.Second) {
				t.Errorf("%+v", got)
			}
		})
	}
}
