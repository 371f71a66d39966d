package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const exchange = "sts:AssumeRoleWithWebIdentity"

func TestAWSIsAskedOnceHoweverMuchChanges(t *testing.T) {
	s := open(t, "idle")
	id := s.system("b", "b")
	s.credentials()
	s.Set(nil)
	s.start()
	s.until("started", s.shared.operator.Started)
	env.Quiet(t, s.shared.operator)
	env.Must(t, s.silent())
	s.sent(map[string]int{})

	class := s.class("class", id)
	s.until("the first look", s.only("OneZoneStorageClass"))
	sv := s.share("share", id, s.AccessPoint(id, nil))
	s.until("Ready", s.ready(sv, "True/OneZone"))
	volumes := fmt.Sprintf("csi_operator_one_zone_volumes{driver=%q,file_system=%q,zone=\"us-east-1b\"}", driverName, id)
	s.until("its volume seen", s.metric(volumes, 1))
	env.Quiet(t, s.shared.operator)
	mark, err := s.cluster.Audit.Now()
	env.Must(t, err)
	for i := range 5 {
		label := fmt.Sprintf(`{"metadata":{"labels":{"test":"%d"}}}`, i)
		for _, object := range []client.Object{class.DeepCopy(), env.VolumeOf(sv), sv.DeepCopy(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}} {
			s.patch(object, label)
		}
	}
	s.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}, `{"metadata":{"labels":{"test":null}}}`)
	env.Quiet(t, s.shared.operator)
	requests, err := s.cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if writes := env.Filter(requests, env.Request.IsWrite); len(writes) > 0 {
		t.Errorf("writes for what does not matter:\n%s", env.Describe(writes))
	}
	for i := range 15 {
		s.volume(fmt.Sprintf("volume-%d", i), id, "")
	}
	s.until("all volumes seen", s.metric(volumes, 16))
	// The access point was made after the look, so that the SharedVolume asks for it.
	s.sent(map[string]int{describeSystems: 1, describeTargets: 1, describePoints: 2})
}

// Nobody who uses a share needs AWS to answer the operator.
func TestWhatDoesNotNeedAWSWorksWithoutIt(t *testing.T) {
	s := open(t, "without")
	id := s.system("b", "b")
	point := s.AccessPoint(id, nil)
	secret := s.credentials()
	s.Set(nil)
	s.start("AWS_ENDPOINT_URL=http://127.0.0.1:1")
	down := s.share("down", id, point)
	s.until("Ready while nothing listens", s.ready(down, ""))
	env.Must(t, s.silent())

	const bad = "AKIABAD"
	s.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Key != bad {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusForbidden, "UnrecognizedClientException", "The security token included in the request is invalid.")
		}
	})
	s.rotate(secret, bad)
	s.start()
	refused := s.share("refused", id, point)
	s.until("Ready while AWS refuses the key", s.ready(refused, ""))
	env.Quiet(t, s.shared.operator)
	if count := len(s.Calls()); count == 0 || count > 4 {
		t.Errorf("a key that AWS does not know took %d calls: %v", count, s.Calls())
	}
	s.Set(nil)
	s.rotate(secret, key)
	s.until("AWS answers without a restart", s.ready(refused, "True/OneZone"), s.ready(down, "True/OneZone"), s.only("PermissionMissing"))
	s.sent(map[string]int{describeSystems: 1, describeTargets: 1, describePoints: 1})
	if zones := s.affinity(refused) + s.affinity(down); zones != "" {
		t.Errorf("volumes that exist keep pods in %s", zones)
	}

	s.Set(nil)
	s.region("")
	nowhere := s.share("nowhere", id, point)
	s.until("the missing region is named", s.unreachable, s.ready(nowhere, ""), s.ready(down, ""))
	s.sent(map[string]int{})
	s.region(fakeaws.Region)
	s.until("the region is back", s.ready(nowhere, "True/OneZone"), s.ready(down, "True/OneZone"))
	env.Must(t, s.cluster.Client.Delete(t.Context(), secret))
	s.until("nothing said without credentials", s.silent, s.ready(nowhere, ""), s.ready(down, ""))
}

func (s *scene) rotate(secret *corev1.Secret, id string) {
	s.t.Helper()
	secret.Data["aws_access_key_id"] = []byte(id)
	env.Must(s.t, s.cluster.Client.Update(s.t.Context(), secret))
}

// region makes the Infrastructure say where the cluster is, until the test ends.
func (s *scene) region(name string) {
	s.t.Helper()
	set := func(name string) error {
		infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		patch := fmt.Sprintf(`{"status":{"platformStatus":{"aws":{"region":%q}}}}`, name)
		return s.cluster.Client.Status().Patch(context.Background(), infrastructure, env.Merge(patch))
	}
	env.Must(s.t, set(name))
	s.t.Cleanup(func() {
		if err := set(fakeaws.Region); err != nil {
			s.t.Error(err)
		}
	})
}

