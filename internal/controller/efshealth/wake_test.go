package efshealth

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// later is a queue that notes what is to be done, and when.
type later struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (l *later) AddAfter(request reconcile.Request, wait time.Duration) {
	l.added = append(l.added, request.Name+" in "+wait.String())
}

func volumeWith(driver, handle string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	made.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	if change != nil {
		change(made)
	}
	return made
}

func TestOnlyChangesThatMatterWakeTheLook(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"a class comes":   {nil, classFor("a", regional), true},
		"a class goes":    {classFor("a", regional), nil, true},
		"a class changes": {classFor("a", regional), classFor("a", absent), true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newReconciler(t)
			q, handle := &later{}, r.gather()
			switch {
			case tc.before == nil:
				handle.Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
			case tc.after == nil:
				handle.Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
			default:
				handle.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			}
			var want []string
			if tc.want {
				want = []string{"efs.csi.aws.com in 5s"}
			}
			if diff := cmp.Diff(want, q.added); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if !named("a").Create(event.CreateEvent{Object: nodeIn("a", "")}) || named("a").Create(event.CreateEvent{Object: nodeIn("b", "")}) {
		t.Error("an object of another name wakes it")
	}
}

func instanceIn(providerID string) *corev1.Node {
	node := nodeIn("n", "z")
	node.Spec.ProviderID = providerID
	return node
}

func TestOfANodeAFewWordsAreKept(t *testing.T) {
	master, control := corev1.Taint{Key: "node-role.kubernetes.io/master"}, corev1.Taint{Key: "node-role.kubernetes.io/control-plane"}
	for name, tc := range map[string]struct {
		from client.Object
		want nodePlace
		kept bool
	}{
		"of the control plane":   {nodeIn("n", "z", corev1.Taint{Key: "mine"}, master), nodePlace{name: "n", zone: "z", controlPlane: true}, true},
		"of the two names":       {nodeIn("n", "z", control), nodePlace{name: "n", zone: "z", controlPlane: true}, true},
		"a taint of others":      {nodeIn("n", "z", corev1.Taint{Key: "mine"}), nodePlace{name: "n", zone: "z"}, true},
		"one with an instance":   {instanceIn("aws:///us-east-1a/i-0123"), nodePlace{name: "n", zone: "z", instance: "i-0123"}, true},
		"one of Fargate":         {instanceIn("aws:///us-east-1a/0123/fargate-ip-10-0-0-1"), nodePlace{name: "n", zone: "z"}, true},
		"one of another cloud":   {instanceIn("other:///i-0123"), nodePlace{name: "n", zone: "z"}, true},
		"one without a zone":     {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}, nodePlace{}, false},
		"an object of no matter": {&corev1.Pod{}, nodePlace{}, false},
	} {
		if got, kept := placeOf(tc.from); got != tc.want || kept != tc.kept {
			t.Errorf("%s: %+v, %t", name, got, kept)
		}
	}
	// What a cache hands over for an object that has gone without notice.
	if got, err := stripClass("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestWhatTheClusterUsesIsReadInOrder(t *testing.T) {
	shared := volumeWith(efs.DriverName, oneZone, func(v *corev1.PersistentVolume) {
		v.Name, v.Labels, v.CreationTimestamp = "a-shared", map[string]string{sharedLabel: "true"}, metav1.NewTime(at)
	})
	loose := volumeWith(efs.DriverName, regional+"::"+point, func(v *corev1.PersistentVolume) {
		v.Name, v.Spec.MountOptions = "b-cross", []string{"tls", "crossaccount"}
	})
	foreign := volumeWith("ebs.csi.aws.com", "vol-1", func(v *corev1.PersistentVolume) { v.Name = "foreign" })
	objects := []client.Object{
		volumeWith(efs.DriverName, regional, nil), loose, shared, foreign, classFor("z", absent), classFor("y", regional),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Provisioner: "ebs.csi.aws.com"}, nodeIn("n", "us-east-1a"),
	}
	r, _ := onAWS(t, &region{}, objects...)
	got, err := r.uses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := uses{
		volumes: []volume{
			{name: "a-shared", fileSystem: oneZone, created: at, shared: true}, {name: "b-cross", fileSystem: regional, accessPoint: point, remote: true},
			{name: "pv", fileSystem: regional},
		},
		classes: []class{{name: "y", fileSystem: regional}, {name: "z", fileSystem: absent}},
		nodes:   []nodePlace{{name: "n", zone: "us-east-1a"}}, zones: []string{"us-east-1a"},
	}
	same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(uses{}, volume{}, class{}, nodePlace{}), same); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{regional, oneZone, absent}, got.fileSystems()); diff != "" {
		t.Errorf("file systems (-want +got):\n%s", diff)
	}
	// What only another account has is not asked about.
	if only := (uses{volumes: got.volumes[1:2]}).fileSystems(); len(only) > 0 {
		t.Errorf("of another account it uses %v", only)
	}
}

func TestZonesAreThoseWhereUsersPodsCanRun(t *testing.T) {
	control := corev1.Taint{Key: "node-role.kubernetes.io/control-plane"}
	for name, tc := range map[string]struct {
		nodes []client.Object
		want  []string
	}{
		"none":                     {nil, nil},
		"nodes without a zone":     {[]client.Object{nodeIn("a", "")}, nil},
		"two in a zone":            {[]client.Object{nodeIn("a", "z2"), nodeIn("b", "z1"), nodeIn("c", "z2")}, []string{"z1", "z2"}},
		"workers and masters":      {[]client.Object{nodeIn("a", "z1"), nodeIn("b", "z2", control)}, []string{"z1"}},
		"masters only":             {[]client.Object{nodeIn("a", "z1", control), nodeIn("b", "z2", control)}, []string{"z1", "z2"}},
		"a worker without a zone":  {[]client.Object{nodeIn("a", ""), nodeIn("b", "z2", control)}, []string{"z2"}},
		"a master beside a worker": {[]client.Object{nodeIn("a", "z1", control), nodeIn("b", "z1")}, []string{"z1"}},
	} {
		r, _ := onAWS(t, &region{}, tc.nodes...)
		if diff := cmp.Diff(tc.want, r.zones(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
