package sharedvolume

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// shelf is what a cluster has, or what a cache holds of it: one namespace, one SharedVolume, its PVC, and volumes.
type shelf struct {
	sv      *v1alpha1.SharedVolume
	pvc     *corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

// world is a cluster in which namespace ns is deleted and made again, each time for another tenant.
type world struct {
	shelf

	cache  shelf
	tenant int
	// since is when the namespace was made.
	since metav1.Time
	// tenantOf says to whom a SharedVolume or a PVC of this UID belongs, and whoever made it.
	tenantOf map[types.UID]int
	made     int
	// left is how many writes the operator makes before it is killed; -1 for as many as it likes. Arrives says whether the last one is made.
	left    int
	arrives bool
	killed  bool
	// log is what has happened; broken is the promise that is broken.
	log    []string
	broken string
}

func newWorld() *world {
	return &world{
		shelf: shelf{volumes: map[string]*corev1.PersistentVolume{}}, cache: shelf{volumes: map[string]*corev1.PersistentVolume{}},
		tenantOf: map[types.UID]int{},
	}
}

// fresh gives an object a UID, and notes whose it is.
func (w *world) fresh(object client.Object, tenant int) {
	w.made++
	object.SetUID(types.UID("uid-" + strconv.Itoa(w.made)))
	object.SetResourceVersion(strconv.Itoa(w.made))
	object.SetCreationTimestamp(w.now())
	w.tenantOf[object.GetUID()] = tenant
}

// now is a clock that goes on with every change.
func (w *world) now() metav1.Time { return metav1.NewTime(began.Add(time.Duration(w.made) * lag)) }

// check notes the first broken promise: no volume is open, or for a PVC of another tenant than the one whose share it is.
func (w *world) check(after string) {
	w.log = append(w.log, after)
	for name, volume := range w.volumes {
		ref, tenant := volume.Spec.ClaimRef, w.tenantOf[types.UID(volume.Annotations[ownerUIDAnnotation])]
		switch {
		case w.broken != "":
		case ref == nil || ref.UID == "":
			w.broken = name + " is open to any PVC of that name"
		case w.pvc != nil && w.pvc.UID == ref.UID && w.tenantOf[ref.UID] != tenant:
			// One that has gone never comes back.
			w.broken = fmt.Sprintf("%s of tenant %d is for a PVC of tenant %d", name, tenant, w.tenantOf[ref.UID])
		}
	}
	if pvc := w.pvc; w.broken == "" && pvc != nil && pvc.Status.Phase == corev1.ClaimBound {
		volume := w.volumes[pvc.Spec.VolumeName]
		if volume != nil && w.tenantOf[types.UID(volume.Annotations[ownerUIDAnnotation])] != w.tenantOf[pvc.UID] {
			w.broken = "a PVC is bound to the volume of another tenant"
		}
	}
}

// bind is what Kubernetes' binder makes of volumes and PVCs (v1.36.3, pkg/controller/volume/persistentvolume/pv_controller.go: syncVolume,
// syncUnboundClaim, syncBoundClaim).
func (w *world) bind() {
	for _, volume := range w.volumes {
		ref, pvc := volume.Spec.ClaimRef, w.pvc
		switch {
		case ref == nil || ref.UID == "":
			volume.Status.Phase = corev1.VolumeAvailable
		case pvc == nil || pvc.UID != ref.UID:
			volume.Status.Phase = corev1.VolumeReleased
		case pvc.Spec.VolumeName == volume.Name:
			volume.Status.Phase = corev1.VolumeBound
		default:
			ref.UID = ""
		}
	}
	if w.pvc == nil {
		return
	}
	volume := w.volumes[w.pvc.Spec.VolumeName]
	fits := volume != nil && (volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "" || volume.Spec.ClaimRef.UID == w.pvc.UID)
	switch {
	case w.pvc.Status.Phase == corev1.ClaimPending && fits:
		w.pvc.Status.Phase = corev1.ClaimBound
		if volume.Spec.ClaimRef != nil {
			volume.Spec.ClaimRef.UID = w.pvc.UID
		}
		volume.Status.Phase = corev1.VolumeBound
	case w.pvc.Status.Phase == corev1.ClaimBound && !fits:
		w.pvc.Status.Phase = corev1.ClaimLost
	}
}

// collect deletes a PVC whose SharedVolume has gone, as the garbage collector does.
func (w *world) collect() {
	if w.pvc == nil {
		return
	}
	for _, ref := range ownersOf(w.pvc) {
		if w.sv == nil || w.sv.UID != ref.UID {
			w.pvc = nil
			return
		}
	}
}

// refresh brings a part of the cache up to date. Each kind has a watch of its own, and one may fail while others go on.
func (w *world) refresh(kind int) {
	switch kind {
	case 0:
		w.cache.sv = w.sv.DeepCopy()
	case 1:
		if w.cache.pvc = w.pvc.DeepCopy(); w.cache.pvc != nil && w.cache.pvc.Labels[ownedLabel] != "true" {
			w.cache.pvc = nil
		}
	default:
		w.cache.volumes = map[string]*corev1.PersistentVolume{}
		for name, volume := range w.volumes {
			if volume.Labels[ownedLabel] == "true" {
				w.cache.volumes[name] = volume.DeepCopy()
			}
		}
	}
}

// squat makes a PVC with the name of the SharedVolume's, as a hostile tenant would.
func (w *world) squat(random *rand.Rand) {
	if w.pvc != nil {
		return
	}
	sv := owner("ns", "sv1")
	pvc := newPVC(sv, plainVolumeName("ns", "sv1"))
	pvc.OwnerReferences, pvc.Status.Phase = nil, corev1.ClaimPending
	if random.IntN(2) == 1 {
		pvc.Labels = nil
	}
	for name, volume := range w.volumes {
		if random.IntN(2) == 1 {
			pvc.Spec.VolumeName = name
		}
		if random.IntN(2) == 1 {
			// The tenant before knew the UID of the SharedVolume.
			pvc.OwnerReferences = newPVC(owner("ns", "sv1"), "").OwnerReferences
			pvc.OwnerReferences[0].UID = types.UID(volume.Annotations[ownerUIDAnnotation])
		}
	}
	w.fresh(pvc, w.tenant)
	w.pvc = pvc
}

// operator is one process: what it remembers is lost when it is killed.
type operator struct {
	*Reconciler
	volumes *VolumeReconciler
}

func newOperator(w *world) *operator {
	cached, live := &access{world: w, cached: true}, &access{world: w}
	return &operator{
		&Reconciler{
			Client: cached, Live: live, Owner: "operator", Now: func() time.Time { return w.now().Time },
			Others: alone(), Events: &canned.Events{}, pacer: fair.NewPacer(),
		},
		&VolumeReconciler{Client: cached, Live: live, Others: alone()},
	}
}

// look is one look of the operator at what its cache has.
func (o *operator) look(ctx context.Context, w *world) {
	if w.cache.sv != nil {
		step, _, _ := o.converge(ctx, w.cache.sv.DeepCopy())
		if decided := step.phase == v1alpha1.Ready || step.phase == v1alpha1.Failed; decided && !w.killed && w.sv != nil && w.sv.UID == w.cache.sv.UID {
			w.sv.Status.ObservedGeneration = 1
		}
	}
	for name := range w.cache.volumes {
		if !w.killed {
			_, _ = o.volumes.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
	}
}

// happen lets one thing happen, whatever comes next.
func (w *world) happen(ctx context.Context, random *rand.Rand, o *operator) *operator {
	switch action := random.IntN(26); action {
	default:
		if w.left, w.arrives, w.killed = -1, random.IntN(2) == 1, false; random.IntN(4) == 0 {
			w.left = random.IntN(3)
		}
		if o.look(ctx, w); w.killed {
			w.log = append(w.log, "killed")
			o = newOperator(w)
			for kind := range 3 {
				w.refresh(kind)
			}
		}
	case 0, 1, 2, 3, 4:
		w.bind()
		w.check("bind")
	case 5, 6, 7, 8, 9, 10, 11:
		w.refresh(action % 3)
		w.check("refresh " + strconv.Itoa(action%3))
	case 12, 13:
		w.collect()
		w.check("collect")
	case 14:
		if w.pvc = nil; random.IntN(2) == 1 {
			w.sv = nil
		}
		w.check("delete")
	case 15:
		w.made++
		w.sv, w.pvc, w.tenant, w.since = nil, nil, w.tenant+1, w.now()
		w.check("another tenant")
	case 16:
		w.squat(random)
		w.check("squat")
	case 17:
		if w.pvc != nil {
			// Whoever may edit the namespace may do that.
			w.pvc.Labels, w.pvc.OwnerReferences = nil, nil
			w.made++
			w.pvc.ResourceVersion = strconv.Itoa(w.made)
			w.check("strip")
		}
	case 18, 19:
		if w.sv == nil {
			w.sv = owner("ns", "sv1")
			// The CRD gives it that phase.
			w.sv.Status.Phase = v1alpha1.Pending
			w.fresh(w.sv, w.tenant)
			w.check("SharedVolume")
		}
	}
	return o
}

// In whatever order SharedVolumes, PVCs and namespaces go and come, operators are killed and watches fail: no volume is ever open, or for a PVC of
// another tenant.
func TestNoVolumeIsEverOpenOrForAStranger(t *testing.T) {
	const schedules, length = 3000, 40
	bound, rejoined := 0, 0
	for seed := range uint64(schedules) {
		random, w := rand.New(rand.NewPCG(1, seed)), newWorld()
		o := newOperator(w)
		for range length {
			o = w.happen(t.Context(), random, o)
			if w.pvc != nil && w.pvc.Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		rejoined += strings.Count(strings.Join(w.log, ","), "patch pv-ns-sv1")
		if w.broken != "" {
			t.Fatalf("schedule %d: %s:\n%s", seed, w.broken, strings.Join(w.log, "\n"))
		}
	}
	if t.Logf("in %d of the states a PVC was bound; %d volumes were changed", bound, rejoined); bound == 0 || rejoined == 0 {
		t.Error("nothing is shown: no PVC was ever bound, or no volume ever brought back")
	}
}
