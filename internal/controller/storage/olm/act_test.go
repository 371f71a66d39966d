package olm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

func TestSettingsOfAnOldOperatorAreKept(t *testing.T) {
	normal := map[string]any{"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"}
	for name, tc := range map[string]struct {
		old  map[string]any
		want map[string]any
	}{
		"an empty one": {old: map[string]any{}, want: normal},
		"log levels": {
			old:  map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
			want: map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
		},
		"log levels that nobody knows": {old: map[string]any{"logLevel": "Loud", "operatorLogLevel": 7}, want: normal},
		"an operator that keeps its hands off": {
			old:  map[string]any{"managementState": "Unmanaged"},
			want: map[string]any{"managementState": "Unmanaged", "logLevel": "Normal", "operatorLogLevel": "Normal"},
		},
		"a driver that was to be removed": {old: map[string]any{"managementState": "Removed"}, want: normal},
		"a state of the past":             {old: map[string]any{"managementState": "Force"}, want: normal},
		"fields of another time":          {old: map[string]any{"observedConfig": map[string]any{"a": "b"}}, want: normal},
	} {
		t.Run(name, func(t *testing.T) {
			old := &unstructured.Unstructured{Object: map[string]any{"spec": tc.old}}
			if diff := cmp.Diff(tc.want, settingsOf(old)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettingsAreKeptUnlessThereIsANewerWord(t *testing.T) {
	entry := legacyEBS(t)
	const made = "create ClusterCSIDriver ebs.csi.aws.com map[logLevel:Debug managementState:Managed operatorLogLevel:Normal]"
	old, ok := configurationOf(entry).(*unstructured.Unstructured)
	if !ok {
		t.Fatal("the configuration has another type")
	}
	old.Object["spec"] = map[string]any{"logLevel": "Debug"}
	for name, tc := range map[string]struct {
		there client.Object
		fail  error
		want  []string
		err   string
	}{
		"no ClusterCSIDriver":                {want: []string{made}},
		"one that an administrator has made": {there: driver(entry)},
		"nobody knows whether there is one":  {fail: errors.New("no answer"), err: "look for ClusterCSIDriver ebs.csi.aws.com: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if tc.there != nil {
				c.Objects = append(c.Objects, tc.there)
			}
			c.Refuse(tc.fail, "get ClusterCSIDriver")
			err := operators(c).migrateSettings(t.Context(), entry.Name, old)
			if (tc.err == "") != (err == nil) || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, c.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsBeingDeletedIsNotDeletedAgain(t *testing.T) {
	now := metav1.NewTime(at)
	going := partial("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "team", "going", func(object *metav1.PartialObjectMetadata) {
		object.DeletionTimestamp = &now
	})
	c := newCluster(t)
	if err := operators(c).deleteAll(t.Context(), []client.Object{going, version("next")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete ClusterServiceVersion team/next"}, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.Refuse(errors.New("refused"))
	err := operators(c).deleteAll(t.Context(), []client.Object{version("next")})
	if err == nil || err.Error() != "delete ClusterServiceVersion team/next: refused" {
		t.Errorf("error %v", err)
	}
}

// By its finalizer the operator, should anybody start it once more, would remove the driver that runs.
func TestTheConfigurationGoesWithoutItsFinalizers(t *testing.T) {
	entry, now := legacyEBS(t), metav1.NewTime(at)
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "awsebsdrivers"}, "cluster")
	const patch, remove = "patch AWSEBSDriver cluster", "delete AWSEBSDriver cluster"
	for name, tc := range map[string]struct {
		finalizers []string
		deleted    bool
		fail       map[string]error
		want       []string
		err        string
	}{
		"without a finalizer":           {want: []string{remove}},
		"with one":                      {finalizers: []string{"csi.openshift.io"}, want: []string{patch, remove}},
		"with one, deleted by somebody": {finalizers: []string{"csi.openshift.io"}, deleted: true, want: []string{patch}},
		"gone before its finalizer":     {finalizers: []string{"a"}, fail: map[string]error{patch: gone}, want: []string{patch}},
		"gone before its deletion":      {fail: map[string]error{remove: gone}, want: []string{remove}},
		"its finalizer can't be taken off": {finalizers: []string{"a"}, fail: map[string]error{patch: errors.New("no")}, want: []string{patch}, err: "drop the finalizers of " +
			"AWSEBSDriver cluster, so that the operator that OLM installed does not remove the driver: no"},
		"nobody may delete it":               {fail: map[string]error{remove: errors.New("no")}, want: []string{remove}, err: "delete AWSEBSDriver cluster: no"},
		"without a finalizer, being deleted": {deleted: true, want: []string{remove}},
	} {
		t.Run(name, func(t *testing.T) {
			old, ok := configurationOf(entry).(*unstructured.Unstructured)
			if !ok {
				t.Fatal("the configuration has another type")
			}
			old.SetFinalizers(tc.finalizers)
			old.SetUID("1-2")
			old.SetResourceVersion("7")
			if tc.deleted {
				old.SetDeletionTimestamp(&now)
			}
			c := newCluster(t)
			c.Fail = func(request string) error { return tc.fail[request] }
			err := operators(c).dropConfiguration(t.Context(), old)
			if (tc.err == "") != (err == nil) || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, c.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(tc.finalizers) > 0 && c.Bodies[0] != `{"metadata":{"finalizers":null,"resourceVersion":"7","uid":"1-2"}}` {
				t.Errorf("the patch is %s", c.Bodies[0])
			}
		})
	}
}

// Only where the driver of the predecessor still runs does the new one need rights there.
func TestTheNewOperatorMayWorkWhereTheOldDriverRuns(t *testing.T) {
	entry := legacyEBS(t)
	namespace := entry.Predecessor.Namespace
	running := partial("apps/v1", entry.Workloads[1].Kind, namespace, entry.Workloads[1].Name, nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "left", Labels: map[string]string{"app": entry.Workloads[0].Name}}}
	bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws-ebs-csi-driver-operator-role"}}
	const apply = "apply RoleBinding openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-operator-role"
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(*catalogue.Entry)
		fail    string
		want    []string
		err     string
	}{
		"nothing runs there":                 {},
		"a workload runs there":              {objects: []client.Object{running}, want: []string{apply}},
		"only a pod is left there":           {objects: []client.Object{pod}, want: []string{apply}},
		"it has the rights already":          {objects: []client.Object{running, bound}},
		"an operator of others":              {objects: []client.Object{running}, change: func(e *catalogue.Entry) { e.Builtin = false }},
		"the old driver ran where ours does": {objects: []client.Object{running}, change: func(e *catalogue.Entry) { e.Predecessor.Namespace = "" }},
		"nobody tells what runs":             {fail: "get Deployment", err: "find the driver of the operator that OLM installed: no"},
		"nobody tells which pods run":        {fail: "list Pod " + namespace, err: "find the driver of the operator that OLM installed: list pods in namespace " + namespace + ": no"},
		"nobody tells whether it is bound":   {objects: []client.Object{running}, fail: "get RoleBinding", err: "no"},
		"it can't be bound": {objects: []client.Object{running}, fail: apply, want: []string{apply},
			err: "allow aws-ebs-csi-driver-operator to change the driver in namespace " + namespace + ": RoleBinding aws-ebs-csi-driver-operator-role: no"},
	} {
		t.Run(name, func(t *testing.T) {
			one := entry
			predecessor := *entry.Predecessor
			one.Predecessor = &predecessor
			if tc.change != nil {
				tc.change(&one)
			}
			c := newCluster(t, tc.objects...)
			c.Refuse(errors.New("no"), tc.fail)
			state, err := operators(c).Remove(t.Context(), one)
			if (tc.err == "") != (err == nil) || err != nil && err.Error() != tc.err || state.Done != (err == nil) {
				t.Errorf("%+v, error %v, want %s", state, err, tc.err)
			}
			if diff := cmp.Diff(tc.want, c.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if slices.Contains(c.Writes, apply) {
				for _, part := range []string{
					`"namespace":"` + namespace + `"`, `"app.kubernetes.io/managed-by":"cluster-storage-operator"`,
					`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"aws-ebs-csi-driver-operator-role"}`,
					`"subjects":[{"kind":"ServiceAccount","name":"aws-ebs-csi-driver-operator","namespace":"openshift-cluster-csi-drivers"}]`,
				} {
					if !strings.Contains(c.Bodies[0], part) {
						t.Errorf("the RoleBinding %s lacks %s", c.Bodies[0], part)
					}
				}
			}
		})
	}
}
