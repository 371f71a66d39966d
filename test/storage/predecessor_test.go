package storage

import (
	"context"
	"fmt"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// OpenShift's own operators ran the driver until the release was applied.
func TestOperatorsOfOpenShiftAreReplacedWithoutAGap(t *testing.T) {
	s := fresh(t, configv1.AWSPlatformType)
	t.Cleanup(s.forgetLegacyCSO)
	env.Must(t, predecessors.PutLegacyCSO(t.Context(), s.Cluster))
	kept := s.keptOfLegacyCSO()
	leftovers, open := s.leftoversOfLegacyCSO()
	journal := s.record()
	s.install(env.Release{Version: release})
	s.reach(release)

	entries := entriesOf(configv1.AWSPlatformType)
	for name, uid := range s.keptOfLegacyCSO() {
		if kept[name] != uid {
			t.Errorf("%s was made anew", name)
		}
	}
	for _, condition := range s.storage().Status.Conditions {
		if slices.Contains(predecessors.LegacyStale(), condition.Type) {
			t.Errorf("condition %s is still there: it is %s", condition.Type, condition.Status)
		}
	}
	s.bindsTheRoleOfTheRelease(entries[0])
	for _, object := range leftovers {
		s.eventually(object.GetName()+" has gone", func() error { return s.Gone(t.Context(), object) })
	}
	// What one policy lets in, no other keeps out.
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(open), open))
	if rules := open.Spec.Ingress; len(rules) != 1 || len(rules[0].From) != 1 {
		t.Errorf("NetworkPolicy %s lets everybody in: %+v", open.Name, rules)
	}
	s.isComplete(entries, 2)
	journal.checkVersions(t, entries, release)
	journal.checkLegacyCSO(t)
}

// leftoversOfLegacyCSO makes what OpenShift's cluster-storage-operator has and ours has not, some of each kind, and a policy of a name that ours
// has as well.
func (s *scene) leftoversOfLegacyCSO() ([]client.Object, *networkingv1.NetworkPolicy) {
	s.t.Helper()
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	labels := map[string]string{"app": "volume-data-source-validator"}
	rules := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"groups": []any{}}}}
	rules.SetAPIVersion("monitoring.coreos.com/v1")
	rules.SetKind("PrometheusRule")
	rules.SetNamespace(env.CSONamespace)
	rules.SetName("prometheus")
	leftovers := []client.Object{
		rules,
		&appsv1.Deployment{ObjectMeta: in(env.CSONamespace, "volume-data-source-validator"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "validator", Image: "quay.example/openshift/validator:" + predecessors.LegacyVersion}},
			}},
		}},
		&corev1.ConfigMap{ObjectMeta: in(env.CSONamespace, "cluster-storage-operator-config")},
		&rbacv1.Role{ObjectMeta: in("openshift-config", "cluster-storage-operator-selinux-conflicts-reader")},
	}
	open := &networkingv1.NetworkPolicy{ObjectMeta: in(catalogue.Namespace, "allow-ingress-to-metrics-range")}
	open.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	port, last := intstr.FromInt32(9201), int32(9223)
	open.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port, EndPort: &last}}}}
	for _, object := range leftovers {
		env.Must(s.t, s.Client.Create(s.t.Context(), object))
	}
	// An earlier test may have left ours.
	env.Must(s.t, client.IgnoreNotFound(s.Client.Delete(s.t.Context(), open.DeepCopy())))
	env.Must(s.t, s.Client.Create(s.t.Context(), open, client.FieldOwner("cluster-version-operator")))
	return append(leftovers, &rbacv1.Role{ObjectMeta: in(catalogue.Namespace, predecessors.LegacyEBSOperator+"-role")}), open
}

// checkLegacyCSO reads what has happened since OpenShift's operators reported last.
func (j *journal) checkLegacyCSO(t *testing.T) {
	t.Helper()
	waited := false
	j.read(func(now picture, changed client.Object) {
		if _, ok := changed.(*configv1.ClusterOperator); !ok || changed.GetName() != "storage" {
			return
		}
		if now.operator == nil {
			t.Error("the ClusterOperator was deleted")
			return
		}
		for kind, want := range map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
			configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorDegraded: configv1.ConditionFalse,
		} {
			if found := env.OperatorCondition(now.operator, kind); found.Status != want {
				t.Errorf("%s is %s: %s %s", kind, found.Status, found.Reason, found.Message)
			}
		}
		progressing := env.OperatorCondition(now.operator, configv1.OperatorProgressing).Status == configv1.ConditionTrue
		waited = waited || progressing && now.versionIn("operator") == predecessors.LegacyVersion
	})
	if !waited {
		t.Error("the ClusterOperator was never Progressing at the version of OpenShift's operator")
	}
}

// keptOfLegacyCSO are the UIDs of what goes on being used. A binding can't be turned to another role, and is made anew; its role was of the
// namespace, and goes.
func (s *scene) keptOfLegacyCSO() map[string]types.UID {
	s.t.Helper()
	found := map[string]types.UID{}
	for _, object := range predecessors.LegacyCSO() {
		switch object.(type) {
		case *rbacv1.RoleBinding, *rbacv1.Role:
			continue
		}
		env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
		found[fmt.Sprintf("%T %s", object, object.GetName())] = object.GetUID()
	}
	return found
}

// bindsTheRoleOfTheRelease checks that the operator has the RBAC of the release, and no longer that of OpenShift's.
func (s *scene) bindsTheRoleOfTheRelease(entry catalogue.Entry) {
	s.t.Helper()
	binding, deployment := &rbacv1.RoleBinding{}, &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: catalogue.Namespace, Name: entry.Operator}
	env.Must(s.t, s.Client.Get(s.t.Context(), key, deployment))
	if strategy := deployment.Spec.Strategy; strategy.Type != appsv1.RecreateDeploymentStrategyType || strategy.RollingUpdate != nil {
		s.t.Errorf("Deployment %s is rolled out by %+v", key, strategy)
	}
	key.Name += "-rolebinding"
	env.Must(s.t, s.Client.Get(s.t.Context(), key, binding))
	if binding.RoleRef.Kind != "ClusterRole" {
		s.t.Errorf("RoleBinding %s refers to %s %s", key, binding.RoleRef.Kind, binding.RoleRef.Name)
	}
}

// forgetLegacyCSO removes what no other test expects, after the context of the test has ended.
func (s *scene) forgetLegacyCSO() {
	for _, object := range predecessors.LegacyCSO() {
		if _, role := object.(*rbacv1.Role); role {
			if err := client.IgnoreNotFound(s.Client.Delete(context.Background(), object)); err != nil {
				s.t.Error(err)
			}
		}
	}
}
