package sharedvolume

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// dice makes choices from bytes; without any left it takes the first.
type dice struct{ left []byte }

func (d *dice) roll(sides int) int {
	if len(d.left) == 0 {
		return 0
	}
	first := d.left[0]
	d.left = d.left[1:]
	return int(first) % sides
}

func (d *dice) yes() bool { return d.roll(2) == 1 }

func pick[T any](d *dice, from ...T) T { return from[d.roll(len(from))] }

func at(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0)) }

// anyOwner is a SharedVolume as anybody may have written it.
func anyOwner(d *dice) *v1alpha1.SharedVolume {
	sv := owner("ns", "sv1")
	sv.UID, sv.CreationTimestamp = "own", at(100)
	sv.Spec.FileSystemID = pick(d, "fs-aa", "fs-bb", "fs-bad:id")
	sv.Spec.AccessPointID = pick(d, "fsap-aa", "fsap-bb")
	sv.Finalizers = pick(d, nil, []string{CommunityFinalizer}, []string{"example.com/x"}, []string{CommunityFinalizer, "example.com/x"})
	sv.Status.ClaimRef.Name = pick(d, "", "pvc-sv1")
	if d.roll(4) == 1 {
		deleted := at(500)
		sv.DeletionTimestamp = &deleted
	}
	if d.roll(4) == 1 {
		sv.Annotations = map[string]string{ZoneAffinityAnnotation: "true"}
	}
	return sv
}

// anyVolume is what an administrator, the community's operator, this one, or damage may have left under a name.
func anyVolume(d *dice, sv *v1alpha1.SharedVolume, name string) *corev1.PersistentVolume {
	if d.roll(3) == 1 {
		return nil
	}
	volume := newVolume(sv, name, "pvc")
	volume.UID, volume.CreationTimestamp = types.UID("volume-"+name), pick(d, at(100), at(50), at(150))
	switch d.roll(3) {
	case 1:
		volume.Labels = nil
	case 2:
		volume.Labels[ownerNamespaceLabel] = "other"
	}
	switch d.roll(4) {
	case 1:
		volume.Annotations[ownerUIDAnnotation] = "previous"
	case 2:
		volume.Annotations = nil
	case 3:
		delete(volume.Annotations, ownerNameAnnotation)
	}
	volume.Spec.CSI.VolumeHandle = pick(d, "fs-aa::fsap-aa", "fs-bb::fsap-bb", "fs-aa:/p:fsap-aa", "efs:fs-aa::fsap-aa", "fs-bb")
	volume.Spec.MountOptions = pick(d, nil, []string{"tls", "accesspoint=fsap-bb"})
	volume.Spec.CSI.Driver = pick(d, efs.DriverName, efs.DriverName, efs.DriverName, "ebs.csi.aws.com")
	switch d.roll(5) {
	case 1:
		volume.Spec.ClaimRef = nil
	case 2:
		volume.Spec.ClaimRef.UID = ""
	case 3:
		volume.Spec.ClaimRef.UID = "previous-pvc"
	case 4:
		volume.Spec.ClaimRef.Namespace = "victim"
	}
	volume.Spec.PersistentVolumeReclaimPolicy = pick(d, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete)
	volume.Status.Phase = pick(d, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed, corev1.VolumePending, "")
	if d.roll(4) == 1 {
		deleted := at(500)
		volume.DeletionTimestamp = &deleted
	}
	if d.roll(4) == 1 {
		volume.Spec.NodeAffinity = affinityTo("us-east-1b")
	}
	return volume
}

