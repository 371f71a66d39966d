package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

// listing is an annotation that limits a namespace.
func listing(list string) map[string]string {
	return map[string]string{efs.AllowedAnnotation: list}
}

// try asks the API server whether it would take a SharedVolume.
func try(t *testing.T, cluster *env.Cluster, namespace string) error {
	t.Helper()
	return cluster.Client.Create(t.Context(), env.SharedVolume(namespace, "tried"), client.DryRunAll)
}

// denied checks that an error is the one of a list, and says whom to ask.
func denied(err error) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ask a cluster administrator") {
		return errors.New("want it forbidden with what to do, got: " + errorText(err))
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func aListOfTheNamespaceSaysWhatItMayUse(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	policed(t, cluster)
	limited := namespace(t, cluster, "limited", listing("fs-99999999"))
	namespace(t, cluster, "free", nil)
	env.Eventually(t, "the list enforced", func() error { return denied(try(t, cluster, "limited")) })
	env.Must(t, try(t, cluster, "free"))
	// The same lists as in the unit test of the controller: the API server must read them alike.
	for list, want := range map[string]bool{
		"": false, "*": true, env.FileSystem: true, " " + env.FileSystem + " ": true, env.FileSystem + "/" + env.AccessPoint: true,
		"fs-99999999,\n " + env.FileSystem: true, env.FileSystem + "/fsap-99999999": false, env.FileSystem + "0": false, "fs-1234cde": false,
		env.AccessPoint: false, "fs-99999999/" + env.AccessPoint: false, env.FileSystem + "/": false, env.FileSystem + "/*": false,
		env.FileSystem + " fs-99999999": false, "FS-1234CDEF": false, ",": false, env.FileSystem + "::" + env.AccessPoint: false, "**": false, "fs-*": false,
	} {
		env.Must(t, annotate(cluster, limited, efs.AllowedAnnotation, list))
		env.Eventually(t, "list "+list, func() error {
			err := try(t, cluster, "limited")
			if want {
				return err
			}
			return denied(err)
		})
	}
}

