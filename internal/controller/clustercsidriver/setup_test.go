package clustercsidriver

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

func storageClass() schema.GroupKind {
	return schema.GroupKind{Group: storagev1.GroupName, Kind: "StorageClass"}
}

// A removal looks for these and no others: anybody can put our label on an object.
func TestWhatCanBeOursIsWhatIsWatched(t *testing.T) {
	has := func(s *trip, kind string) bool {
		return slices.ContainsFunc(s.applier.Inventory, func(subject apply.Subject) bool { return subject.Kind == kind })
	}
	full := newTrip(t, disk())
	for _, kind := range []string{"Deployment", "DaemonSet", "CSIDriver", "StorageClass", "CredentialsRequest", "ServiceAccount", "ClusterRole"} {
		if !has(full, kind) {
			t.Errorf("a %s can't be ours", kind)
		}
	}
	full.Kinds = nil
	if err := full.prepareApplier(); err != nil {
		t.Fatal(err)
	}
	if has(full, "CredentialsRequest") || !has(full, "Deployment") {
		t.Error("a kind that the cluster does not serve can be ours, or none can")
	}
	for _, subject := range full.applier.Inventory {
		if subject.Namespace != "" && subject.Namespace != here {
			t.Errorf("%s is not watched", subject)
		}
	}
}

func TestWhoMayChangeAStorageClass(t *testing.T) {
	class := func(provisioner string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"provisioner": provisioner}}
	}
	one := newTrip(t, disk())
	if !one.applier.CreateOnly[storageClass()] || one.applier.RecreateOnImmutable[storageClass()] || one.applier.Ours != nil {
		t.Error("the one class of a driver is the administrator's once it is there")
	}
	d := disk()
	d.StorageClass = ""
	several := newTrip(t, d)
	if !several.applier.RecreateOnImmutable[storageClass()] || !several.applier.Ours(class(diskName)) || several.applier.Ours(class("other.example.com")) {
		t.Error("classes of a driver follow it, and no others do")
	}
}

func TestMarksOfPredecessorsAreThoseOfPredecessorsWithALabel(t *testing.T) {
	d := disk()
	d.Predecessors = []driver.Predecessor{{Label: "owned-by-old", Owner: "olds.example.com"}, {Title: "without a label"}}
	trip := newTrip(t, d)
	if diff := cmp.Diff([]string{"owned-by-old"}, trip.applier.PredecessorLabels) + cmp.Diff([]string{"olds.example.com"}, trip.applier.PredecessorOwners); diff != "" {
		t.Error(diff)
	}
}

// Without a ClusterCSIDriver the plan is that of one which is managed.
func TestAPreviewChangesNothing(t *testing.T) {
	cr, _ := healthy()
	cr.Spec.StorageClassState = operatorv1.UnmanagedStorageClass
	d := disk()
	d.Check = func(driver.Config) []string { return []string{"no"} }
	for name, tc := range map[string]struct {
		objects []client.Object
		want    map[string]string
	}{
		"without a ClusterCSIDriver": {
			[]client.Object{infrastructure()},
			map[string]string{"CSIDriver": "create", "DaemonSet": "create", "Deployment": "create"},
		},
		"with somebody else's CSIDriver": {
			[]client.Object{infrastructure(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}}},
			map[string]string{"CSIDriver": "adopt", "DaemonSet": "create", "Deployment": "create"},
		},
		"with a ClusterCSIDriver that has no StorageClass": {
			[]client.Object{infrastructure(), cr}, map[string]string{"CSIDriver": "create", "DaemonSet": "create", "Deployment": "create"},
		},
		"with somebody's StorageClass": {
			[]client.Object{infrastructure(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk-sc"}, Provisioner: "x"}},
			map[string]string{"CSIDriver": "create", "StorageClass": "keep", "DaemonSet": "create", "Deployment": "create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, d, tc.objects...)
			plan, err := trip.Preview(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, object := range plan.Objects {
				switch object.Kind {
				case "CSIDriver", "StorageClass", "DaemonSet", "Deployment":
					got[object.Kind] = object.Action
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(trip.cluster.Writes) > 0 || plan.Namespace != here || !slices.Equal(plan.Problems, []string{"no"}) {
				t.Errorf("sent %v, plan %+v", trip.cluster.Sent(), plan)
			}
		})
	}
}

func TestAPreviewOfWhatCantBeRenderedIsAnError(t *testing.T) {
	trip := newTrip(t, disk(), infrastructure())
	trip.Images = nil
	if plan, err := trip.Preview(t.Context()); err == nil || plan.Objects != nil {
		t.Errorf("%v, %v", plan.Objects, err)
	}
	trip = newTrip(t, disk())
	if _, err := trip.Preview(t.Context()); err == nil ||
		err.Error() != "Infrastructure cluster is missing: restore it, every OpenShift cluster needs it" {
		t.Error(err)
	}
}