func TestARoleIsUsedWithTheOperatorsToken(t *testing.T) {
	s := open(t, "role")
	token := filepath.Join(t.TempDir(), "token")
	env.Must(t, os.WriteFile(token, []byte("token-very-secret"), 0o600))
	id := s.system("b", "b")
	point := s.AccessPoint(id, nil)
	s.class("class", id)
	s.keep(env.RoleSecret(env.CloudSecret, "arn:aws:iam::123456789012:role/efs-csi-controller"))
	s.Set(denied(exchange))
	s.start("AWS_WEB_IDENTITY_TOKEN_FILE=" + token)
	sv := s.share("share", id, point)
	s.until("the trust policy named", s.only("OptionalPermissionMissing"),
		s.says("OptionalPermissionMissing", "does not trust", "oc storage iam trust-policy controller", env.CloudSecret),
		s.metric(problem("OptionalPermissionMissing", "", exchange), 1), s.ready(sv, ""))
	// One for the look, one for the SharedVolume.
	if calls := s.Calls(); len(calls) > 2 || s.Count(exchange) != len(calls) {
		t.Errorf("the calls are %v", calls)
	}
	s.Set(nil)
	s.start("AWS_WEB_IDENTITY_TOKEN_FILE=" + token)
	s.until("AWS answers", s.ready(sv, "True/OneZone"), s.only("OneZoneStorageClass", "PermissionMissing"))
	s.sent(map[string]int{exchange: 1, describeSystems: 1, describeTargets: 1, describePoints: 1})
	for _, call := range s.Calls() {
		if (call.Key == "") != (call.Action == exchange) {
			t.Errorf("%s was signed with %q", call.Action, call.Key)
		}
	}
}

// A developer who makes things up costs the account few requests.
func TestMadeUpFileSystemsCostFewRequests(t *testing.T) {
	s := open(t, "hostile")
	s.class("class", s.system("", "a", "b", "c"))
	s.credentials()
	s.Set(nil)
	s.start()
	s.until("the first look", s.only())
	const many = 40
	began := time.Now()
	// The list is made anew at most every ten seconds.
	atMost := func() int { return 2 + int(time.Since(began)/(10*time.Second)) }
	t.Cleanup(func() {
		env.Must(t, s.cluster.Client.DeleteAllOf(context.Background(), &v1alpha1.SharedVolume{}, client.InNamespace(s.namespace)))
	})
	for i := range many {
		sv := env.SharedVolume(s.namespace, fmt.Sprintf("sv-%d", i))
		sv.Spec.FileSystemID = fmt.Sprintf("fs-%017x", 0xbad000+i)
		env.Must(t, s.cluster.Client.Create(t.Context(), sv))
	}
	s.until("each is reported", func() error {
		list, reported := &v1alpha1.SharedVolumeList{}, 0
		if err := s.cluster.Client.List(t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			sv := &list.Items[i]
			found := meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionMountable)
			if found != nil && found.Status == metav1.ConditionFalse && found.Reason == "FileSystemNotFound" && found.Message != "" {
				reported++
			}
		}
		if reported < many {
			return fmt.Errorf("%d of %d", reported, many)
		}
		return nil
	})
	env.Quiet(t, s.shared.operator)
	t.Logf("%d made-up file systems took %d calls", many, len(s.Calls()))
	if count := s.Count(describeSystems); count > atMost() || len(s.Calls()) != count+3 {
		t.Errorf("the calls are %v", s.Calls())
	}
	env.Must(t, s.cluster.Client.DeleteAllOf(t.Context(), &v1alpha1.SharedVolume{}, client.InNamespace(s.namespace)))
	s.until("all gone", func() error {
		list := &v1alpha1.SharedVolumeList{}
		if err := s.cluster.Client.List(t.Context(), list, client.InNamespace(s.namespace)); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d are left: %w", len(list.Items), err)
		}
		return nil
	})
	// An operator that is ended while many wait in its queue may not end cleanly.
	env.Quiet(t, s.shared.operator)
}

func TestNobodyIsAskedForADriverThatIsNotManaged(t *testing.T) {
	s := open(t, "removed")
	id := s.system("b", "b")
	s.AccessPoint(id, fakeaws.OwnedBy(s.infra, driverTag, "true"))
	s.class("class", id)
	s.credentials()
	s.Set(nil)
	t.Cleanup(func() {
		env.Must(t, s.cluster.ResourceTags(context.Background(), nil))
		env.Must(t, client.IgnoreAlreadyExists(s.cluster.Client.Create(context.Background(), env.EFS(operatorv1.Managed))))
	})
	env.Must(t, s.cluster.ResourceTags(t.Context(), fakeaws.Tags{"cost": "1"}))
	s.state(operatorv1.Unmanaged)
	s.start()
	s.until("AWS looked at", s.only("OneZoneStorageClass", "AccessPointsUnused"))
	env.Quiet(t, s.shared.operator)
	s.sent(map[string]int{describeSystems: 1, describeTargets: 1, describePoints: 1})
	env.Must(t, s.remembered("")())
	s.state(operatorv1.Managed)
	s.until("the tags brought", s.count(tagResource, 1), s.remembered(`{"accessPointTags":["cost"]}`))

	s.Set(nil)
	s.state(operatorv1.Removed)
	gone := func() error {
		var all []error
		for _, name := range []string{"cloud_problem", "one_zone_volumes", "access_points", "access_points_limit", "access_points_unused"} {
			all = append(all, s.metric("csi_operator_"+name, 0)())
		}
		return errors.Join(append(all, s.silent())...)
	}
	s.until("nothing said about a driver that is removed", gone)
	s.volume("volume", id, "")
	env.Quiet(t, s.shared.operator)
	env.Must(t, s.cluster.Uninstall(t.Context()))
	s.until("nothing said without a ClusterCSIDriver", gone)
	s.class("other", id)
	env.Quiet(t, s.shared.operator)
	s.sent(map[string]int{})
}

func (s *scene) state(state operatorv1.ManagementState) {
	s.t.Helper()
	s.patch(env.EFS(""), fmt.Sprintf(`{"spec":{"managementState":%q}}`, state))
}