// anyPVC is what anybody who may write in the namespace may have left under the PVC's name.
func anyPVC(d *dice, sv *v1alpha1.SharedVolume, names ...string) *corev1.PersistentVolumeClaim {
	if d.roll(3) == 1 {
		return nil
	}
	pvc := newPVC(sv, pick(d, append(names, "", "pv-of-somebody-else")...))
	pvc.UID, pvc.CreationTimestamp = "pvc", at(200)
	switch d.roll(4) {
	case 1:
		pvc.OwnerReferences = nil
	case 2:
		pvc.OwnerReferences[0].UID = "previous"
	case 3:
		pvc.OwnerReferences[0].Kind = "Deployment"
	}
	if d.yes() {
		pvc.Labels = pick(d, nil, map[string]string{ownedLabel: "true"})
	}
	// Kubernetes binds no PVC that names no volume.
	if pvc.Status.Phase = pick(d, corev1.ClaimBound, corev1.ClaimPending, corev1.ClaimLost); pvc.Spec.VolumeName == "" {
		pvc.Status.Phase = corev1.ClaimPending
	}
	if d.roll(4) == 1 {
		deleted := at(500)
		pvc.DeletionTimestamp = &deleted
	}
	return pvc
}

// anySeen is any state of a cluster.
func anySeen(d *dice, sv *v1alpha1.SharedVolume) seen {
	plain, unique := plainVolumeName(sv.Namespace, sv.Name), uniqueVolumeName(sv.Namespace, sv.Name, string(sv.UID))
	return seen{
		plain: anyVolume(d, sv, plain), unique: anyVolume(d, sv, unique), pvc: anyPVC(d, sv, plain, unique),
		live: !d.yes(), noDriver: d.yes(), askable: d.roll(4) == 1,
		limits: pick(d, limits{}, limits{Namespace: "ns", Listed: true, List: "fs-aa"}, limits{Namespace: "ns", Listed: true, List: "fs-bb/fsap-bb"},
			limits{Namespace: "ns", Closed: true}),
		users: pick(d, nil, []string{}, []string{"app"}), outsideZone: pick(d, nil, []string{}, []string{"app"}),
		placement: pick(d, efs.Placement{}, efs.Placement{Known: true, Zone: "us-east-1a"}, efs.Placement{Known: true, Reason: efs.ReasonFileSystemNotFound, Message: "m"}),
		now:       time.Unix(pick(d, int64(101), int64(1000), int64(100000)), 0),
	}
}

// isMine reports whether a volume may be given to a SharedVolume: it says so, or it says nothing, and is for the same share or older than
// any tenant can make believe.
func isMine(volume *corev1.PersistentVolume, sv *v1alpha1.SharedVolume) bool {
	uid, marked := volume.Annotations[ownerUIDAnnotation]
	ref := volume.Spec.ClaimRef
	if ref != nil && (ref.Namespace != sv.Namespace || ref.Name != pvcName(sv.Name)) {
		return false
	}
	is, known := efs.ShareOf(volume)
	return marked && uid == string(sv.UID) || !marked && volume.Labels[ownerNamespaceLabel] == sv.Namespace &&
		(known && is == shareIn(sv) || !sv.CreationTimestamp.After(volume.CreationTimestamp.Time))
}

// checkNext holds a plan to what it must never do. It returns what is wrong; empty if nothing is.
func checkNext(sv *v1alpha1.SharedVolume, w seen) string {
	p := next(sv, w)
	switch {
	case p.do != nil && p.query != 0:
		return "it writes before it has looked"
	case p.query == 0 && p.phase == v1alpha1.Failed && (p.reason == "" || p.message == ""):
		return "it fails without a reason or a message"
	case p.phase == v1alpha1.Ready && p.query == 0 && p.do == nil:
		return checkReady(sv, w, p)
	case p.do == nil:
		return ""
	}
	deleting := sv.DeletionTimestamp != nil
	if deleting && !slices.Contains([]what{markVolume, adoptPVC, dropFinalizer}, p.do.what) {
		return "it makes something for a SharedVolume that is being deleted"
	}
	switch object := p.do.object.(type) {
	case *corev1.PersistentVolume:
		return checkVolumeWrite(sv, w, p.do, object)
	case *corev1.PersistentVolumeClaim:
		return checkPVCWrite(sv, w, p.do, object)
	case *v1alpha1.SharedVolume:
		return checkOwnWrite(sv, w, p.do)
	}
	return "it writes an object of an unknown kind"
}

