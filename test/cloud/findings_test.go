package cloud

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	missingSystem = "fs-0badc0de0badc0de0"
	missingPoint  = "fsap-0badc0de0badc0de0"
)

// wrong is a cluster with one thing of each kind that can be wrong with what it has in AWS.
type wrong struct {
	*scene
	// zonal is One Zone in b; crowded has 120 access points, and no mount target in c.
	zonal, crowded  string
	owned, ofOthers []string
	used            string
	loose, ghost    *storagev1.StorageClass
	lost            *corev1.PersistentVolume
}

// in is the same for a subtest.
func (w *wrong) in(t *testing.T) *wrong {
	same := *w
	same.scene = w.scene.in(t)
	return &same
}

func TestAProblemInAWSIsReportedUntilItIsFixed(t *testing.T) {
	w := &wrong{scene: open(t, "wrong")}
	t.Cleanup(func() {
		env.Must(t, w.cluster.ResourceTags(context.Background(), nil))
		w.patch(env.EFS(""), `{"spec":{"observedConfig":null}}`)
	})
	w.zonal, w.crowded = w.system("b", "b"), w.system("", "a", "b")
	// It is evaluated when it is a minute old.
	w.lost = w.volume("lost", w.crowded, missingPoint)
	w.volume("across", w.zonal, w.AccessPoint(w.zonal, nil))
	w.loose, w.ghost = w.class("loose", w.zonal), w.class("ghost", missingSystem)
	w.credentials()
	w.crowd()
	w.volume("used", w.crowded, w.used)
	// Each goes on where the one before it has ended.
	for _, part := range []struct {
		name string
		test func(w *wrong)
	}{
		{"access points are counted and get their tags", (*wrong).accessPoints},
		{"what changed while no operator ran is done later", (*wrong).tagsAfterRestart},
		{"denied tags are no storm", (*wrong).deniedTags},
		{"each thing that is wrong is named", (*wrong).findings},
		{"what is mended is reported no more", (*wrong).mended},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(w.in(t)) }) {
			return
		}
	}
}

// crowd makes 120 access points, of which 11 are this cluster's: more than one page.
func (w *wrong) crowd() {
	w.t.Helper()
	for range 11 {
		w.owned = append(w.owned, w.AccessPoint(w.crowded, fakeaws.OwnedBy(w.infra, driverTag, "true", "team", "a")))
	}
	w.used = w.owned[0]
	tags := []fakeaws.Tags{fakeaws.OwnedBy(w.infra+"-2", "cost", "theirs"), fakeaws.OwnedBy("other"), {"team": "b"}}
	for i := range 109 {
		w.ofOthers = append(w.ofOthers, w.AccessPoint(w.crowded, tags[i%len(tags)]))
	}
}

// tags are those of all access points of a file system.
func (w *wrong) tags() map[string]fakeaws.Tags {
	w.t.Helper()
	// moto does not page.
	list, err := w.EFS.DescribeAccessPoints(w.t.Context(), &efs.DescribeAccessPointsInput{FileSystemId: &w.crowded})
	env.Must(w.t, err)
	all := map[string]fakeaws.Tags{}
	for _, point := range list.AccessPoints {
		tags := fakeaws.Tags{}
		for _, tag := range point.Tags {
			tags[sdk.ToString(tag.Key)] = sdk.ToString(tag.Value)
		}
		all[*point.AccessPointId] = tags
	}
	return all
}

// tagged checks the tags of our access points besides the tags that they were made with, and that no others have changed. A call is counted
// before AWS has carried it out.
func (w *wrong) tagged(before map[string]fakeaws.Tags, want fakeaws.Tags) func() error {
	expected := maps.Clone(before)
	for _, id := range w.owned {
		expected[id] = fakeaws.OwnedBy(w.infra, driverTag, "true", "team", "a")
		maps.Copy(expected[id], want)
	}
	return func() error {
		if diff := cmp.Diff(expected, w.tags()); diff != "" {
			return fmt.Errorf("tags (-want +got):\n%s", diff)
		}
		return nil
	}
}

