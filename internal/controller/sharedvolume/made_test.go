package sharedvolume

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// stored answers with what the cluster has of one SharedVolume, and counts how often it is asked.
type stored struct {
	client.Reader
	owner *v1alpha1.SharedVolume
	asked int
}

func (s *stored) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.asked++
	if s.owner == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "sharedvolumes"}, key.Name)
	}
	if found, ok := into.(*v1alpha1.SharedVolume); ok {
		s.owner.DeepCopyInto(found)
	}
	return nil
}

// A cache may show a SharedVolume that etcd has forgotten, when it was set back to a backup. Kubernetes deletes its PVC as often as it is
// made.
func TestNothingIsMadeAgainForASharedVolumeThatOnlyTheCacheHas(t *testing.T) {
	sv := owner("ns", "sv1")
	other := sv.DeepCopy()
	other.UID = "another"
	for name, tc := range map[string]struct {
		made   bool
		stored *v1alpha1.SharedVolume
		want   error
		asked  int
	}{
		"the first time":             {made: false, want: nil, asked: 0},
		"again":                      {made: true, stored: sv, want: nil, asked: 1},
		"again, for one that is not": {made: true, want: errBehind, asked: 1},
		"again, for one of its name": {made: true, stored: other, want: errBehind, asked: 1},
	} {
		live := &stored{owner: tc.stored}
		r := &Reconciler{Live: live}
		if tc.made {
			r.made.Store(made{client.ObjectKeyFromObject(sv), createPVC}, time.Now())
		}
		if err := r.stillOwned(t.Context(), sv, createPVC); !errors.Is(err, tc.want) || live.asked != tc.asked {
			t.Errorf("%s: error %v after %d requests, want %v after %d", name, err, live.asked, tc.want, tc.asked)
		}
	}
}