func checkReady(sv *v1alpha1.SharedVolume, w seen, p plan) string {
	volume := volumeOf(sv, w)
	switch {
	case volume == nil || w.pvc == nil:
		return "it is Ready without a volume or a PVC"
	case !isMine(volume, sv):
		return "it is Ready with a volume that was made for another"
	case w.pvc.Status.Phase != corev1.ClaimBound || w.pvc.Spec.VolumeName != volume.Name:
		return "it is Ready with a PVC that is not bound to the volume"
	case volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != "" && volume.Spec.ClaimRef.UID != w.pvc.UID:
		return "it is Ready with a volume that is for another PVC"
	case p.volume != volume.Name:
		return "it names another volume"
	}
	return ""
}

func checkVolumeWrite(sv *v1alpha1.SharedVolume, w seen, do *change, volume *corev1.PersistentVolume) string {
	if do.what == createVolume {
		return checkNewVolume(sv, w, volume)
	}
	is, _ := efs.ShareOf(volume)
	ref := volume.Spec.ClaimRef
	switch {
	case !isMine(volume, sv):
		return "it changes a volume that was made for another"
	case do.what != deleteVolume:
		return checkReference(sv, w, do, volume)
	case !w.live:
		return "it deletes by what the cache has"
	case ref != nil && ref.UID != "" || wasBound(w.pvc):
		return "it deletes a volume that a PVC has or had"
	case volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return "it deletes a volume with its data"
	case w.limits.Denied(is) == "":
		return "it deletes a volume that the namespace may use"
	}
	return ""
}

// checkReference holds a change of a volume to what it may do to the PVC that this names: a UID stays or becomes that of a PVC of the SharedVolume, or
// one that no PVC has. It never goes.
func checkReference(sv *v1alpha1.SharedVolume, w seen, do *change, volume *corev1.PersistentVolume) string {
	spec, _ := do.fields["spec"].(map[string]any)
	value, changed := spec["claimRef"]
	if !changed {
		if isOpen(volume) && do.what == markVolume && sv.DeletionTimestamp == nil {
			return "it leaves a volume open that it changes"
		}
		return ""
	}
	var uid types.UID
	switch ref := value.(type) {
	case *corev1.ObjectReference:
		uid = ref.UID
	case map[string]any:
		uid, _ = ref["uid"].(types.UID)
	}
	switch {
	case uid == "":
		return "it opens a volume to any PVC of that name"
	case !w.live:
		return "it gives a volume to a PVC by what the cache has"
	case uid == sv.UID && isOpen(volume):
		return ""
	case w.pvc == nil || uid != w.pvc.UID || !isPVCOf(w.pvc, sv):
		return "it gives a volume to a PVC that is not of the SharedVolume"
	}
	return ""
}

func checkNewVolume(sv *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) string {
	is, known := efs.ShareOf(volume)
	for _, taken := range []*corev1.PersistentVolume{w.plain, w.unique} {
		if taken != nil && taken.Name == volume.Name {
			return "it makes a volume that is there"
		}
	}
	switch {
	case !known || is != shareIn(sv):
		return "it makes a volume for another share"
	case w.limits.Denied(is) != "":
		return "it makes a volume that the namespace may not use"
	case w.pvc == nil:
		return "it makes a volume before its PVC"
	case volume.Spec.ClaimRef.UID != w.pvc.UID:
		return "it makes a volume that any PVC of that name could bind"
	case w.pvc.Spec.VolumeName != "" && w.pvc.Spec.VolumeName != volume.Name:
		return "it makes a volume for a PVC that is for another one"
	case len(ownersOf(w.pvc)) > 0 && !isOwned(w.pvc, sv.UID):
		return "it makes a volume for the PVC of another SharedVolume"
	}
	return ""
}

func checkPVCWrite(sv *v1alpha1.SharedVolume, w seen, do *change, pvc *corev1.PersistentVolumeClaim) string {
	switch do.what {
	case createPVC:
		volume := volumeOf(sv, w)
		switch {
		case w.pvc != nil || pvc.Spec.VolumeName == "" || volume != nil && (pvc.Spec.VolumeName != volume.Name || !isMine(volume, sv)):
			return "it makes a PVC on a volume that is not its own"
		case w.limits.Denied(shareIn(sv)) != "":
			return "it makes a PVC that the namespace may not have"
		case volume != nil && isOpen(volume):
			return "it makes a PVC while any PVC of that name can have the volume"
		}
	case deletePVC:
		if w.users == nil || len(w.users) > 0 {
			return "it deletes a PVC that pods may use"
		}
	}
	if pvc.Namespace != sv.Namespace || len(ownersOf(pvc)) > 0 && !isOwned(pvc, sv.UID) {
		return "it writes the PVC of another SharedVolume"
	}
	return ""
}

