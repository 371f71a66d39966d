package sharedvolume

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// steps lets the operator look, and Kubernetes answer, until it is killed or all is done.
func (w *world) steps(t *testing.T, o *operator) {
	t.Helper()
	for range 10 {
		for kind := range 3 {
			w.refresh(kind)
		}
		if o.look(t.Context(), w); w.killed {
			return
		}
		w.bind()
		w.collect()
	}
}

// killedAt does the same with an operator that is killed at write n, which arrives or does not, and then with the next one. It returns false if
// there were not as many writes.
func (w *world) killedAt(t *testing.T, n int, arrives bool) bool {
	t.Helper()
	w.left, w.arrives, w.killed = n, arrives, false
	w.steps(t, newOperator(w))
	wasKilled := w.killed
	w.left, w.killed = -1, false
	w.steps(t, newOperator(w))
	return wasKilled
}

// The operator is killed at each write of a creation and of a deletion, and the next one finishes. test/faults does so at a few, in a real cluster.
func TestAKilledOperatorLeavesNoSharedVolumeHalfDone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		deletes bool
		// writes is how many there are.
		writes int
	}{{name: "creation", writes: 2}, {name: "deletion", deletes: true, writes: 1}} {
		for _, arrives := range []bool{false, true} {
			kills := 0
			for wasKilled := true; wasKilled && !t.Failed(); {
				t.Run(fmt.Sprintf("%s, killed at write %d, arrives %t", tc.name, kills+1, arrives), func(t *testing.T) {
					w := newWorld()
					w.sv = owner("ns", "sv1")
					w.sv.Status.Phase = v1alpha1.Pending
					w.fresh(w.sv, w.tenant)
					if tc.deletes {
						w.left = -1
						w.steps(t, newOperator(w))
						w.sv = nil
						w.collect()
					}
					if wasKilled = w.killedAt(t, kills, arrives); wasKilled {
						kills++
					}
					w.finished(t, tc.deletes)
				})
			}
			if kills != tc.writes {
				t.Errorf("%s: the operator was killed at %d writes, want %d", tc.name, kills, tc.writes)
			}
		}
	}
}

// finished checks that there is one volume that is bound to the PVC of the SharedVolume, or nothing.
func (w *world) finished(t *testing.T, deletes bool) {
	t.Helper()
	switch {
	case w.broken != "":
		t.Fatal(w.broken)
	case deletes:
		if w.pvc != nil || len(w.volumes) > 0 {
			t.Errorf("a PVC is left: %t; volumes: %d\n%q", w.pvc != nil, len(w.volumes), w.log)
		}
	case w.pvc == nil || w.pvc.Status.Phase != corev1.ClaimBound || len(w.volumes) != 1 || w.volumes[w.pvc.Spec.VolumeName] == nil:
		t.Errorf("the PVC is %+v, of %d volumes\n%q", w.pvc, len(w.volumes), w.log)
	case w.sv.Status.ObservedGeneration != 1:
		t.Errorf("the SharedVolume has no verdict\n%q", w.log)
	}
}
