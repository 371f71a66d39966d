package efshealth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// at is when these tests happen.
var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const secretName = "aws-efs-cloud-credentials"

// newReconciler works on a cluster with objects. Its caches have the same ones.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, *canned.Cluster) {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := canned.New(scheme, objects...)
	r := &Reconciler{
		Client: c, Live: c, Recorder: events.NewFakeRecorder(100), Namespace: "here", Region: "us-east-1", Limit: 1000, Now: func() time.Time { return at },
		Driver:     driver.Driver{Name: efs.DriverName, Operator: "operator", Prefix: "aws-efs-csi-driver", ConditionPrefix: "AWSEFS"},
		Controller: driver.Credentials{Secret: secretName, Keys: [][]string{{"aws_access_key_id", "aws_secret_access_key"}}},
		DriverTag:  driverTag,
	}
	if err := r.prepare(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	return r, c
}

// setClock makes it another time.
func (r *Reconciler) setClock(now func() time.Time) {
	r.Now, r.poller.now, r.Shares.now = now, now, now
}

// eventsOf are the events that were recorded, without those that were read before.
func eventsOf(t *testing.T, r *Reconciler) []string {
	t.Helper()
	recorder, ok := r.Recorder.(*events.FakeRecorder)
	if !ok {
		t.Fatal("events go elsewhere")
	}
	var found []string
	for len(recorder.Events) > 0 {
		found = append(found, <-recorder.Events)
	}
	return found
}

// brief is "Type=Status" of conditions, without those that say that all is well.
func brief(conditions []operatorv1.OperatorCondition) []string {
	var list []string
	for _, one := range conditions {
		if one.Status == operatorv1.ConditionTrue {
			list = append(list, one.Type+": "+one.Message)
		}
	}
	return list
}

func types(conditions []operatorv1.OperatorCondition) []string {
	var list []string
	for _, one := range conditions {
		list = append(list, strings.TrimPrefix(one.Type, "AWSEFS"))
	}
	return list
}

