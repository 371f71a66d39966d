package clustercsidriver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// doing has a driver that needs something in its cloud, and that an administrator may remove by state.
func doing(t *testing.T, change func(*operatorv1.ClusterCSIDriver), objects ...client.Object) (*trip, *canned.Resources) {
	t.Helper()
	d := disabling()
	d.RemovedByState = true
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
	cr.Spec.ManagementState = operatorv1.Managed
	change(cr)
	made, resources := newTrip(t, d, append(objects, cr)...), &canned.Resources{}
	made.Derived.Cloud, made.Derived.CloudResources = &cannedCloud{}, resources
	return made, resources
}

func TestWhatADriverNeedsInTheCloudIsForItsStorageClass(t *testing.T) {
	const keep, leave, undo = "keep", "leave", "undo"
	for name, tc := range map[string]struct {
		state   operatorv1.ManagementState
		classes operatorv1.StorageClassStateName
		deleted bool
		want    string
	}{
		"managed":                        {state: operatorv1.Managed, want: keep},
		"no state":                       {want: keep},
		"with its class":                 {state: operatorv1.Managed, classes: operatorv1.ManagedStorageClass, want: keep},
		"the class is the users'":        {state: operatorv1.Managed, classes: operatorv1.UnmanagedStorageClass, want: leave},
		"no class is wanted":             {state: operatorv1.Managed, classes: operatorv1.RemovedStorageClass, want: leave},
		"a class of an unknown state":    {state: operatorv1.Managed, classes: "Off", want: leave},
		"unmanaged":                      {state: operatorv1.Unmanaged, want: leave},
		"unmanaged, with its class":      {state: operatorv1.Unmanaged, classes: operatorv1.ManagedStorageClass, want: leave},
		"a state that nobody knows":      {state: "Off", want: leave},
		"deleted":                        {state: operatorv1.Managed, deleted: true, want: leave},
		"removed":                        {state: operatorv1.Removed, want: undo},
		"removed, the class is a user's": {state: operatorv1.Removed, classes: operatorv1.UnmanagedStorageClass, want: undo},
	} {
		t.Run(name, func(t *testing.T) {
			trip, resources := doing(t, func(cr *operatorv1.ClusterCSIDriver) {
				cr.Spec.ManagementState, cr.Spec.StorageClassState = tc.state, tc.classes
				if tc.deleted {
					now := metav1.NewTime(began)
					cr.DeletionTimestamp, cr.Finalizers = &now, []string{"example.com/of-others"}
				}
			}, infrastructure())
			if _, err := trip.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want}, resources.Asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestARemovedDriverSaysWhatItLeavesInTheCloud(t *testing.T) {
	const removed = "True Removed: the driver is removed because spec.managementState is Removed; set it to Managed to install the driver"
	for left, want := range map[string]string{"": removed, "a policy that volumes use": removed + ". Left in the cloud: a policy that volumes use"} {
		trip, resources := doing(t, func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Removed }, infrastructure(), diskKeys())
		resources.Left = left
		if _, err := trip.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
			t.Fatal(err)
		}
		said := texts(trip.written(t).Conditions)
		if said["DiskDriverDisabled"] != want {
			t.Errorf("%q, want %q", said["DiskDriverDisabled"], want)
		}
		// What is left of it in a cloud holds up no update of the cluster.
		if trip.written(t).Version != "1.2.3" || strings.HasPrefix(said["Progressing"], "True") || strings.HasPrefix(said["Degraded"], "True") {
			t.Errorf("left %q: %q", left, said)
		}
	}
}

// First nothing may use it any more: it goes when all of the driver has gone, and only if the administrator asks for that.
func TestWhatIsInTheCloudGoesAfterTheDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(*operatorv1.ClusterCSIDriver)
		refuse  string
		undone  bool
		err     string
	}{
		"nothing is left":          {undone: true},
		"pods use volumes":         {objects: append(using(), ours(csiDriver()))},
		"an object is left":        {objects: []client.Object{ours(csiDriver())}},
		"nobody knows what is":     {refuse: "get CSIDriver", err: "find the objects to remove"},
		"it is of another cloud":   {change: func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Managed }},
		"what to ask can't be had": {undone: true, refuse: "get ConfigMap " + here + "/cloud", objects: []client.Object{secret(map[string][]byte{"credentials": []byte("a")})}, err: "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Removed }
			if tc.change != nil {
				change = tc.change
			}
			trip, resources := doing(t, change, append(tc.objects, infrastructure())...)
			resources.Left = "a policy"
			cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
			change(cr)
			if tc.refuse != "" {
				trip.cluster.Refuse(errors.New("no route"), tc.refuse)
			}
			result := trip.remove(t.Context(), cr, trip.found(t))
			if slices.Contains(resources.Asked, "undo") != tc.undone || (result.removal.left != "") != tc.undone {
				t.Errorf("asked for %v, left %q", resources.Asked, result.removal.left)
			}
			if (result.err == nil) != (tc.err == "") || tc.err != "" && !strings.Contains(result.err.Error(), tc.err) {
				t.Errorf("%v", result.err)
			}
		})
	}
}
