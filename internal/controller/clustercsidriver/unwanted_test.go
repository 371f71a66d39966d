package clustercsidriver

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// of is the Infrastructure of a platform; nil without one.
func of(platform configv1.PlatformType) *configv1.Infrastructure {
	found := infrastructure()
	found.Status.PlatformStatus.Type = platform
	return found
}

func TestADriverGoesOnlyIfTheInfrastructureSaysSoAsWell(t *testing.T) {
	const stays = "the driver stays although annotation storage.openshift.io/not-wanted is set: "
	for name, tc := range map[string]struct {
		cached, live *configv1.Infrastructure
		unannotated  bool
		removable    bool
		deleted      bool
		unserved     bool
		newer        bool
		state        operatorv1.ManagementState
		want         removalWish
		err          string
	}{
		"no annotation":      {cached: of("GCP"), live: of("GCP"), unannotated: true},
		"a removable driver": {cached: of("GCP"), live: of("GCP"), removable: true},
		"it is deleted":      {cached: of("GCP"), live: of("GCP"), deleted: true},
		"another platform": {
			cached: of("GCP"), live: of("GCP"),
			want: removalWish{remove: true, message: "the platform of the cluster is now GCP, and the driver is for AWS"},
		},
		"another platform, and removed": {
			cached: of("GCP"), live: of("GCP"), state: operatorv1.Removed,
			want: removalWish{remove: true, message: "the platform of the cluster is now GCP, and the driver is for AWS"},
		},
		"another platform, and a word of the administrator that the cache does not show": {
			cached: of("GCP"), live: of("GCP"), newer: true, want: removalWish{stale: true},
		},
		"unmanaged": {
			cached: of("GCP"), live: of("GCP"), state: operatorv1.Unmanaged,
			want: removalWish{message: "annotation storage.openshift.io/not-wanted has no effect while spec.managementState is Unmanaged"},
		},
		"this platform": {
			cached: of("AWS"), live: of("AWS"),
			want: removalWish{message: stays + "the cluster still has the driver's platform AWS. Remove the annotation from the ClusterCSIDriver"},
		},
		"a cache that lags behind": {
			cached: of("GCP"), live: of("AWS"),
			want: removalWish{message: stays + "the cluster still has the driver's platform AWS. Remove the annotation from the ClusterCSIDriver"},
		},
		"a cache that is early": {cached: of("AWS"), live: of("GCP"), want: removalWish{message: stays + "the cluster still has the driver's platform AWS. Remove the annotation from the ClusterCSIDriver"}},
		"no platform":           {cached: of(""), live: of("GCP"), want: removalWish{message: stays + "the object Infrastructure/cluster has no platform"}},
		"no platform any more":  {cached: of("GCP"), live: of(""), want: removalWish{message: stays + "the object Infrastructure/cluster has no platform"}},
		"no OpenShift":          {unserved: true, want: removalWish{message: stays + "the object Infrastructure/cluster has no platform"}},
		"no Infrastructure":     {live: of("GCP"), err: "nothing is removed, because Infrastructure cluster is missing"},
		"none in the cluster":   {cached: of("GCP"), err: "nothing is removed, because Infrastructure cluster is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable = tc.removable
			objects := func(infrastructure *configv1.Infrastructure) []client.Object {
				if infrastructure == nil {
					return nil
				}
				return []client.Object{infrastructure}
			}
			trip := newTrip(t, d, objects(tc.cached)...)
			if tc.unserved {
				trip.Kinds = nil
			}
			cr, _ := healthy()
			cr.Spec.ManagementState = tc.state
			if !tc.unannotated {
				cr.Annotations = map[string]string{openshift.NotWantedAnnotation: "GCP"}
			}
			if tc.deleted {
				now := metav1.NewTime(began)
				cr.DeletionTimestamp = &now
			}
			newest := cr.DeepCopy()
			if tc.newer {
				newest.Generation++
			}
			trip.Live = newCluster(t, append(objects(tc.live), newest)...)
			got, err := trip.notWanted(t.Context(), cr)
			if text := errors.Join(err); (text == nil) != (tc.err == "") || text != nil && text.Error() != tc.err {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(removalWish{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What is not known removes nothing: the driver is reported on, with the error.
func TestAPlatformThatCantBeReadRemovesNothing(t *testing.T) {
	d := disk()
	d.Removable = false
	trip := newTrip(t, d, of("GCP"))
	trip.cluster.Refuse(errors.New("no route"), "get Infrastructure cluster")
	cr, _ := healthy()
	cr.Annotations = map[string]string{openshift.NotWantedAnnotation: "GCP"}
	result := trip.act(t.Context(), cr)
	if result.err == nil || result.removal != (removal{}) || result.unwanted.remove || len(trip.cluster.Writes) > 0 {
		t.Errorf("%+v, %v, sent %v", result.removal, result.err, trip.cluster.Sent())
	}
}

// Its event comes: until then neither a removal nor an installation is right.
func TestAClusterCSIDriverThatIsNotTheNewestIsLeftAlone(t *testing.T) {
	d := disk()
	d.Removable = false
	cr, _ := healthy()
	cr.Annotations = map[string]string{openshift.NotWantedAnnotation: "GCP"}
	trip := newTrip(t, d, of("GCP"), cr)
	newest := cr.DeepCopy()
	newest.Generation++
	live := newCluster(t, of("GCP"), newest)
	trip.Live = live
	again, err := trip.Reconcile(t.Context(), trip.request())
	if err != nil || again.RequeueAfter != 0 || len(trip.cluster.Sent()) > 0 || len(live.Sent()) > 0 {
		t.Errorf("%+v, %v, sent %v, %v", again, err, trip.cluster.Sent(), live.Sent())
	}
}
