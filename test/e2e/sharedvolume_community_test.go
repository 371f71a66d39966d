package e2e

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// communityOperator is the Deployment of the community's operator, whose account may change SharedVolumes. Its pods are as
// fake as all others and do nothing.
func communityOperator(t *testing.T, cluster *env.Cluster) *appsv1.Deployment {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: "aws-efs-operator"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "aws-efs-operator"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "aws-efs-operator"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "aws-efs-operator"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "openshift-operators", Name: "aws-efs-operator"}},
		},
	} {
		env.Scene{Cluster: cluster, T: t}.Keep(object)
	}
	deployment := communityDeployment("openshift-operators")
	env.Scene{Cluster: cluster, T: t}.Keep(deployment)
	return deployment
}

func communityDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"name": "aws-efs-operator"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws-efs-operator"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: "aws-efs-operator",
					Containers:         []corev1.Container{{Name: "operator", Image: "registry.example/aws-efs-operator:1"}},
				},
			},
		},
	}
}

// A Deployment that only has the name of the community's operator does not stop anything.
func TestADeploymentOfTheCommunitysNameAloneStopsNothing(t *testing.T) {
	cluster := clean(t)
	env.Scene{Cluster: cluster, T: t}.Keep(communityDeployment("default"))
	operate(t, cluster)
	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
}

// An operator of the same name in another namespace that yields to nobody, such as OpenShift's, would write in turns with this one, without
// end. Of two copies of this operator the older one works: test/adversaries.
func TestNothingIsDoneBesideANamesakeThatYieldsToNobody(t *testing.T) {
	cluster := clean(t)
	operator := operate(t, cluster)
	known := share(t, cluster, "default", "known")
	policed(t, cluster)
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), known) })
	namespace(t, cluster, "second", nil)
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "second", Name: env.OperatorName}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"operator.openshift.io"}, Resources: []string{"clustercsidrivers/status"}, Verbs: []string{"patch"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "second"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "second"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "second", Name: env.OperatorName}},
		},
	} {
		env.Scene{Cluster: cluster, T: t}.Keep(object)
	}
	deployment := communityDeployment("second")
	deployment.Name, deployment.Spec.Template.Spec.ServiceAccountName = env.OperatorName, env.OperatorName
	env.Scene{Cluster: cluster, T: t}.Keep(deployment)
	// Also of SharedVolumes that it has looked after until now.
	env.Eventually(t, "an event that says why nothing is done", func() error {
		return cluster.HasEvent(t.Context(), known, "LeftToOtherOperator", "second/"+env.OperatorName)
	})
	// What that one would write stays, and is not fought over.
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	_, err = cluster.Kubectl(t.Context(), "patch", "validatingadmissionpolicy", crdName, "--type=merge", "-p",
		`{"metadata":{"labels":{"example.com/copy":"second"}},"spec":{"failurePolicy":"Ignore"}}`)
	env.Must(t, err)
	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "the new one left alone", func() error {
		return cluster.HasEvent(t.Context(), sv, "LeftToOtherOperator", "uninstall the operator of that Deployment")
	})
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	written := env.Filter(requests, func(r env.Request) bool {
		return r.IsWrite() && r.Object.Resource != "events" && r.Object.Resource != "subjectaccessreviews"
	})
	if len(written) > 0 {
		env.Broken(t, "written beside a namesake:\n%s", env.Describe(written))
	}
	env.Must(t, cluster.Client.Delete(t.Context(), deployment))
	env.Eventually(t, "taken over", func() error { return cluster.Ready(t.Context(), sv) })
	env.Eventually(t, "the policy put back", func() error {
		policy, err := cluster.Kubectl(t.Context(), "get", "validatingadmissionpolicy", crdName, "-o", "jsonpath={.spec.failurePolicy}")
		if err == nil && policy != "Fail" {
			err = errors.New(policy)
		}
		return err
	})
}

// community makes what the community's operator makes of a SharedVolume. It goes with the test.
func community(t *testing.T, cluster *env.Cluster, name string, old bool) *v1alpha1.SharedVolume {
	t.Helper()
	_, volume, pvc := env.CommunityVolume("default", name, old)
	for _, object := range []client.Object{volume, pvc} {
		t.Cleanup(func() { env.Scene{Cluster: cluster, T: t}.Drop(object) })
	}
	sv, err := cluster.PutCommunityVolume(t.Context(), "default", name, old)
	env.Must(t, err)
	return sv
}

func TestSharedVolumesOfTheCommunitysOperatorAreMigratedWhenItHasGone(t *testing.T) {
	cluster := clean(t)
	// Its Deployment comes first, as in a cluster that moves.
	deployment := communityOperator(t, cluster)
	today, old := community(t, cluster, "today", false), community(t, cluster, "old", true)
	pod := application(t, cluster, "default", "app", "pvc-today", "pvc-old")
	pvcs := map[string]string{}
	for _, name := range []string{"pvc-today", "pvc-old"} {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
		pvcs[name] = string(pvc.UID)
	}
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	operator := operate(t, cluster)
	env.Eventually(t, "an event that says why nothing is done", func() error {
		return errors.Join(cluster.HasEvent(t.Context(), today, "LeftToCommunityOperator", "openshift-operators/aws-efs-operator"),
			cluster.HasEvent(t.Context(), old, "LeftToCommunityOperator", "uninstall the operator of that Deployment"))
	})
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	touched := env.Filter(requests, func(r env.Request) bool {
		return r.IsWrite() && (r.Object.Group == "aws-efs.managed.openshift.io" || r.Object.Resource == "persistentvolumes" ||
			r.Object.Resource == "persistentvolumeclaims")
	})
	if len(touched) > 0 {
		t.Errorf("written while the community's operator runs:\n%s", env.Describe(touched))
	}
	env.Must(t, cluster.Client.Delete(t.Context(), deployment))
	for _, sv := range []*v1alpha1.SharedVolume{today, old} {
		env.Eventually(t, "taken over", func() error {
			if err := cluster.Ready(t.Context(), sv); err != nil {
				return err
			}
			if len(sv.Finalizers) > 0 || strings.Contains(sv.Status.Message, "left from before") {
				return errors.New("finalizers or message are left: " + sv.Status.Message)
			}
			return nil
		})
		pvc, volume := env.PVCOf(sv), env.VolumeOf(sv)
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
		if string(pvc.UID) != pvcs[pvc.Name] || len(pvc.OwnerReferences) != 1 || pvc.OwnerReferences[0].UID != sv.UID {
			t.Errorf("PVC %s: UID %s, owners %v", pvc.Name, pvc.UID, pvc.OwnerReferences)
		}
	}
	env.Eventually(t, "an event", func() error { return cluster.HasEvent(t.Context(), today, "Adopted", "migrated") })
	env.Must(t, cluster.Running(t.Context(), pod))
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	unshare(t, cluster, today)
	unshare(t, cluster, old)
}

// What the community's operator left half deleted when it was uninstalled too early.
func TestADeletionThatTheCommunitysOperatorLeftHangingEnds(t *testing.T) {
	cluster := clean(t)
	sv := community(t, cluster, "sv1", false)
	env.Must(t, cluster.Client.Delete(t.Context(), sv))
	operate(t, cluster)
	env.Eventually(t, "the SharedVolume gone", func() error { return cluster.Gone(t.Context(), sv.DeepCopy()) })
	env.Eventually(t, "its pair gone", func() error { return cluster.PairGone(t.Context(), sv) })
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-default-sv1"}}
	env.Eventually(t, "its volume gone", func() error { return cluster.Gone(t.Context(), volume) })
}
