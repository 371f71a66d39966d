package efshealth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

func TestOnlyChangesOfTheDriversVolumesWakeTheLook(t *testing.T) {
	pv := volumeWith(efs.DriverName, regional, nil)
	foreign := volumeWith("ebs.csi.aws.com", "vol-1", nil)
	change := func(how func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return volumeWith(efs.DriverName, regional, how)
	}
	for name, tc := range map[string]struct {
		before, after *corev1.PersistentVolume
		want          bool
	}{
		"a volume comes":                    {nil, pv, true},
		"a volume goes":                     {pv, nil, true},
		"another driver's volume comes":     {nil, foreign, false},
		"another driver's volume goes":      {foreign, nil, false},
		"a volume without a driver comes":   {nil, &corev1.PersistentVolume{}, false},
		"a volume is written once more":     {pv, change(func(v *corev1.PersistentVolume) { v.ResourceVersion = "2" }), false},
		"a volume gets an option":           {pv, change(func(v *corev1.PersistentVolume) { v.Spec.MountOptions = []string{"tls"} }), false},
		"a volume gets an access point":     {pv, volumeWith(efs.DriverName, regional+"::"+point, nil), true},
		"a volume gets a node affinity":     {pv, change(func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }), true},
		"a volume becomes another driver's": {pv, foreign, true},
		"another driver's volume changes":   {foreign, volumeWith("ebs.csi.aws.com", "vol-2", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := onAWS(t, &region{})
			if tc.before != nil && r.volumes.Add(tc.before) != nil {
				t.Fatal("not added")
			}
			q := &later{}
			r.volumes.Queue = q
			var err error
			switch {
			case tc.before == nil:
				err = r.volumes.Add(tc.after)
			case tc.after == nil:
				err = r.volumes.Delete(tc.before)
			default:
				err = r.volumes.Update(tc.after)
			}
			var want []string
			if tc.want {
				want = []string{"efs.csi.aws.com in 5s"}
			}
			if diff := cmp.Diff(want, q.added); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestOnlyChangesOfPlacesWakeTheLook(t *testing.T) {
	r, _ := onAWS(t, &region{})
	for i, step := range []struct {
		node *corev1.Node
		want int
	}{
		{nodeIn("n", "us-east-1a"), 1},
		{nodeIn("n", "us-east-1a", corev1.Taint{Key: "node.kubernetes.io/unreachable"}), 0},
		{nodeIn("n", "us-east-1b"), 1},
		{nodeIn("n", "us-east-1b", corev1.Taint{Key: "node-role.kubernetes.io/master"}), 1},
		{nodeIn("n", "", corev1.Taint{Key: "node-role.kubernetes.io/master"}), 1},
		{nodeIn("n", ""), 0},
	} {
		q := &later{}
		r.nodes.Queue = q
		if err := r.nodes.Update(step.node); err != nil || len(q.added) != step.want {
			t.Errorf("step %d: error %v, woken %v", i, err, q.added)
		}
	}
}

// kept are the volumes that are known, sorted.
func kept(r *Reconciler) []volume {
	var all []volume
	r.volumes.Each(func(one volume) { all = append(all, one) })
	slices.SortFunc(all, func(a, b volume) int { return strings.Compare(a.name, b.name) })
	return all
}

func TestAListReplacesWhatIsKept(t *testing.T) {
	r, _ := onAWS(t, &region{}, volumeWith(efs.DriverName, regional, nil))
	listed := func(name, driver string) any {
		small, err := r.volumes.Transformer()(volumeWith(driver, oneZone, func(v *corev1.PersistentVolume) { v.Name = name }))
		if err != nil {
			t.Fatal(err)
		}
		return small
	}
	q := &later{}
	r.volumes.Queue = q
	if err := r.volumes.Replace([]any{listed("z", efs.DriverName), listed("b", "ebs.csi.aws.com"), listed("a", efs.DriverName)}, "7"); err != nil {
		t.Fatal(err)
	}
	want := []volume{{name: "a", fileSystem: oneZone}, {name: "z", fileSystem: oneZone}}
	if diff := cmp.Diff(want, kept(r), cmp.AllowUnexported(volume{})); diff != "" || len(q.added) != 3 {
		t.Errorf("woken %v (-want +got):\n%s", q.added, diff)
	}
	// The same list, and what no list has.
	q.added = nil
	if err := r.volumes.Replace([]any{listed("a", efs.DriverName), listed("z", efs.DriverName)}, "8"); err != nil || len(q.added) > 0 {
		t.Errorf("woken %v, error %v", q.added, err)
	}
	if err := r.volumes.Delete("tombstone"); err != nil || len(kept(r)) != 2 {
		t.Errorf("kept %v, error %v", kept(r), err)
	}
}

// listing has one PersistentVolume, and refuses to list it until it is told otherwise.
type listing struct {
	client.WithWatch
	allowed chan struct{}
}

func (l *listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	select {
	case <-l.allowed:
	default:
		return errors.New("forbidden")
	}
	volumes := list.(*corev1.PersistentVolumeList)
	volumes.Items, volumes.ResourceVersion = []corev1.PersistentVolume{*volumeWith(efs.DriverName, regional, nil)}, "1"
	return nil
}

func (l *listing) Watch(_ context.Context, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	if options[0].(*client.ListOptions).Raw.SendInitialEvents != nil {
		return nil, errors.New("this API server does not stream lists")
	}
	return watch.NewFake(), nil
}

func TestVolumesAreKnownOnceTheyAreListed(t *testing.T) {
	api := &listing{allowed: make(chan struct{})}
	r, _ := onAWS(t, &region{})
	r.followAll(api)
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if !r.volumes.WaitForCacheSync(soon) {
		t.Error("an operator that does not lead is not ready")
	}
	if err := r.volumes.Start(t.Context(), &later{}); err != nil {
		t.Fatal(err)
	}
	if r.volumes.WaitForCacheSync(soon) || r.volumes.WaitForSync(soon) == nil {
		t.Error("they are known although they can't be listed")
	}
	close(api.allowed)
	if err := r.volumes.WaitForSync(t.Context()); err != nil || !r.volumes.WaitForCacheSync(t.Context()) {
		t.Fatal(err)
	}
	if got := kept(r); len(got) != 1 || got[0].fileSystem != regional {
		t.Errorf("got %v", got)
	}
}