func TestEachProblemHasAConditionOnceItCanBeJudged(t *testing.T) {
	about := []string{"CloudUnreachable", "OptionalPermissionMissing", "PermissionMissing"}
	answered := []string{"FileSystemMissing", "OneZoneStorageClass"}
	points := []string{"AccessPointMissing", "AccessPointTagsOutdated", "AccessPointsNearLimit", "AccessPointsUnused"}
	for name, tc := range map[string]struct {
		seen   *snapshot
		denied denials
		want   []string
	}{
		"AWS was not asked yet":               {nil, nil, nil},
		"AWS has not answered what it has":    {&snapshot{}, nil, about},
		"AWS has answered everything":         {&snapshot{systems: map[string]string{}}, nil, slices.Concat(about, answered, points, []string{"MountTargetMissing"})},
		"mount targets are a secret":          {&snapshot{systems: map[string]string{}}, denials{"elasticfilesystem:DescribeMountTargets": "no"}, slices.Concat(about, answered, points)},
		"access points are a secret":          {&snapshot{systems: map[string]string{}}, denials{"elasticfilesystem:DescribeAccessPoints": "no"}, slices.Concat(about, answered, []string{"MountTargetMissing"})},
		"it is a secret who may tag, no more": {&snapshot{systems: map[string]string{}}, denials{"elasticfilesystem:TagResource": "no"}, slices.Concat(about, answered, points, []string{"MountTargetMissing"})},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newReconciler(t)
			r.seen, r.denied = tc.seen, tc.denied
			got := types(r.conditions(&operatorv1.ClusterCSIDriver{}, nil))
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatWasSaidBeforeARestartStaysUntilAWSAnswers(t *testing.T) {
	before := status.Condition("AWSEFSFileSystemMissing", true, "FileSystemMissing", "file system fs-1 is not there")
	cr := &operatorv1.ClusterCSIDriver{}
	cr.Status.Conditions = []operatorv1.OperatorCondition{before, status.Condition("Available", true, "", "")}
	r, _ := newReconciler(t)
	r.connection.cloud = listed{}
	if diff := cmp.Diff([]operatorv1.OperatorCondition{before}, r.conditions(cr, nil)); diff != "" {
		t.Errorf("before AWS was asked (-want +got):\n%s", diff)
	}
	r.connection.cloud = nil
	if got := r.conditions(cr, nil); len(got) > 0 {
		t.Errorf("without credentials: %+v", got)
	}
}

func TestAConditionNamesTenAndCountsTheRest(t *testing.T) {
	r, _ := newReconciler(t)
	var found []finding
	for i := range 12 {
		found = append(found, finding{problem: fileSystemMissing, message: fmt.Sprintf("number %02d", i)})
	}
	got := brief(r.conditions(&operatorv1.ClusterCSIDriver{}, found))
	if len(got) != 1 || !strings.HasPrefix(got[0], "AWSEFSFileSystemMissing: number 00\n") || !strings.HasSuffix(got[0], "number 09\nand 2 more") {
		t.Errorf("it says %q", got)
	}
	got = brief(r.conditions(&operatorv1.ClusterCSIDriver{}, found[:10]))
	if len(got) != 1 || !strings.HasSuffix(got[0], "\nnumber 09") {
		t.Errorf("of ten it says %q", got)
	}
}

// Events report what is new, a restart of the operator is no news.
func TestAnEventTellsOnce(t *testing.T) {
	missing := finding{problem: fileSystemMissing, fileSystem: "fs-1", object: "PersistentVolume/a", message: "file system fs-1 is not there: PersistentVolume/a"}
	unused := finding{problem: accessPointsUnused, fileSystem: "fs-1", message: "no volume uses 2 access points of file system fs-1"}
	more := finding{problem: accessPointsUnused, fileSystem: "fs-1", message: "no volume uses 3 access points of file system fs-1"}
	second := finding{problem: fileSystemMissing, fileSystem: "fs-2", object: "StorageClass/b", message: "file system fs-2 is not there: StorageClass/b"}
	is := func(value bool, one finding) operatorv1.OperatorCondition {
		return status.Condition("AWSEFS"+string(one.problem), value, "", one.message)
	}
	for name, tc := range map[string]struct {
		before []operatorv1.OperatorCondition
		told   []finding
		found  []finding
		want   []string
	}{
		"nothing":           {},
		"a warning":         {found: []finding{missing}, want: []string{"Warning FileSystemMissing " + missing.message}},
		"a note":            {found: []finding{unused}, want: []string{"Normal AccessPointsUnused " + unused.message}},
		"two of a kind":     {found: []finding{missing, second}, want: []string{"Warning FileSystemMissing " + missing.message + "; " + second.message}},
		"told before":       {told: []finding{missing}, found: []finding{missing}},
		"one more":          {told: []finding{missing}, found: []finding{missing, second}, want: []string{"Warning FileSystemMissing " + second.message}},
		"another number":    {told: []finding{unused}, found: []finding{more}},
		"after a restart":   {before: []operatorv1.OperatorCondition{is(true, missing)}, found: []finding{missing}},
		"number in between": {before: []operatorv1.OperatorCondition{is(true, unused)}, found: []finding{more}},
		"news of a restart": {before: []operatorv1.OperatorCondition{is(true, missing)}, found: []finding{missing, second}, want: []string{"Warning FileSystemMissing " + second.message}},
		"it was well":       {before: []operatorv1.OperatorCondition{is(false, missing)}, found: []finding{missing}, want: []string{"Warning FileSystemMissing " + missing.message}},
		"it has gone":       {before: []operatorv1.OperatorCondition{is(true, missing)}, want: []string{"Normal FileSystemMissingMended the problem is resolved"}},
		"it had gone":       {before: []operatorv1.OperatorCondition{is(false, missing)}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newReconciler(t)
			r.seen = &snapshot{systems: map[string]string{}}
			for _, one := range tc.told {
				r.emitted[one.key()] = true
			}
			cr := &operatorv1.ClusterCSIDriver{}
			cr.Status.Conditions = tc.before
			r.emit(cr, tc.found)
			if diff := cmp.Diff(tc.want, eventsOf(t, r), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			r.emit(cr, tc.found)
			if again := eventsOf(t, r); len(again) > 0 && name != "it has gone" {
				t.Errorf("told again: %v", again)
			}
		})
	}
}

func TestNothingIsReportedAsMendedThatCannotBeSeen(t *testing.T) {
	r, _ := newReconciler(t)
	cr := &operatorv1.ClusterCSIDriver{}
	cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("AWSEFSFileSystemMissing", true, "", "x")}
	r.emit(cr, nil)
	if got := eventsOf(t, r); len(got) > 0 {
		t.Errorf("it says %v", got)
	}
}

func TestConditionsAreWrittenByAFieldManagerOfTheirOwn(t *testing.T) {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName, UID: "1-2"}}
	cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("Available", true, "", "")}
	r, c := newReconciler(t)
	found := []finding{{problem: cloudUnreachable, message: "can't check AWS"}}
	if wait, err := r.report(t.Context(), cr, found); err != nil || wait != 0 {
		t.Fatalf("waits %s, error %v", wait, err)
	}
	want := `{"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver","metadata":{"name":"efs.csi.aws.com","uid":"1-2"},"status":{"conditions":[` +
		`{"lastTransitionTime":"2026-01-01T12:00:00Z","message":"can't check ` +
		`AWS","reason":"CloudUnreachable","status":"True","type":"AWSEFSCloudUnreachable"}]}}`
	if len(c.Bodies) != 1 || c.Bodies[0] != want || r.writer.Owner != "operator-filesystem" {
		t.Errorf("%s wrote %v", r.writer.Owner, c.Bodies)
	}
	if got := eventsOf(t, r); len(got) != 1 {
		t.Errorf("events %v", got)
	}
	// The next one is too soon, and is told with its condition.
	found[0].message = "can't check AWS at all"
	if wait, err := r.report(t.Context(), cr, append(found, finding{problem: oneZoneStorageClass, message: "x"})); err != nil || wait == 0 || len(c.Bodies) != 1 {
		t.Errorf("waits %s, error %v, wrote %v", wait, err, c.Bodies[1:])
	}
	if got := eventsOf(t, r); len(got) > 0 {
		t.Errorf("told before it is written: %v", got)
	}
	// What is the same costs nothing.
	cr.Status.Conditions = append(cr.Status.Conditions, status.Condition("AWSEFSCloudUnreachable", true, "CloudUnreachable", "can't check AWS"))
	if wait, err := r.report(t.Context(), cr, []finding{{problem: cloudUnreachable, message: "can't check AWS"}}); err != nil || wait != 0 || len(c.Bodies) != 1 {
		t.Errorf("waits %s, error %v, wrote %v", wait, err, c.Bodies[1:])
	}
}

