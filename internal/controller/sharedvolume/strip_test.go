package sharedvolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// large is what anybody may put into the metadata of an object.
func large(object metav1.Object) {
	labels, annotations := map[string]string{"a": "b"}, map[string]string{"note": strings.Repeat("x", 1000)}
	for key, value := range object.GetLabels() {
		labels[key] = value
	}
	for key, value := range object.GetAnnotations() {
		annotations[key] = value
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "any", FieldsV1: metav1.NewFieldsV1("{}")}})
}

func keep[T any](t *testing.T, strip func(any) (any, error), object T) T {
	t.Helper()
	kept, err := strip(object)
	if err == nil {
		// A list by watch is stripped twice.
		kept, err = strip(kept)
	}
	typed, ok := kept.(T)
	if err != nil || !ok {
		t.Fatalf("%T, error %v", kept, err)
	}
	return typed
}

// The same plan must come of what is in the cache and of what is in the cluster, in whatever state that is.
func TestWhatTheCacheDropsDecidesNothing(t *testing.T) {
	random, data := rand.New(rand.NewPCG(3, 4)), make([]byte, 64)
	tells := func(sv *v1alpha1.SharedVolume, w seen) string {
		p := next(sv, w)
		text := strings.Join([]string{step(p), string(p.phase), p.reason, p.message, p.volume}, "|")
		if p.do != nil && p.do.what != adoptPVC {
			// An adopted PVC gets labels and owners beside those that it has, which the cache holds as well.
			text += cmp.Diff(map[string]any{}, p.do.fields)
		}
		return text
	}
	for range 3000 {
		for i := range data {
			if data[i] = 0; random.IntN(4) == 0 {
				data[i] = byte(random.Uint32())
			}
		}
		d := &dice{data}
		sv := anyOwner(d)
		w := anySeen(d, sv)
		lean, leanWorld := sv.DeepCopy(), w
		large(sv)
		lean = keep(t, Strip, lean)
		for _, one := range []struct{ from, to **corev1.PersistentVolume }{{&w.plain, &leanWorld.plain}, {&w.unique, &leanWorld.unique}} {
			if *one.from != nil {
				*one.to = keep(t, stripVolume, (*one.from).DeepCopy())
				unfold(*one.to)
				(*one.from).Spec.Capacity, (*one.from).Spec.StorageClassName = corev1.ResourceList{"storage": {}}, "any"
			}
		}
		if w.pvc != nil {
			leanWorld.pvc = keep(t, stripPVC, w.pvc.DeepCopy())
			unfold(leanWorld.pvc)
			w.pvc.Spec.AccessModes, w.pvc.Annotations = []corev1.PersistentVolumeAccessMode{"ReadWriteMany"}, map[string]string{"a": "b"}
		}
		if full, kept := tells(sv, w), tells(lean, leanWorld); full != kept {
			t.Fatalf("of the cluster it is\n%s\nof the cache\n%s\nowner %+v\nusual %+v\nother %+v\nclaim %+v", full, kept, sv, w.plain, w.unique, w.pvc)
		}
	}
}