// What is bound stays bound, and says that it would not be any more.
func aVolumeThatIsNoLongerAllowedStaysBound(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	project := namespace(t, cluster, "project", nil)
	sv := share(t, cluster, "project", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	pod := application(t, cluster, "project", "app", sv.Status.ClaimRef.Name)
	if meta.FindStatusCondition(sv.Status.Conditions, "Allowed") != nil {
		t.Errorf("condition Allowed although nobody limits anything: %v", sv.Status.Conditions)
	}
	allowed := func(want metav1.ConditionStatus) func() error {
		return func() error {
			if err := cluster.Ready(t.Context(), sv); err != nil {
				return err
			}
			if !meta.IsStatusConditionPresentAndEqual(sv.Status.Conditions, "Allowed", want) {
				return errors.New("condition Allowed is not " + string(want))
			}
			return nil
		}
	}
	env.Must(t, annotate(cluster, project, efs.AllowedAnnotation, "fs-99999999"))
	env.Eventually(t, "Allowed=False", allowed(metav1.ConditionFalse))
	env.Eventually(t, "an event", func() error { return cluster.HasEvent(t.Context(), sv, "NotAllowed", "the PVC stays bound") })
	for name, want := range map[string]float64{
		"csi_operator_shared_volumes_not_allowed":    1,
		`csi_operator_shared_volumes{phase="Ready"}`: 1, `csi_operator_shared_volumes{phase="Failed"}`: 0, "csi_operator_shared_volume_ready_seconds_count": 1,
	} {
		if value, err := operator.Metric(t.Context(), name); err != nil || value != want {
			t.Errorf("%s is %v (%v), want %v", name, value, err, want)
		}
	}
	env.Must(t, cluster.Running(t.Context(), pod))
	// What does not change the IDs is never refused, or nobody could delete it.
	env.Must(t, patch(cluster, sv, `{"metadata":{"labels":{"a":"b"}}}`))
	// A PVC that is lost is not made again, and is as soon as it may be.
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.Must(t, cluster.Client.Delete(t.Context(), env.PVCOf(sv)))
	env.Eventually(t, "Failed", func() error { return cluster.Phase(t.Context(), sv, v1alpha1.Failed) })
	if !strings.Contains(sv.Status.Message, "may not use access point") {
		t.Errorf("message %q", sv.Status.Message)
	}
	env.Must(t, annotate(cluster, project, efs.AllowedAnnotation, env.FileSystem+"/"+env.AccessPoint))
	env.Eventually(t, "Allowed=True", allowed(metav1.ConditionTrue))
}

func namespacesWithoutAListCanBeShutOut(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	policed(t, cluster)
	listed := namespace(t, cluster, "listed", listing("*"))
	bare := namespace(t, cluster, "bare", nil)
	sv, before := share(t, cluster, bare.Name, "stays"), share(t, cluster, bare.Name, "goes")
	env.Eventually(t, "Ready", func() error {
		return errors.Join(cluster.Ready(t.Context(), sv), cluster.Ready(t.Context(), before))
	})
	turn := func(value string) {
		env.Must(t, annotate(cluster, env.EFS(""), efs.UnlistedAnnotation, value))
	}
	// Beside lists, a condition says that others may use all.
	env.Eventually(t, "reported", func() error { return cluster.Condition(t.Context(), openCondition, operatorv1.ConditionTrue) })
	turn("Deny")
	env.Eventually(t, "not reported any more", func() error { return absent(t.Context(), cluster, openCondition) })
	env.Eventually(t, "shut out", func() error { return denied(try(t, cluster, bare.Name)) })
	env.Must(t, try(t, cluster, listed.Name))
	env.Eventually(t, "Allowed=False", func() error {
		if err := cluster.Ready(t.Context(), sv); err != nil {
			return err
		}
		if !meta.IsStatusConditionFalse(sv.Status.Conditions, "Allowed") {
			return errors.New("it is not")
		}
		return nil
	})
	// A value that nobody knows is no reason to open.
	turn("deny-all-please")
	env.Quiet(t, operator)
	env.Must(t, denied(try(t, cluster, bare.Name)))
	binding := []string{"validatingadmissionpolicybinding", "unlisted-namespaces." + crdName}
	_, err := cluster.Kubectl(t.Context(), append([]string{"patch", "--type=merge", "-p", `{"spec":{"validationActions":["Warn"]}}`}, binding...)...)
	env.Must(t, err)
	env.Eventually(t, "the binding put back", func() error {
		actions, err := cluster.Kubectl(t.Context(), append([]string{"get", "-o", "jsonpath={.spec.validationActions}"}, binding...)...)
		if err == nil && actions != `["Deny"]` {
			err = errors.New(actions)
		}
		return err
	})
	// The API server follows once a second.
	env.Eventually(t, "still shut out", func() error { return denied(try(t, cluster, bare.Name)) })
	// The switch must not be lost with the driver.
	env.Must(t, cluster.Uninstall(t.Context()))
	env.Must(t, denied(try(t, cluster, bare.Name)))
	env.Must(t, try(t, cluster, listed.Name))
	installed := func(want metav1.ConditionStatus) func() error {
		return func() error {
			if err := cluster.Ready(t.Context(), sv); err != nil {
				return err
			}
			if !meta.IsStatusConditionPresentAndEqual(sv.Status.Conditions, "DriverInstalled", want) {
				return errors.New("condition DriverInstalled is not " + string(want))
			}
			return nil
		}
	}
	env.Eventually(t, "DriverInstalled=False", installed(metav1.ConditionFalse))
	if !strings.Contains(sv.Status.Message, "until the EFS driver is installed") {
		t.Errorf("message %q", sv.Status.Message)
	}
	// What is there can be changed and deleted nevertheless.
	env.Must(t, patch(cluster, sv, `{"metadata":{"labels":{"a":"b"}}}`))
	env.Must(t, cluster.Client.Delete(t.Context(), before, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	env.Eventually(t, "deleted in the foreground", func() error { return cluster.Gone(t.Context(), before) })
	create(t, cluster)
	env.Eventually(t, "DriverInstalled=True", installed(metav1.ConditionTrue))
	env.Eventually(t, "open again", func() error { return try(t, cluster, bare.Name) })
	env.Eventually(t, "the condition gone", func() error {
		if err := cluster.Ready(t.Context(), sv); err != nil {
			return err
		}
		if meta.FindStatusCondition(sv.Status.Conditions, "Allowed") != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// The administrator of a namespace can use SharedVolumes there, and can't say which.
func aNamespacesAdministratorCannotChangeTheList(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	policed(t, cluster)
	project := namespace(t, cluster, "project", listing("fs-99999999"))
	for role, may := range map[string]bool{"admin": true, "edit": true, "view": false} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: project.Name, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "user-" + role}},
		}
		env.Must(t, cluster.Client.Create(t.Context(), binding))
		t.Cleanup(func() { env.Scene{Cluster: cluster, T: t}.Drop(binding) })
		user := as(t, cluster, "user-"+role)
		env.Eventually(t, role+" may look at SharedVolumes", func() error {
			return user.List(t.Context(), &v1alpha1.SharedVolumeList{}, client.InNamespace(project.Name))
		})
		allowed := env.SharedVolume(project.Name, "tried")
		allowed.Spec.FileSystemID = "fs-99999999"
		if err := user.Create(t.Context(), allowed, client.DryRunAll); (err == nil) != may {
			t.Errorf("%s creates a SharedVolume: %v", role, err)
		}
		change := env.Merge(`{"metadata":{"annotations":{"` + efs.AllowedAnnotation + `":"*"}}}`)
		for _, object := range []client.Object{project.DeepCopy(), env.EFS("")} {
			if err := user.Patch(t.Context(), object, change); !apierrors.IsForbidden(err) {
				t.Errorf("%s changes %T: %v", role, object, err)
			}
		}
		// Nor that the community's operator has made a volume for it. What brings objects back from a backup may say so.
		marked := env.SharedVolume(project.Name, "marked")
		marked.Spec.FileSystemID, marked.Finalizers = "fs-99999999", []string{"finalizer.awsefs.managed.openshift.io"}
		if err := user.Create(t.Context(), marked.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s creates a SharedVolume with the community's finalizer: %v", role, err)
		}
		env.Must(t, cluster.Client.Create(t.Context(), marked, client.DryRunAll))
		// Nor can the status be forged.
		sv := env.SharedVolume(project.Name, "tried")
		forged := env.Merge(`{"status":{"phase":"Ready"}}`)
		if err := user.Status().Patch(t.Context(), sv, forged); !apierrors.IsForbidden(err) {
			t.Errorf("%s changes a status: %v", role, err)
		}
	}
}

// annotate sets an annotation.
func annotate(cluster *env.Cluster, object client.Object, key, value string) error {
	fields, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	return patch(cluster, object, string(fields))
}