func (w *wrong) accessPoints() {
	before := w.tags()
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), fakeaws.Tags{"cost": "1", "old": "x"}))
	w.Set(nil)
	w.start("ACCESS_POINT_LIMIT=128")
	one := fmt.Sprintf("{driver=%q,file_system=%q}", driverName, w.crowded)
	w.until("access points counted",
		w.says("AccessPointsNearLimit", w.crowded, "120 of at most 128"), w.hasEvent(driverName, "AccessPointsNearLimit", w.crowded),
		w.says("AccessPointsUnused", "10 access points", "the operator keeps them"), w.hasEvent(driverName, "AccessPointsUnused", w.crowded),
		w.metric("csi_operator_access_points"+one, 120), w.metric("csi_operator_access_points_limit"+one, 128),
		w.metric("csi_operator_access_points_unused"+one, 10), w.metric(problem("AccessPointsNearLimit", w.crowded, ""), 1))
	w.until("tags brought", w.count(tagResource, len(w.owned)), w.metric("csi_operator_access_points_outdated_tags", 0),
		w.tagged(before, fakeaws.Tags{"cost": "1", "old": "x"}))
	env.Quiet(w.t, w.shared.operator)
	// The other file system has one page of access points.
	w.sent(map[string]int{describeSystems: 1, describeTargets: 2, describePoints: 3, tagResource: len(w.owned)})
}

// tagsAfterRestart changes a tag and takes one away while no operator runs.
func (w *wrong) tagsAfterRestart() {
	w.stop()
	for _, id := range w.owned[9:] {
		_, err := w.EFS.DeleteAccessPoint(w.t.Context(), &efs.DeleteAccessPointInput{AccessPointId: &id})
		env.Must(w.t, err)
	}
	w.owned = w.owned[:9]
	before := w.tags()
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), fakeaws.Tags{"cost": "2"}))
	w.Set(nil)
	w.start()
	w.until("tags changed and removed", w.count(tagResource, len(w.owned)), w.count(untagResource, len(w.owned)),
		// The driver may still make some with the old one.
		w.remembered(`{"accessPointTags":["cost","old"]}`), w.tagged(before, fakeaws.Tags{"cost": "2"}))
}

// deniedTags goes on where no access point has lost a tag.
func (w *wrong) deniedTags() {
	w.Set(denied(tagResource))
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), fakeaws.Tags{"cost": "3"}))
	w.until("the denial reported", w.says("AccessPointTagsOutdated", "9 access points", tagResource),
		w.says("PermissionMissing", tagResource, "oc storage iam policy controller"), w.hasEvent(driverName, "PermissionMissing", tagResource),
		w.metric(problem("PermissionMissing", "", tagResource), 1), w.metric("csi_operator_access_points_outdated_tags", 9))
	for i := range 10 {
		w.patch(env.EFS(""), fmt.Sprintf(`{"metadata":{"annotations":{"test":"%d"}}}`, i))
	}
	env.Quiet(w.t, w.shared.operator)
	// On a slow machine a pause may end meanwhile; each is twice as long as the one before.
	if count := w.Count(tagResource); count > 3 || len(w.Calls()) != count {
		w.t.Errorf("the calls are %v", w.Calls())
	}
	// What was wanted before is what is there.
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), fakeaws.Tags{"cost": "2"}))
	w.until("nothing outdated", w.says("AccessPointsUnused"), w.not("AccessPointTagsOutdated"), w.not("OptionalPermissionMissing"))
	w.Set(denied(untagResource))
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), nil))
	w.until("the denial reported", w.says("AccessPointTagsOutdated", "9 access points"), w.says("OptionalPermissionMissing", untagResource))
	env.Must(w.t, w.cluster.ResourceTags(w.t.Context(), fakeaws.Tags{"cost": "2"}))
	w.until("nothing outdated", w.not("AccessPointTagsOutdated"))
	if count := w.Count(untagResource); count > 3 || len(w.Calls()) != count {
		w.t.Errorf("the calls are %v", w.Calls())
	}
}