// Whoever may write an object must not decide how much memory the operator takes.
func TestWhatNobodyReadsIsNotKept(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.Annotations, sv.OwnerReferences = map[string]string{ZoneAffinityAnnotation: "true"}, []metav1.OwnerReference{{Name: "a"}}
	large(sv)
	got := keep(t, Strip, sv)
	if diff := cmp.Diff(map[string]string{ZoneAffinityAnnotation: "true"}, got.Annotations); diff != "" || got.Labels != nil || got.OwnerReferences != nil || got.ManagedFields != nil {
		t.Errorf("SharedVolume %+v (-want +got):\n%s", got.ObjectMeta, diff)
	}
	sv.Annotations[ZoneAffinityAnnotation] = strings.Repeat("x", 1000)
	if got = keep(t, Strip, sv); len(got.Annotations) > 0 {
		t.Errorf("a value that says nothing is kept: %v", got.Annotations)
	}
	volume := newVolume(owner("ns", "sv1"), "pv-ns-sv1", "uid-of-pvc")
	want := volume.DeepCopy()
	want.Spec.Capacity, want.Spec.AccessModes, want.Spec.StorageClassName, want.Spec.VolumeMode = nil, nil, "", nil
	large(volume)
	volume.Spec.CSI.VolumeAttributes, volume.Status.Message = map[string]string{"a": "b"}, "long"
	volume.Labels = want.Labels
	kept := keep(t, stripVolume, volume)
	unfold(kept)
	if diff := cmp.Diff(want, kept, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("PersistentVolume (-want +got):\n%s", diff)
	}
	pvc := newPVC(owner("ns", "sv1"), "pv-ns-sv1")
	lean := pvc.DeepCopy()
	lean.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: "pv-ns-sv1"}
	pvc.Annotations, pvc.Status.Conditions = map[string]string{"a": "b"}, []corev1.PersistentVolumeClaimCondition{{Message: "long"}}
	keptPVC := keep(t, stripPVC, pvc)
	unfold(keptPVC)
	if diff := cmp.Diff(lean, keptPVC, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("PersistentVolumeClaim (-want +got):\n%s", diff)
	}
	space := namespaceMetadata()
	space.Annotations = map[string]string{AllowedAnnotation: "*"}
	large(space)
	if got := keep(t, stripNamespace, space); got.Labels != nil || got.ManagedFields != nil || len(got.Annotations) != 1 || got.Annotations[AllowedAnnotation] != "*" {
		t.Errorf("Namespace %+v", got.ObjectMeta)
	}
	for name, strip := range map[string]func(any) (any, error){
		"SharedVolume": Strip, "volume": stripVolume, "PVC": stripPVC, "namespace": stripNamespace,
	} {
		// What a cache hands over for an object that has gone without notice.
		if got := keep(t, strip, "tombstone"); got != "tombstone" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The author of a PVC gives it as many owners as he likes. They don't hide the SharedVolume that made it, whose name may be a long one.
func TestAPVCKeepsItsOwnerAmongMany(t *testing.T) {
	for _, name := range []string{"sv1", strings.Repeat("long", 62)} {
		sv := owner("ns", name)
		pvc := newPVC(sv, "pv")
		var others []metav1.OwnerReference
		for i := range 9 {
			others = append(others, metav1.OwnerReference{
				APIVersion: v1alpha1.GroupVersion().String(), Kind: kind, Name: fmt.Sprint("other", i), UID: types.UID(fmt.Sprint(i)),
			})
		}
		pvc.OwnerReferences = slices.Concat(others, pvc.OwnerReferences)
		if kept := keep(t, stripPVC, pvc); !isPVCOf(kept, sv) || len(kept.OwnerReferences) != mostOwners {
			t.Errorf("%.9s: the owners are %+v", name, kept.OwnerReferences)
		}
	}
}

// Labels that follow from the rest of an object take no room, and are there again for whoever reads it.
func TestUsualLabelsAreOneMapForAll(t *testing.T) {
	long := strings.Repeat("x", 240)
	for name, tc := range map[string]struct {
		change func(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim)
		// volume and pvc say whether the labels take no room.
		volume, pvc bool
	}{
		"as made": {func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {}, true, true},
		"a label is cut": {func(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) {
			delete(v.Labels, ownerNameLabel)
			delete(p.Labels, ownerNamespaceLabel)
		}, false, false},
		"a label is forged": {func(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) {
			v.Labels[ownerNameLabel] = "other"
			p.Labels[ownerNameLabel] = "other"
		}, false, false},
		"no claim":      {func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { v.Spec.ClaimRef = nil }, false, true},
		"no annotation": {func(v *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { v.Annotations = nil }, false, true},
		"a long name": {func(v *corev1.PersistentVolume, p *corev1.PersistentVolumeClaim) {
			of := owner("ns", long+"yyyyyyyyyy")
			*v, *p = *newVolume(of, "pv", "uid-of-pvc"), *newPVC(of, "pv")
		}, true, false},
	} {
		volume, pvc := newVolume(owner("ns", "sv1"), "pv-ns-sv1", "uid-of-pvc"), newPVC(owner("ns", "sv1"), "pv-ns-sv1")
		tc.change(volume, pvc)
		for _, one := range []struct {
			strip  func(any) (any, error)
			object client.Object
			folded bool
		}{{stripVolume, volume, tc.volume}, {stripPVC, pvc, tc.pvc}} {
			want := maps.Clone(one.object.GetLabels())
			kept := keep(t, one.strip, one.object)
			if _, is := kept.GetLabels()[""]; is != one.folded {
				t.Errorf("%s: %T is kept with labels %v", name, kept, kept.GetLabels())
			}
			unfold(kept)
			if diff := cmp.Diff(want, kept.GetLabels()); diff != "" {
				t.Errorf("%s: labels of %T (-want +got):\n%s", name, kept, diff)
			}
		}
	}
	if diff := cmp.Diff(map[string]string{ownedLabel: "true", "": ""}, folded); diff != "" {
		t.Errorf("the map of all has changed:\n%s", diff)
	}
}

// The API server takes lists and texts of any length from a namespace owner.
func TestATenantDoesNotDecideHowMuchMemoryAnObjectTakes(t *testing.T) {
	now := metav1.NewTime(began)
	long := strings.Repeat("0123456789abcdef", 1<<14)
	var finalizers []string
	var owners []metav1.OwnerReference
	for i := range 3000 {
		finalizers = append(finalizers, fmt.Sprintf("%s.example.com/%d", long[:240], i))
		owners = append(owners, metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: kind, Name: long[:300], UID: types.UID(fmt.Sprint(long[:300], i)),
		})
	}
	sv := owner("ns", "sv1")
	sv.DeletionTimestamp, sv.Finalizers = &now, append(finalizers, CommunityFinalizer)
	sv.Spec.FileSystemID, sv.Spec.AccessPointID = "fs-"+long, "fsap-"+long
	pvc := newPVC(owner("ns", "sv1"), long)
	pvc.DeletionTimestamp, pvc.Finalizers, pvc.OwnerReferences = &now, finalizers, append(pvc.OwnerReferences, owners...)
	pvc.Status.Phase, pvc.Annotations = corev1.ClaimPending, map[string]string{volumeUIDAnnotation: long}
	keptOwner, keptPVC := keep(t, Strip, sv.DeepCopy()), keep(t, stripPVC, pvc.DeepCopy())
	for name, object := range map[string]any{"SharedVolume": keptOwner, "PVC": keptPVC} {
		text, err := json.Marshal(object)
		if err != nil || len(text) > 8<<10 {
			t.Errorf("%s takes %d bytes, error %v", name, len(text), err)
		}
	}
	if want := []string{CommunityFinalizer, finalizers[0], finalizers[1], finalizers[2], "and 2997 more"}; !slices.Equal(keptOwner.Finalizers, want) {
		t.Errorf("finalizers %v", keptOwner.Finalizers)
	}
	if !isOwned(keptPVC, owner("ns", "sv1").UID) || keptPVC.Spec.VolumeName == "" {
		t.Errorf("PVC %+v", keptPVC)
	}
	if got := keep(t, Strip, owner("ns", "sv1")); len(got.Finalizers) > 0 {
		t.Errorf("finalizers %v", got.Finalizers)
	}
}

// Of many finalizers the cache has but a few: a write must not drop those of others.
func TestTheFinalizersOfOthersStayAtACutOver(t *testing.T) {
	many := []string{"a.example.com/x", "b.example.com/x", "c.example.com/x", CommunityFinalizer, "d.example.com/x", "e.example.com/x"}
	community := owner("ns", "sv1")
	community.Finalizers = many
	w := newWorking(t, boundPair(community, nil)...)
	lean := &v1alpha1.SharedVolume{}
	key := client.ObjectKeyFromObject(community)
	if err := w.live.Get(t.Context(), key, lean); err != nil {
		t.Fatal(err)
	}
	lean = keep(t, Strip, lean)
	found, err := w.observe(t.Context(), w.cached, lean)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.carryOut(t.Context(), lean, &found, dropping(lean)); err != nil {
		t.Fatal(err)
	}
	if want := slices.DeleteFunc(slices.Clone(many), func(name string) bool { return name == CommunityFinalizer }); !slices.Equal(lean.Finalizers, want) {
		t.Errorf("finalizers %v, want %v", lean.Finalizers, want)
	}
	again := keep(t, Strip, community.DeepCopy())
	again.UID = "another"
	if err := w.carryOut(t.Context(), again, &found, dropping(again)); !errors.Is(err, errBehind) {
		t.Errorf("a SharedVolume that was made again: %v", err)
	}
}