func checkOwnWrite(sv *v1alpha1.SharedVolume, w seen, do *change) string {
	if do.what == dropFinalizer {
		return ""
	}
	volume := volumeOf(sv, w)
	if do.what != restoreIDs || volume == nil || !isMine(volume, sv) {
		return "it writes IDs that are not those of its volume"
	}
	is, _ := efs.ShareOf(volume)
	if w.limits.Denied(is) != "" && !areBound(volume, w.pvc) {
		return "it tells a namespace the IDs of a share that it may not use"
	}
	return ""
}

// describe prints what a failure was about.
func describe(t *testing.T, problem string, sv *v1alpha1.SharedVolume, w seen) {
	t.Helper()
	p := next(sv, w)
	t.Errorf("%s: %s, %s %s %q\nowner %+v\nusual %+v\nother %+v\nclaim %+v\nlimits %+v live %v users %v", problem, step(p), p.phase, p.reason, p.message,
		sv, w.plain, w.unique, w.pvc, w.limits, w.live, w.users)
}

// Whatever the cluster holds, no SharedVolume gets a volume that was made for another UID, and nothing is lost.
func FuzzNext(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x01", "\x01\x01\x01\x01\x00\x00\x01\x00\x02\x01", strings.Repeat("\x01", 60), strings.Repeat("\x02\x01", 30)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		sv := anyOwner(d)
		w := anySeen(d, sv)
		if problem := checkNext(sv, w); problem != "" {
			describe(t, problem, sv, w)
		}
	})
}

// The share of FuzzNext that every test run does: always the same.
func TestPlansKeepTheirPromises(t *testing.T) {
	const rounds = 40000
	random := rand.New(rand.NewPCG(1, 2))
	data, steps := make([]byte, 64), map[string]int{}
	for range rounds {
		for i := range data {
			// The first choice is mostly that of a healthy cluster: one or two things are wrong at a time, sometimes all.
			if data[i] = 0; random.IntN(4) == 0 {
				data[i] = byte(random.Uint32())
			}
		}
		d := &dice{data}
		sv := anyOwner(d)
		w := anySeen(d, sv)
		if problem := checkNext(sv, w); problem != "" {
			describe(t, problem, sv, w)
			return
		}
		if p := next(sv, w); p.do != nil {
			steps[string(p.do.what)]++
		}
	}
	for _, one := range []what{createVolume, createPVC, nudgePVC, deletePVC, deleteVolume, rejoinVolume, markVolume, adoptPVC, restoreIDs, dropFinalizer, addAffinity} {
		if steps[string(one)] == 0 {
			t.Errorf("no plan was to %s: nothing is shown about it", one)
		}
	}
}

// A list allows what it names, whatever else is in it.
func FuzzIsListed(f *testing.F) {
	for _, list := range []string{"", "*", "fs-aa", " fs-aa/fsap-bb ,", "fs-aa/*", ",,", "fs-a", "fs-aa\u00a0", "fs-aa/fsap-bb/x"} {
		f.Add(list, "fs-cc")
	}
	wanted := efs.Share{FileSystem: "fs-aa", AccessPoint: "fsap-bb"}
	f.Fuzz(func(t *testing.T, list, more string) {
		got := wanted.ListedIn(list)
		if got && !wanted.ListedIn(list+","+more) {
			t.Errorf("%q allows it, and %q does not", list, list+","+more)
		}
		if got && !strings.Contains(list, "*") && !strings.Contains(list, "fs-aa") {
			t.Errorf("%q allows what it does not name", list)
		}
		if !wanted.ListedIn(list + ",fs-aa/fsap-bb") {
			t.Errorf("%q does not allow what it names", list)
		}
	})
}