func (w *wrong) findings() {
	w.until("a volume old enough to be evaluated", func() error {
		if age := time.Since(w.lost.CreationTimestamp.Time); age < time.Minute+time.Second {
			return fmt.Errorf("it is %s old", age)
		}
		return nil
	})
	w.Set(nil)
	w.start()
	for _, one := range []struct {
		problem, fileSystem, object string
		texts                       []string
	}{
		{"OneZoneStorageClass", w.zonal, w.loose.Name, []string{"us-east-1b", "enforceZoneAffinity"}},
		{"MountTargetMissing", w.crowded, "us-east-1c", []string{"security group"}},
		{"FileSystemMissing", missingSystem, "StorageClass/" + w.ghost.Name, []string{"region us-east-1"}},
		{"AccessPointMissing", w.crowded, missingPoint, []string{w.lost.Name}},
		{"PermissionMissing", w.zonal, describeTargets, []string{"NODE_ROLEARN", w.namespace + "-across"}},
	} {
		texts := append(one.texts, one.fileSystem, strings.TrimPrefix(strings.TrimPrefix(one.object, "StorageClass/"), describeTargets))
		w.until(one.problem+" reported", w.says(one.problem, texts...), w.hasEvent(driverName, one.problem, one.fileSystem),
			w.metric(problem(one.problem, one.fileSystem, one.object), 1))
	}
	w.until("how many volumes are One Zone", w.metric(
		fmt.Sprintf("csi_operator_one_zone_volumes{driver=%q,file_system=%q,zone=\"us-east-1b\"}", driverName, w.zonal), 1))
	env.Must(w.t, w.only("OneZoneStorageClass", "MountTargetMissing", "FileSystemMissing", "AccessPointMissing", "PermissionMissing", "AccessPointsUnused")())
	nothing, something := w.share("nothing", w.crowded, missingPoint), w.share("something", w.crowded, w.used)
	w.until("a SharedVolume reported as well", w.ready(nothing, "False/AccessPointNotFound", missingPoint), w.ready(something, "True/Regional"))
	// The second look at the tags finds them as they should be.
	w.sent(map[string]int{describeSystems: 1, describeTargets: 2, describePoints: 3})
}

// mended takes away in the cluster what is wrong there, for which nobody asks AWS, and then in AWS.
func (w *wrong) mended() {
	// The operator may still look at a SharedVolume that the part before has deleted.
	env.Quiet(w.t, w.shared.operator)
	w.Set(nil)
	for _, object := range []client.Object{w.loose, w.ghost, w.lost} {
		w.drop(object)
	}
	node := env.KeySecret("node-"+env.CloudSecret, "AKIANODE", "made-up")
	w.keep(node)
	w.until("only what is wrong in AWS is left", w.only("MountTargetMissing", "AccessPointsUnused"), w.hasEvent(driverName, "FileSystemMissingMended", ""),
		w.metric(problem("PermissionMissing", w.zonal, describeTargets), 0))
	w.sent(map[string]int{})
	w.MountTarget(w.crowded, w.shared.subnets["c"])
	w.start()
	w.until("nothing is wrong any more", w.only("AccessPointsUnused"), w.metric("csi_operator_cloud_problem", 1))
	for _, call := range w.Calls() {
		if call.Writes() {
			w.t.Errorf("%s of %s", call.Action, call.Object)
		}
	}
}

// count checks how many calls there were.
func (s *scene) count(action string, want int) func() error {
	return func() error {
		if got := s.Count(action); got != want {
			return fmt.Errorf("%d calls of %s, want %d", got, action, want)
		}
		return nil
	}
}

// not checks that a condition is false.
func (s *scene) not(problem string) func() error {
	return func() error {
		states, err := s.states()
		if err == nil && states[problem] != "False" {
			err = fmt.Errorf("condition %s is %q", problem, states[problem])
		}
		return err
	}
}

// remembered checks which keys the operator would take off.
func (s *scene) remembered(want string) func() error {
	return func() error {
		cr := env.EFS("")
		err := s.cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(cr), cr)
		if kept := string(cr.Spec.ObservedConfig.Raw); err == nil && kept != want {
			err = fmt.Errorf("spec.observedConfig is %s, want %s", kept, want)
		}
		return err
	}
}
