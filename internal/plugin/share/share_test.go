package share

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const (
	system = "fs-1234cdef"
	point  = "fsap-0123456789abcdef"
)

func sharedVolume(namespace, name, accessPoint string, phase v1alpha1.Phase, message string) *v1alpha1.SharedVolume {
	made := &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "sv"}}
	made.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: system, AccessPointID: accessPoint}
	made.Status.Phase, made.Status.Message = phase, message
	if phase == v1alpha1.Ready {
		made.Status.ClaimRef.Name = "pvc-" + name
	}
	return made
}

func namespace(name string, list ...string) *corev1.Namespace {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(list) > 0 {
		made.Annotations = map[string]string{efs.AllowedAnnotation: strings.Join(list, ",")}
	}
	return made
}

func policy(name, byDefault string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{efs.DefaultAnnotation: byDefault}},
	}
}

func user(name, pvc string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: name}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
	}}}
	return pod
}

func all() []client.Object {
	return []client.Object{
		sharedVolume("my-project", "sv1", point, v1alpha1.Ready, ""),
		sharedVolume("my-project", "sv2", "fsap-99999999", v1alpha1.Failed, "the namespace may not use it"),
		sharedVolume("reports", "sv1", point, v1alpha1.Ready, ""),
		namespace("my-project", " fs-99999999", "fs-1234cdef/"+point), namespace("reports"), namespace("empty", ""), namespace("bystander"),
		policy(efs.SharedVolumesName, "Deny"), policy(efs.UnlistedPolicy, ""), user("web-0", "pvc-sv1"), user("other", "data"),
	}
}

func TestSharesAreListed(t *testing.T) {
	cluster := plugintest.Cluster(t, all()...)
	golden.CompareText(t, "list.txt", plugintest.Run(t, cluster, "", Command, "share", "list").Text())
	golden.CompareText(t, "list-all.yaml", plugintest.Run(t, cluster, "", Command, "share", "list", "-A", "-o", "yaml").Text())
	golden.CompareText(t, "list-none.txt", plugintest.Run(t, plugintest.Cluster(t), "", Command, "share", "list").Text())
	cluster.Refuse(forbidden("sharedvolumes"), "list SharedVolume")
	golden.CompareText(t, "list-no-right.txt", plugintest.Run(t, cluster, "", Command, "share", "list", "-A").Text())
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right"))
}

func TestWhoMayUseWhatIsExplained(t *testing.T) {
	cluster := plugintest.Cluster(t, all()...)
	golden.CompareText(t, "explain.txt", plugintest.Run(t, cluster, "", Command, "share", "explain").Text())
	golden.CompareText(t, "explain-all.txt", plugintest.Run(t, cluster, "", Command, "share", "explain", "-A").Text())
	line := []string{"share", "explain", "--file-system", "fs-99999999", "--access-point", "fsap-99999999", "-o", "json"}
	golden.CompareText(t, "explain-question.json", plugintest.Run(t, cluster, "", Command, line...).Text())
	cluster.Refuse(forbidden("namespaces"), "get Namespace")
	golden.CompareText(t, "explain-no-right.txt", plugintest.Run(t, cluster, "", Command, "share", "explain").Text())
}

