package efshealth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	conditionsWrite = "apply status ClusterCSIDriver efs.csi.aws.com"
	keepsKeys       = "apply ClusterCSIDriver efs.csi.aws.com"
)

func classFor(name, fileSystem string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: efs.DriverName, Parameters: map[string]string{"fileSystemId": fileSystem},
	}
}

func nodeIn(name, zone string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}, Spec: corev1.NodeSpec{Taints: taints},
	}
}

// tripOn is a reconciler in us-east-1 with a class for the regional file system, a node, and a tag that the cluster's access points are to have.
func tripOn(t *testing.T, cloud Cloud, more ...client.Object) (*Reconciler, *canned.Cluster) {
	t.Helper()
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, UID: "1-2"}}
	objects := []client.Object{cr, secret("one"), infrastructure("us-east-1"), classFor("efs", regional), nodeIn("n", "us-east-1a")}
	r, c := onAWS(t, &region{}, append(objects, more...)...)
	r.HasInfrastructure = true
	r.Connect = func(context.Context, aws.Options) (Cloud, error) { return cloud, nil }
	r.Tags = func(string, []configv1.AWSResourceTag) map[string]string { return map[string]string{"team": "x"} }
	r.OwnerTag = func(id string) string { return "kubernetes.io/cluster/" + id }
	return r, c
}

// owned is an access point that the driver of this cluster has made.
func owned(id string, more ...string) aws.AccessPoint {
	tags := made(more...)
	tags["kubernetes.io/cluster/dev-x"] = "owned"
	return aws.AccessPoint{ID: id, State: aws.StateAvailable, Tags: tags}
}

// told are the conditions that were written, those that are True with their messages.
func told(t *testing.T, c *canned.Cluster) []string {
	t.Helper()
	if cr := canned.Written[operatorv1.ClusterCSIDriver](t, c, conditionsWrite); cr != nil {
		return brief(cr.Status.Conditions)
	}
	return nil
}

