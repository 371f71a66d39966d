package sharedvolume

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Only a volume that no PVC holds, and that says whose it was, may ever be deleted.
func TestWhichVolumesAreLetGo(t *testing.T) {
	made := func(phase corev1.PersistentVolumePhase, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		volume := newVolume(owner("ns", "sv1"), "pv-ns-sv1", "uid-of-pvc")
		volume.Status.Phase = phase
		if phase == corev1.VolumeAvailable {
			volume.Spec.ClaimRef.UID = ""
		}
		if change != nil {
			change(volume)
		}
		return volume
	}
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"released":                        {made(corev1.VolumeReleased, nil), true},
		"never bound":                     {made(corev1.VolumeAvailable, nil), true},
		"bound":                           {made(corev1.VolumeBound, nil), false},
		"failed":                          {made(corev1.VolumeFailed, nil), false},
		"about to be bound":               {made(corev1.VolumePending, nil), false},
		"released without a PVC":          {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }), false},
		"made by the community":           {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Annotations = nil }), false},
		"without the UID":                 {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { delete(v.Annotations, ownerUIDAnnotation) }), false},
		"for another PVC":                 {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "mine" }), false},
		"given to another namespace":      {made(corev1.VolumeAvailable, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "other" }), false},
		"its data would go":               {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = "Delete" }), false},
		"without our labels":              {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Labels = nil }), false},
		"of an administrator, our labels": {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Annotations = map[string]string{"a": "b"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, ours := originOf(tc.volume)
			if got := ours && isReleased(tc.volume); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// What Kubernetes' protection of PVCs counts, no more and no less.
func TestWhichPodsHoldAPVC(t *testing.T) {
	pod := func(node, pvc string, phase corev1.PodPhase) *corev1.Pod {
		found := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		found.Spec.Volumes = []corev1.Volume{{}, {VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
		}}}
		return found
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                {pod("node", "pvc-sv1", corev1.PodRunning), true},
		"starting":               {pod("node", "pvc-sv1", corev1.PodPending), true},
		"finished":               {pod("node", "pvc-sv1", corev1.PodSucceeded), true},
		"waiting for a node":     {pod("", "pvc-sv1", corev1.PodPending), false},
		"with another PVC":       {pod("node", "pvc-sv11", corev1.PodRunning), false},
		"without any PVC":        {&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}, false},
		"never started, no node": {pod("", "pvc-sv1", corev1.PodFailed), false},
	} {
		if got := uses(tc.pod, "pvc-sv1"); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Operators before 5.1 left volumes open: a PVC of the next tenant of a namespace may have one. The administrator has to know, and decides.
func TestVolumesThatStrangersHaveAreReported(t *testing.T) {
	gone := owner("ns", "sv1")
	bound := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		volume := newVolume(gone, "pv-ns-sv1", "uid-of-pvc")
		volume.Status.Phase = corev1.VolumeBound
		if change != nil {
			change(volume)
		}
		return volume
	}
	pvc := func(uid types.UID, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		found := newPVC(gone, "pv-ns-sv1")
		if found.UID = uid; change != nil {
			change(found)
		}
		return found
	}
	strangers := func(found *corev1.PersistentVolumeClaim) { found.OwnerReferences, found.Labels = nil, nil }
	for name, tc := range map[string]struct {
		objects []client.Object
		// uncached are objects that the cache does not show.
		uncached []client.Object
		want     bool
		live     bool
	}{
		"a stranger has it":                        {[]client.Object{bound(nil)}, []client.Object{pvc("uid-of-pvc", strangers)}, true, true},
		"a stranger with our labels has it":        {[]client.Object{bound(nil), pvc("uid-of-pvc", func(found *corev1.PersistentVolumeClaim) { found.OwnerReferences = nil })}, nil, true, true},
		"the next SharedVolume's PVC has it":       {[]client.Object{bound(nil), pvc("uid-of-pvc", func(found *corev1.PersistentVolumeClaim) { found.OwnerReferences[0].UID = "next" })}, nil, true, true},
		"its own PVC is about to go":               {[]client.Object{bound(nil), pvc("uid-of-pvc", nil)}, nil, false, false},
		"its own PVC was about to go":              {[]client.Object{bound(nil)}, nil, false, true},
		"its SharedVolume is there":                {[]client.Object{bound(nil), gone, pvc("uid-of-pvc", strangers)}, nil, false, false},
		"the cache does not show its SharedVolume": {[]client.Object{bound(nil)}, []client.Object{gone, pvc("uid-of-pvc", strangers)}, false, true},
		"another PVC of its name waits":            {[]client.Object{bound(nil)}, []client.Object{pvc("another", strangers)}, false, true},
		"it is released":                           {[]client.Object{bound(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }), pvc("uid-of-pvc", strangers)}, nil, false, false},
		"an administrator gave it away":            {[]client.Object{bound(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "mine" }), pvc("uid-of-pvc", strangers)}, nil, false, false},
		"nothing says whose it was":                {[]client.Object{bound(func(v *corev1.PersistentVolume) { v.Annotations = nil }), pvc("uid-of-pvc", strangers)}, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := admission(t, append(tc.objects, driverCR("Deny"), served(true, false))...)
			live := newCluster(t, append(slices.Clone(tc.objects), tc.uncached...)...)
			r.Live = live
			again, err := r.report(t.Context(), served(true, false), driverCR("Deny"))
			if err != nil {
				t.Fatal(err)
			}
			says := strings.Contains(strings.Join(c.Bodies, " "), "1 PersistentVolumes of deleted SharedVolumes are bound to PVCs that the operator did not create: pv-ns-sv1.")
			if says != tc.want || (again > 0) != tc.want || len(live.Reads) > 0 != tc.live {
				t.Errorf("reported %v, again in %s, live reads %q", says, again, live.Reads)
			}
		})
	}
}
