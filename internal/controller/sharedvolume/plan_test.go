package sharedvolume

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// pair is what the cluster has when all is well; change damages it.
func pair(sv *v1alpha1.SharedVolume, change func(*world)) world {
	w := world{usual: newVolume(sv, volumeName(sv.Namespace, sv.Name))}
	w.claim = newClaim(sv, w.usual.Name)
	w.claim.UID = "uid-of-claim"
	w.usual.Spec.ClaimRef.UID = w.claim.UID
	w.claim.Status.Phase = corev1.ClaimBound
	if change != nil {
		change(&w)
	}
	return w
}

// step names what a plan does.
func step(p plan) string {
	switch {
	case p.restore != nil:
		return "restore " + p.restore.handle()
	case p.createVolume != nil:
		return "create volume " + p.createVolume.Name
	case p.createClaim != nil:
		return "create claim " + p.createClaim.Name + " for " + p.createClaim.Spec.VolumeName
	case p.rejoin != nil:
		return "rejoin " + p.rejoin.Name
	default:
		return "nothing"
	}
}

func TestTheNextStep(t *testing.T) {
	sv := owner("ns", "sv1")
	other := otherVolumeName("ns", "sv1", string(sv.UID))
	now := metav1.NewTime(time.Unix(0, 0))
	foreign := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-ns-sv1"}}
	cases := map[string]struct {
		world world
		step  string
		phase v1alpha1.Phase
		// message must contain this.
		message string
	}{
		"nothing is there":                      {world{}, "create volume pv-ns-sv1", v1alpha1.Pending, ""},
		"the volume is there":                   {pair(sv, func(w *world) { w.claim, w.usual.Spec.ClaimRef.UID = nil, "" }), "create claim pvc-sv1 for pv-ns-sv1", v1alpha1.Pending, ""},
		"both are there, not bound":             {pair(sv, func(w *world) { w.claim.Status.Phase = corev1.ClaimPending }), "nothing", v1alpha1.Pending, "waiting for Kubernetes to bind"},
		"bound":                                 {pair(sv, nil), "nothing", v1alpha1.Ready, ""},
		"the spec was changed":                  {pair(sv, func(w *world) { w.usual.Spec.CSI.VolumeHandle = "fs-99999999::fsap-99999999" }), "restore fs-99999999::fsap-99999999", v1alpha1.Pending, "put back"},
		"the claim was deleted":                 {pair(sv, func(w *world) { w.claim = nil }), "rejoin pv-ns-sv1", v1alpha1.Pending, ""},
		"the claim is being deleted":            {pair(sv, func(w *world) { w.claim.DeletionTimestamp = &now }), "nothing", v1alpha1.Failed, "when no pod uses it"},
		"the volume is being deleted":           {pair(sv, func(w *world) { w.usual.DeletionTimestamp = &now }), "nothing", v1alpha1.Failed, "delete the claim pvc-sv1"},
		"the claim wants another volume":        {pair(sv, func(w *world) { w.claim.Spec.VolumeName = "pv-x" }), "nothing", v1alpha1.Failed, `"pv-x"`},
		"the volume is bound to a former claim": {pair(sv, func(w *world) { w.usual.Spec.ClaimRef.UID = "former" }), "nothing", v1alpha1.Failed, "former claim"},
		"the volume is no share any more":       {pair(sv, func(w *world) { w.usual.Spec.CSI.Driver = "ebs.csi.aws.com" }), "nothing", v1alpha1.Failed, "no volume for an access point"},
		"somebody else has the volume's name":   {world{usual: foreign}, "create volume " + other, v1alpha1.Pending, ""},
		"the volume has the other name": {pair(sv, func(w *world) {
			w.other, w.usual = w.usual, foreign
			w.other.Name, w.claim.Spec.VolumeName = other, other
		}), "nothing", v1alpha1.Ready, ""},
		"somebody else has both names": {world{usual: foreign, other: foreign}, "nothing", v1alpha1.Failed, "belong to somebody else"},
		"somebody else has the claim's name": {pair(sv, func(w *world) {
			w.claim.OwnerReferences, w.claim.Labels = nil, nil
		}), "nothing", v1alpha1.Failed, "is not of this SharedVolume"},
		"the claim is of a former SharedVolume": {pair(sv, func(w *world) { w.claim.OwnerReferences[0].UID = "former" }), "nothing", v1alpha1.Pending, "former SharedVolume"},
		"the volume is of a former SharedVolume": {pair(sv, func(w *world) {
			w.usual.Annotations[ownerUIDAnnotation] = "former"
		}), "nothing", v1alpha1.Pending, "former SharedVolume"},
		"a forged volume for another claim": {pair(sv, func(w *world) { w.usual.Spec.ClaimRef.Namespace = "victim" }), "create volume " + other, v1alpha1.Pending, ""},
		"made by the community's operator": {pair(sv, func(w *world) {
			w.usual.Annotations, w.claim.OwnerReferences = nil, nil
			w.usual.Spec.CSI.VolumeHandle, w.usual.Spec.MountOptions = "fs-1234cdef", []string{"accesspoint=fsap-0123456789abcdef"}
		}), "nothing", v1alpha1.Ready, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := next(sv, tc.world)
			if step(got) != tc.step || got.phase != tc.phase || !strings.Contains(got.message, tc.message) {
				t.Errorf("%s, %s %q; want %s, %s with %q", step(got), got.phase, got.message, tc.step, tc.phase, tc.message)
			}
			if got.phase == v1alpha1.Failed && (got.message == "" || got.reason == "") {
				t.Errorf("a failure without reason or message: %+v", got)
			}
		})
	}
}

// "a/b-c" and "a-b/c" want the same name for their volumes. Neither may ever get the other's.
func TestTwoSharedVolumesThatWantOneName(t *testing.T) {
	first, second := owner("a", "b-c"), owner("a-b", "c")
	first.UID, second.UID = "first", "second"
	second.Spec.FileSystemID = "fs-99999999"
	taken := pair(first, nil)
	got := next(second, world{usual: taken.usual})
	if step(got) != "create volume "+otherVolumeName("a-b", "c", "second") {
		t.Fatalf("%s %s", step(got), got.message)
	}
	if claim := got.createVolume.Spec.ClaimRef; claim.Namespace != "a-b" || got.createVolume.Spec.CSI.VolumeHandle != "fs-99999999::fsap-0123456789abcdef" {
		t.Errorf("the volume is %s for %v", got.createVolume.Spec.CSI.VolumeHandle, claim)
	}
	if again := next(first, taken); again.phase != v1alpha1.Ready {
		t.Errorf("the first one is %s: %s", again.phase, again.message)
	}
}