func TestALookEndsWithConditionsAndTheTimeOfTheNextOne(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("z"))
	const unused = "AWSEFSAccessPointsUnused: file system fs-11111111 has 1 access points that this cluster created and no volume uses: fsap-1; the " +
		"operator keeps them, because their data may be needed"
	const outdated = "AWSEFSAccessPointTagsOutdated: 1 access points of this cluster do not have the resource tags of the Infrastructure: "
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(cloud *scripted, c *canned.Cluster)
		again   time.Duration
		writes  []string
		told    []string
		err     string
	}{
		"all is well": {again: longInterval, writes: []string{keepsKeys, conditionsWrite}},
		"something is missing in AWS": {
			objects: []client.Object{classFor("gone", absent)}, again: shortInterval, writes: []string{keepsKeys, conditionsWrite},
			told: []string{"AWSEFSFileSystemMissing: file system fs-33333333 does not exist in region us-east-1 of the account of Secret " +
				"here/aws-efs-cloud-credentials: pods can't mount it; correct the ID, or delete the objects that use it: StorageClass/gone"},
		},
		"something that nobody mends in AWS": {
			change: func(cloud *scripted, _ *canned.Cluster) {
				cloud.points = map[string][]aws.AccessPoint{regional: {owned("fsap-1", "team", "x")}}
			}, again: longInterval, writes: []string{keepsKeys, conditionsWrite}, told: []string{unused},
		},
		"no answer": {change: func(cloud *scripted, _ *canned.Cluster) {
			cloud.fails = map[string]error{"list": errors.New("no route")}
		}, again: firstPause},
		"tags that can't be set": {
			change: func(cloud *scripted, _ *canned.Cluster) {
				cloud.points, cloud.fails = map[string][]aws.AccessPoint{regional: {owned("fsap-1")}}, map[string]error{"tag": errors.New("no route")}
			}, again: tagRetry, writes: []string{keepsKeys, conditionsWrite},
			told: []string{outdated + "update the tags of access point fsap-1: no route", unused},
		},
		"tags that it may not set": {
			change: func(cloud *scripted, _ *canned.Cluster) {
				cloud.points, cloud.fails = map[string][]aws.AccessPoint{regional: {owned("fsap-1")}}, map[string]error{"tag": refusal("TagResource")}
			}, again: tagRetry, writes: []string{keepsKeys, conditionsWrite},
			told: []string{outdated + "the credentials lack permission elasticfilesystem:TagResource", unused, "AWSEFSPermissionMissing: the credentials " +
				"of Secret here/aws-efs-cloud-credentials lack permission elasticfilesystem:TagResource: add it to their IAM policy, which \"oc storage iam " +
				"policy controller\" prints"},
		},
		"keys that can't be kept": {
			change: func(_ *scripted, c *canned.Cluster) { c.Refuse(errors.New("refused"), keepsKeys) },
			writes: []string{keepsKeys, conditionsWrite}, err: "record the tag keys of access points: refused",
		},
		"keys that somebody else keeps at the moment": {
			change: func(_ *scripted, c *canned.Cluster) { c.Refuse(conflict, keepsKeys) }, writes: []string{keepsKeys, conditionsWrite}, again: time.Second,
		},
		"conditions that can't be written": {
			change: func(_ *scripted, c *canned.Cluster) { c.Refuse(errors.New("refused"), conditionsWrite) },
			writes: []string{keepsKeys, conditionsWrite}, err: "write status of ClusterCSIDriver efs.csi.aws.com: refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &scripted{systems: []aws.FileSystem{{ID: regional}}, targets: map[string][]aws.MountTarget{regional: {{Zone: "us-east-1a", State: aws.StateAvailable}}}}
			r, c := tripOn(t, cloud, tc.objects...)
			if tc.change != nil {
				tc.change(cloud, c)
			}
			again, err := trip(t, r)
			if (tc.err == "") != (err == nil) || err != nil && err.Error() != tc.err || again != tc.again {
				t.Errorf("again in %s, error %v; want %s, %s", again, err, tc.again, tc.err)
			}
			if diff := cmp.Diff(tc.writes, c.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := told(t, c); tc.err == "" {
				slices.Sort(got)
				if diff := cmp.Diff(tc.told, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestWhatCannotBeReadEndsALook(t *testing.T) {
	for request, want := range map[string]string{
		"get ClusterCSIDriver": "read ClusterCSIDriver efs.csi.aws.com: no answer",
		"get Infrastructure":   "read Infrastructure cluster: no answer",
		"get Secret":           "read Secret aws-efs-cloud-credentials: no answer",
		"get ConfigMap":        "read ConfigMap here/aws-efs-csi-driver-trusted-ca-bundle: no answer",
		"list StorageClass":    "list StorageClasses: no answer",
	} {
		cloud := &scripted{}
		r, c := tripOn(t, cloud)
		c.Refuse(errors.New("no answer"), request)
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: efs.DriverName}})
		if err == nil || err.Error() != want || result != (ctrl.Result{}) || len(c.Writes)+len(cloud.asked) > 0 {
			t.Errorf("%s: %+v, error %v, writes %v, asked %v", request, result, err, c.Writes, cloud.asked)
		}
	}
	// What has been read from the cache may have gone from the cluster.
	r, _ := tripOn(t, &scripted{})
	_, live := newReconciler(t)
	r.Live = live
	if _, err := r.connect(t.Context(), place{region: "us-east-1"}); !apierrors.IsNotFound(err) || r.connection.madeOf != "" {
		t.Errorf("error %v, connection %+v", err, r.connection)
	}
	live.Objects = append(live.Objects, secret("one"))
	r, c := tripOn(t, &scripted{}, bundle("certificates"))
	r.Live = live
	if _, err := r.connect(t.Context(), place{region: "us-east-1"}); err != nil || len(c.Writes) > 0 || slices.ContainsFunc(live.Reads, func(read string) bool {
		return strings.Contains(read, "ConfigMap")
	}) {
		t.Errorf("the bundle, which a watch delivers, is read once more: error %v, reads %v", err, live.Reads)
	}
}

func TestWithoutAPlaceTheOperatorsOwnRegionCounts(t *testing.T) {
	bare := infrastructure("eu-west-1")
	bare.Status.PlatformStatus = nil
	ours := place{region: "us-east-1"}
	for name, tc := range map[string]struct {
		served bool
		object *configv1.Infrastructure
		want   place
	}{
		"a cluster without that kind": {false, infrastructure("eu-west-1"), ours},
		"a cluster without it":        {true, nil, ours},
		"one that names no platform":  {true, bare, place{region: "us-east-1", infraID: "dev-x"}},
		"one on AWS": {true, infrastructure("eu-west-1"),
			place{region: "eu-west-1", infraID: "dev-x", endpoints: map[string]string{"ec2": "https://ec2.example"}}},
	} {
		var objects []client.Object
		if tc.object != nil {
			objects = append(objects, tc.object)
		}
		r, _ := newReconciler(t, objects...)
		r.HasInfrastructure = tc.served
		got, err := r.place(t.Context())
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(place{})); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// Nothing of it may be said any more, and when AWS was asked still counts.
func TestWhoStopsToLookForgetsWhatWasSeen(t *testing.T) {
	cloud := &scripted{systems: []aws.FileSystem{{ID: oneZone, Zone: "us-east-1a"}}}
	r, c := tripOn(t, cloud)
	if _, err := trip(t, r); err != nil || r.seen == nil || len(r.emitted) == 0 {
		t.Fatalf("error %v, seen %+v, told %v", err, r.seen, r.emitted)
	}
	eventsOf(t, r)
	asked := len(cloud.asked)
	c.Objects = slices.DeleteFunc(c.Objects, func(object client.Object) bool { return object.GetName() == secretName })
	if again, err := trip(t, r); err != nil || again != 0 {
		t.Errorf("again in %s, error %v", again, err)
	}
	if r.seen != nil || len(r.emitted) > 0 || !r.answered.Equal(at) || len(eventsOf(t, r)) > 0 {
		t.Errorf("seen %+v, told %v, facts %+v", r.seen, r.emitted, r.facts)
	}
	if got := r.Shares.Locate(t.Context(), regional, ""); got != (efs.Placement{Off: true}) {
		t.Errorf("SharedVolumes are told %+v", got)
	}
	// One of the first look, and one for all.
	if first, all := (<-r.Shares.changes).Object.GetName(), (<-r.Shares.changes).Object.GetName(); first != regional || all != "" || len(r.Shares.changes) > 0 {
		t.Errorf("SharedVolumes are woken for %q and %q, and %d more", first, all, len(r.Shares.changes))
	}
	c.Objects = append(c.Objects, secret("two"))
	r.setClock(func() time.Time { return at.Add(time.Minute) })
	if again, err := trip(t, r); err != nil || again != shortInterval-time.Minute || len(cloud.asked) != asked {
		t.Errorf("with credentials: again in %s, error %v, asked %v", again, err, cloud.asked)
	}
}

// Else each of them would ask AWS for what the poll brings.
func TestSharedVolumesHearOfNewCredentialsAfterThePollThatIsDue(t *testing.T) {
	cloud := &scripted{fails: map[string]error{"list": answer("UnrecognizedClientException")}}
	r, c := tripOn(t, cloud)
	if _, err := trip(t, r); err != nil || r.failures != 1 {
		t.Fatalf("error %v, facts %+v", err, r.facts)
	}
	c.Objects[1] = secret("two")
	r.Connect = func(context.Context, aws.Options) (Cloud, error) {
		return &scripted{systems: []aws.FileSystem{{ID: regional}}}, nil
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: efs.DriverName}}); err != nil || len(r.Shares.changes) > 0 {
		t.Errorf("before the poll: error %v, %d events", err, len(r.Shares.changes))
	}
	if _, err := trip(t, r); err != nil || len(r.Shares.changes) != 2 {
		t.Errorf("after the poll: error %v, %d events", err, len(r.Shares.changes))
	}
}

// To wait no time means to wait for ever.
func TestALookThatTakesLongerThanItsPauseIsFollowedByAnother(t *testing.T) {
	cloud := &scripted{systems: []aws.FileSystem{{ID: regional}}}
	r, _ := tripOn(t, cloud)
	r.setClock(func() time.Time {
		if len(cloud.asked) > 0 {
			return at.Add(2 * longInterval)
		}
		return at
	})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: efs.DriverName}}); err != nil {
		t.Fatal(err)
	}
	if again := r.poller.Tick(t.Context()); again != time.Second {
		t.Errorf("again in %s", again)
	}
}