func TestWhoDecidesAboutNamespacesWithoutAList(t *testing.T) {
	driver := func(value string) *operatorv1.ClusterCSIDriver {
		return &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{efs.UnlistedAnnotation: value}}}
	}
	served := policy(efs.SharedVolumesName, "Allow")
	const none = "the namespace has no list and may use "
	for name, tc := range map[string]struct {
		rules rules
		want  access
	}{
		"nothing decides": {rules{}, access{why: none + "everything: the cluster has no policy for SharedVolumes, and annotation " +
			efs.UnlistedAnnotation + " is not set"}},
		"no policies, and denied": {rules{driver: driver("Deny")}, access{limits: efs.Limits{Closed: true}, why: none + "nothing: annotation " +
			efs.UnlistedAnnotation + "=Deny of ClusterCSIDriver efs.csi.aws.com says"}},
		"open by default": {rules{policy: served}, access{why: none + "everything: the default of this cluster is Allow"}},
		"open": {rules{policy: served, driver: driver("Allow")}, access{why: none + "everything: annotation " + efs.UnlistedAnnotation +
			"=Allow of ClusterCSIDriver efs.csi.aws.com says"}},
		"closed": {rules{policy: served, closed: true, driver: driver("Deny")}, access{limits: efs.Limits{Closed: true}, why: none + "nothing: annotation " +
			efs.UnlistedAnnotation + "=Deny of ClusterCSIDriver efs.csi.aws.com says"}},
		"a typo": {rules{policy: served, driver: driver("Dney")}, access{why: none + "everything: annotation " + efs.UnlistedAnnotation +
			` of ClusterCSIDriver efs.csi.aws.com has the unknown value "Dney"`}},
		"hidden": {rules{hidden: true}, access{unknown: "the namespace has no list, and you lack permission to read ValidatingAdmissionPolicy " +
			efs.UnlistedPolicy + ", which may deny every share to such namespaces"}},
	} {
		tc.want.limits.Namespace = "a"
		got := accessOf("a", namespace("a"), tc.rules)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(access{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAShareIsCreatedOnce(t *testing.T) {
	line := []string{"share", "create", "sv3", "--file-system", system, "--access-point", point}
	cluster := plugintest.Cluster(t, all()...)
	golden.CompareText(t, "create.txt", plugintest.Run(t, cluster, "", Command, line...).Text())
	if len(cluster.Writes) != 1 || cluster.Writes[0] != "create SharedVolume my-project/sv3" {
		t.Errorf("it writes %q", cluster.Writes)
	}
	line[2] = "sv1"
	golden.CompareText(t, "create-again.txt", plugintest.Run(t, cluster, "", Command, append(line, "--wait")...).Text())
	line[6] = "fsap-99999999"
	golden.CompareText(t, "create-other.txt", plugintest.Run(t, cluster, "", Command, line...).Text())
	line[2] = "sv2"
	golden.CompareText(t, "create-failed.txt", plugintest.Run(t, cluster, "", Command, append(line, "--wait")...).Text())
	if len(cluster.Writes) != 1 {
		t.Errorf("it writes %q", cluster.Writes)
	}
	for name, err := range map[string]error{
		"forbidden": forbidden("sharedvolumes"),
		"no-api":    apierrors.NewNotFound(schema.GroupResource{Resource: "sharedvolumes"}, "sv4"),
		"away":      errors.New("the API is away"),
	} {
		line[2] = "sv4"
		cluster.Refuse(err, "create")
		golden.CompareText(t, "create-"+name+".txt", plugintest.Run(t, cluster, "", Command, line...).Text())
	}
	for _, wrong := range [][]string{{"share", "create", "x"}, {"share", "create", "x", "--file-system", system, "--access-point", "fsap-"}} {
		if got := plugintest.Run(t, cluster, "", Command, wrong...); got.Code != plugin.WrongUsage || !strings.Contains(got.Err.Error(), "must be the ID") {
			t.Error(got.Text())
		}
	}
}

func TestWaitingForAShareEndsWhenPodsCanMountItOrSomebodyHasToAct(t *testing.T) {
	const unasked = "The operator has not checked file system " + system
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: "message of " + kind}
	}
	for name, tc := range map[string]struct {
		phase      v1alpha1.Phase
		conditions []metav1.Condition
		deleted    bool
		code       int
		says       string
	}{
		"AWS has it": {v1alpha1.Ready, []metav1.Condition{condition("Mountable", "True"), condition("DriverInstalled", "True")}, false, 0, "can use Persist"},
		"AWS lacks it": {
			v1alpha1.Ready, []metav1.Condition{condition("Mountable", "False")}, false, plugin.Wrong, "pods can't mount SharedVolume sv1 in namespace " +
				"my-project: message of Mountable",
		},
		"no driver": {
			v1alpha1.Ready, []metav1.Condition{condition("Mountable", "True"), condition("DriverInstalled", "False")}, false, plugin.Wrong,
			"message of DriverInstalled",
		},
		"AWS was not asked":       {v1alpha1.Ready, nil, false, 0, unasked},
		"not bound yet":           {v1alpha1.Pending, []metav1.Condition{condition("Mountable", "True")}, false, plugin.Unfinished, "while waiting until pods can mount"},
		"not bound, driver later": {v1alpha1.Pending, []metav1.Condition{condition("DriverInstalled", "False")}, false, plugin.Unfinished, "timed out"},
		"on its way out":          {v1alpha1.Ready, nil, true, plugin.Wrong, "is being deleted: wait until it is deleted"},
	} {
		sv := sharedVolume("my-project", "sv1", point, tc.phase, "")
		if sv.Status.Conditions = tc.conditions; tc.deleted {
			sv.DeletionTimestamp = &metav1.Time{Time: plugintest.Now()}
		}
		timeout := "2m"
		if tc.code == plugin.Unfinished {
			timeout = "5ms"
		}
		got := plugintest.Run(t, plugintest.Cluster(t, sv), "", Command, "share", "create", "sv1", "--file-system", system, "--access-point", point,
			"--wait", "--timeout", timeout)
		if got.Code != tc.code || !strings.Contains(got.Text(), tc.says) || strings.Contains(got.Text(), unasked) != (tc.says == unasked) {
			t.Errorf("%s: %s", name, got.Text())
		}
	}
}

func TestAShareIsRevokedAfterItsUsersWereNamed(t *testing.T) {
	cluster := plugintest.Cluster(t, all()...)
	golden.CompareText(t, "revoke-no.txt", plugintest.Run(t, cluster, "", Command, "share", "revoke", "sv1").Text())
	cluster.Refuse(forbidden("pods"), "list Pod")
	golden.CompareText(t, "revoke-no-right.txt", plugintest.Run(t, cluster, "", Command, "share", "revoke", "sv1", "--yes").Text())
	golden.CompareText(t, "revoke-absent.txt", plugintest.Run(t, cluster, "", Command, "share", "revoke", "sv9", "--yes").Text())
	if len(cluster.Writes) > 0 {
		t.Errorf("it writes %q", cluster.Writes)
	}
	cluster.Fail = nil
	golden.CompareText(t, "revoke.txt", plugintest.Run(t, cluster, "y\n", Command, "share", "revoke", "sv1").Text())
	golden.CompareText(t, "revoke-unused.txt", plugintest.Run(t, cluster, "y\n", Command, "share", "revoke", "sv2").Text())
	// The user has confirmed: a new status must not ask again.
	const change = ", whatever it has become"
	if diff := cmp.Diff([]string{"delete SharedVolume my-project/sv1" + change, "delete SharedVolume my-project/sv2" + change}, cluster.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	cluster.Refuse(errors.New("away"), "delete")
	if got := plugintest.Run(t, cluster, "", Command, "share", "revoke", "sv2", "--yes"); got.Err == nil ||
		got.Err.Error() != "delete SharedVolume sv2 in namespace my-project: away" {
		t.Error(got.Text())
	}
}
