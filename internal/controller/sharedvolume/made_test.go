package sharedvolume

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A cache may show a SharedVolume that has gone, with its namespace, which another tenant has by now; or one that etcd has forgotten, when it was set
// back to a backup.
func TestNobodyGetsAShareForASharedVolumeThatOnlyTheCacheHas(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.CreationTimestamp = metav1.NewTime(began)
	other, served, old := sv.DeepCopy(), sv.DeepCopy(), sv.DeepCopy()
	other.UID, served.Status.ObservedGeneration, old.CreationTimestamp = "another", 1, metav1.NewTime(began.Add(-patience))
	create := &change{what: createPVC, object: newPVC(sv, "pv-ns-sv1")}
	volume, labelled := newVolume(sv, "pv-ns-sv1", "x"), newPVC(sv, "pv-ns-sv1")
	labelled.OwnerReferences = nil
	reference := map[string]any{"spec": map[string]any{"claimRef": map[string]any{}}}
	for name, tc := range map[string]struct {
		owner *v1alpha1.SharedVolume
		// namespace is how much younger the namespace is.
		namespace time.Duration
		pvc       *corev1.PersistentVolumeClaim
		do        *change
		made      bool
		stored    *v1alpha1.SharedVolume
		want      error
		asked     int
	}{
		"a PVC, the first time":                 {owner: sv, do: create, namespace: -time.Second},
		"a PVC, in a namespace of that second":  {owner: sv, do: create, stored: sv, asked: 1},
		"a PVC, in a namespace that is younger": {owner: sv, do: create, namespace: time.Second, want: errBehind, asked: 1},
		"a volume, the first time":              {owner: sv, do: &change{what: createVolume, object: volume}, namespace: -time.Second},
		"a volume for a PVC that is its own by label only": {
			owner: sv, do: &change{what: createVolume, object: volume}, namespace: -time.Second, pvc: labelled, want: errBehind, asked: 1,
		},
		"again":                           {owner: sv, do: create, made: true, stored: sv, asked: 1},
		"again, for one that is not":      {owner: sv, do: create, made: true, want: errBehind, asked: 1},
		"again, for one of its name":      {owner: sv, do: create, made: true, stored: other, want: errBehind, asked: 1},
		"for one that had a pair":         {owner: served, do: create, want: errBehind, asked: 1},
		"a volume that was another PVC's": {owner: sv, do: rejoining(volume, "x"), want: errBehind, asked: 1},
		"a volume that names no PVC":      {owner: sv, do: &change{what: markVolume, object: volume, fields: reference}, want: errBehind, asked: 1},
		"a label":                         {owner: old, do: &change{what: markVolume, object: volume, fields: map[string]any{"metadata": nil}}},
		"a deletion":                      {owner: old, do: &change{what: deleteVolume, object: volume}},
	} {
		live := &stored{owner: tc.stored}
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		namespace.Name, namespace.CreationTimestamp = "ns", metav1.NewTime(tc.owner.CreationTimestamp.Add(tc.namespace))
		r := &Reconciler{Client: newCluster(t, namespace), Live: live, Now: func() time.Time { return began }}
		if tc.made {
			r.made.Store(made{client.ObjectKeyFromObject(sv), tc.do.what}, began)
		}
		if err := r.stillOwned(t.Context(), tc.owner, tc.pvc, tc.do); !errors.Is(err, tc.want) || live.asked != tc.asked {
			t.Errorf("%s: error %v after %d requests, want %v after %d", name, err, live.asked, tc.want, tc.asked)
		}
	}
}