func TestTheMessageOfEachProblemSaysWhatToDo(t *testing.T) {
	used, seen := healthy()
	used.zones = []string{"us-east-1a", "us-east-1c"}
	used.classes = append(used.classes, class{name: "loose", fileSystem: oneZone}, class{name: "gone", fileSystem: absent})
	used.volumes = append(used.volumes, volume{name: "pv-3", fileSystem: regional, accessPoint: other}, volume{name: "pv-4", fileSystem: oneZone},
		volume{name: "pv-5", fileSystem: absent, shared: true})
	used.volumes[0].accessPoint = ""
	about := circumstances{region: "us-east-1", limit: 1, secret: "here/secret", denied: denials{
		"elasticfilesystem:DescribeFileSystems": "no", "elasticfilesystem:UntagResource": "no", "sts:AssumeRoleWithWebIdentity": "no",
	}}
	var got []string
	for _, one := range evaluate(used, seen, about) {
		got = append(got, one.message)
	}
	slices.Sort(got)
	want := []string{
		"PersistentVolume/pv-3 needs access point fsap-22222222, which file system fs-11111111 does not have: pods can't mount the volume; its data may " +
			"still exist: create another access point with the same path, and a PersistentVolume that uses the new access point",
		"StorageClass loose uses file system fs-22222222, which is One Zone in us-east-1a, but the cluster has nodes in us-east-1a, us-east-1c: pods in " +
			"other zones fail to mount its volumes; create a class with parameter enforceZoneAffinity: \"true\", or use a regional file system",
		"file system fs-11111111 has 1 access points that this cluster created and no volume uses: fsap-11111111; the operator keeps them, because their " +
			"data may be needed",
		"file system fs-11111111 has 1 of at most 1 access points: provisioning fails at the limit; delete unused access points, ask AWS for a higher limit, or " +
			"use another file system",
		"file system fs-11111111 has no mount target in us-east-1c, where the cluster has nodes: pods there fail to mount it, or use a mount target " +
			"of another zone; create one in a subnet of that zone, with a security group that allows inbound TCP port 2049",
		"file system fs-33333333 does not exist in region us-east-1 of the account of Secret here/secret: pods can't mount it; correct the ID, or " +
			"delete the objects that use it: StorageClass/gone, " +
			"PersistentVolume/pv-5",
		"the credentials of Secret here/secret lack permission elasticfilesystem:DescribeFileSystems: add it to their IAM policy, which \"oc storage " +
			"iam policy controller\" prints",
		"the credentials of Secret here/secret lack permission elasticfilesystem:UntagResource: add it to their IAM policy, which \"oc storage iam " +
			"policy controller\" prints",
		"the operator can't check AWS, because the IAM role in Secret here/secret does not trust the operator: add the operator's ServiceAccount to the " +
			"role's trust policy, which \"oc storage iam trust-policy controller\" prints",
		"volumes of file system fs-22222222, which is One Zone in us-east-1a, have no node affinity: pv-4. Node pods in other zones can't find its " +
			"mount target, because they lack elasticfilesystem:DescribeMountTargets. Give the volumes a node affinity. Or, to mount the " +
			"volumes across zones, set NODE_ROLEARN for the operator, and mount option az=us-east-1a on the volumes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
