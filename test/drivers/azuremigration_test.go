package drivers

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/azure"
	"github.com/csi-operators/csi-operators/internal/driver/azuredisk"
	"github.com/csi-operators/csi-operators/internal/driver/azurefile"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// Both drivers have the same names as those of OpenShift, and are changed where they are. Their operators are killed without notice at random
// requests, again and again. What the pods of both mounted goes with the last of them.
func TestOpenShiftsDriversOfAzureAreMigratedThroughKills(t *testing.T) {
	cluster := pool.Lend(t)
	disk := &migrated{scene{cluster: cluster, driver: azuredisk.Driver(), classes: map[string]string{"managed-csi": "false"}}}
	file := &migrated{scene{cluster: cluster, driver: azurefile.Driver(), classes: map[string]string{"azurefile-csi": "true"}}}
	for _, s := range []*migrated{disk, file} {
		t.Cleanup(func() { s.quit(t) })
	}
	env.Must(t, client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), cloudConfig())))
	for _, s := range []*migrated{disk, file} {
		s.put(t)
	}
	for i, s := range []*migrated{disk, file} {
		s.migrate(t, env.Rounds(t)/3)
		shared := predecessors.AzureCloudConfig()
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(shared), shared)
		if i == 0 && err != nil {
			t.Fatalf("the pods of the other driver mount ConfigMap %s: %v", shared.Name, err)
		}
	}
	env.Eventually(t, "what both mounted has gone", func() error { return cluster.Gone(t.Context(), predecessors.AzureCloudConfig()) })
	for _, name := range file.driver.Obsolete.ClusterRoleBindings {
		env.Must(t, cluster.Gone(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	env.Must(t, cluster.Gone(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: file.driver.Obsolete.ClusterRoles[0]}}))
	if got := file.class(t, "azurefile-csi").Parameters["storeAccountKey"]; got != "false" {
		t.Errorf("the class has storeAccountKey %q", got)
	}
	file.namesWhatWaits(t)
	// Neither operator may do anything to the Secrets of others.
	env.Must(t, cluster.Audit.NoRefusals(0, disk.user(), file.user()))
}

// migrated is a driver that OpenShift's operator has installed.
type migrated struct{ scene }

func (s *migrated) user() string {
	return "system:serviceaccount:" + env.OperatorNamespace + ":" + s.driver.Operator
}

// put makes the driver of OpenShift.
func (s *migrated) put(t *testing.T) {
	t.Helper()
	env.Must(t, client.IgnoreAlreadyExists(s.cluster.Client.Create(t.Context(), s.secret())))
	rendered := variants.Render(t, s.driver, func(cfg *driver.Config) { delete(cfg.Kinds, driver.VolumeSnapshotClassKind()) })
	for _, object := range rendered {
		// An administrator has decided otherwise than OpenShift.
		if class, isClass := object.(*storagev1.StorageClass); isClass {
			metav1.SetMetaDataAnnotation(&class.ObjectMeta, "storageclass.kubernetes.io/is-default-class", s.classes[class.Name])
		}
	}
	env.Must(t, predecessors.PutAzure(t.Context(), s.cluster, s.driver, rendered))
	env.Eventually(t, "OpenShift's driver", func() error { return s.runs(t, false) })
}

// migrate replaces the operator, kills ours as often, and checks what becomes of it.
func (s *migrated) migrate(t *testing.T, kills int) {
	t.Helper()
	before := s.identity(t)
	sampler := env.NewSampler(env.Sampled{
		Driver: s.driver.Name, Budget: 1, IsOld: func(*corev1.Pod) bool { return false },
		IsPlugin: func(pod *corev1.Pod) bool { return pod.Labels["app"] == s.driver.DaemonSet },
	})
	stop := sampler.Follow(t, s.cluster)
	gap := s.followAvailable(t)
	env.Must(t, s.cluster.PutDriverAccount(t.Context(), s.driver, rbac.Rules))
	random, through := env.Dice(t), env.NewProxy(t, s.cluster)
	config := through.KubeconfigOf(t, s.cluster, env.OperatorNamespace, s.driver.Operator)
	for kill := range kills {
		var err error
		s.operator, err = s.cluster.StartDriverOperator(t.Context(), s.driver, "--kubeconfig", config)
		env.Must(t, err)
		died := through.KillAt(env.IsWork, 1+random.IntN(30), random.IntN(2) == 1, s.operator.Kill)
		env.Eventually(t, fmt.Sprintf("kill %d, or done", kill+1), func() error {
			if died() {
				return nil
			}
			return s.runs(t, true)
		})
		if !died() {
			env.Must(t, s.operator.Stop())
		}
		<-s.operator.Done()
		through.Set(nil)
	}
	s.start(t)
	env.Eventually(t, "the driver is ours", func() error { return s.runs(t, true) })
	s.settle(t)
	env.Quiet(t, s.operator)
	after := s.identity(t)
	maps.DeleteFunc(after, func(name, _ string) bool { return before[name] == "" })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	gap()
	stop()
	live := s.liveClasses(t)
	for name, isDefault := range s.classes {
		if live[name] != isDefault {
			t.Errorf("class %s is the default: %q, want %q as the administrator has it", name, live[name], isDefault)
		}
	}
	for _, condition := range s.cr(t).Status.Conditions {
		if condition.Type == azure.PredecessorCondition {
			t.Errorf("condition %s of OpenShift's operator is left: %s", condition.Type, condition.Status)
		}
	}
	s.hasOwnRoles(t)
}

// hasOwnRoles checks that no binding of the driver gives it the roles of all drivers.
func (s *migrated) hasOwnRoles(t *testing.T) {
	t.Helper()
	bindings := &rbacv1.ClusterRoleBindingList{}
	env.Must(t, s.cluster.Client.List(t.Context(), bindings))
	for _, binding := range bindings.Items {
		if strings.HasPrefix(binding.Name, s.driver.ShortPrefix+"-") && binding.RoleRef.Name == predecessors.SharedRole(binding.Name) {
			t.Errorf("ClusterRoleBinding %s has ClusterRole %s", binding.Name, binding.RoleRef.Name)
		}
	}
}

// followAvailable watches the condition until the function that it returns is called, which reports every moment without it.
func (s *migrated) followAvailable(t *testing.T) func() {
	t.Helper()
	stream, err := s.cluster.Client.Watch(t.Context(), &operatorv1.ClusterCSIDriverList{})
	env.Must(t, err)
	var gaps []error
	looked := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			if cr, isCR := event.Object.(*operatorv1.ClusterCSIDriver); isCR && cr.Name == s.driver.Name {
				looked++
				gaps = append(gaps, env.SaysIn(cr.Status.Conditions, "Available", "True"))
			}
		}
	}()
	return func() {
		stream.Stop()
		<-done
		if err := errors.Join(gaps...); err != nil || looked < 2 {
			t.Errorf("Available was looked at %d times: %v", looked, err)
		}
	}
}

// namesWhatWaits makes a class for which the driver would keep keys of storage accounts, with a PVC, and the binding for it.
func (s *migrated) namesWhatWaits(t *testing.T) {
	t.Helper()
	const name = "keeps-keys"
	env.Must(t, s.cluster.Namespace(t.Context(), name))
	meta := metav1.ObjectMeta{Namespace: name, Name: name}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: s.driver.Name}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: s.driver.ControllerServiceAccount()},
	}}
	says := func(named bool) {
		t.Helper()
		env.Eventually(t, fmt.Sprintf("the PVC is named: %t", named), func() error {
			if message := s.message(t, "Available"); strings.Contains(message, name+"/"+name) != named {
				return fmt.Errorf("Available says: %s", message)
			}
			return s.cluster.ConditionOf(t.Context(), s.driver.Name, "Available", operatorv1.ConditionTrue)
		})
	}
	env.Must(t, errors.Join(s.cluster.Client.Create(t.Context(), class), s.cluster.Client.Create(t.Context(), pvc)))
	says(true)
	env.Must(t, errors.Join(s.cluster.Client.Create(t.Context(), role), s.cluster.Client.Create(t.Context(), binding)))
	says(false)
}

// runs checks that all pods are those of OpenShift, or of ours.
func (s *migrated) runs(t *testing.T, ours bool) error {
	t.Helper()
	deployment, daemonSet := s.deployment(), s.daemonSet()
	s.get(t, deployment)
	s.get(t, daemonSet)
	for _, pods := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
		if (len(pods.InitContainers) == 0) != ours {
			return fmt.Errorf("init containers %d", len(pods.InitContainers))
		}
	}
	state := daemonSet.Status
	if state.ObservedGeneration < daemonSet.Generation || state.UpdatedNumberScheduled != 4 || state.NumberReady != 4 ||
		deployment.Status.ObservedGeneration < deployment.Generation || deployment.Status.UpdatedReplicas != 2 || deployment.Status.AvailableReplicas != 2 {
		return errors.New("it is not rolled out")
	}
	return nil
}

// identity are the UIDs of what must stay.
func (s *migrated) identity(t *testing.T) map[string]string {
	t.Helper()
	found := s.uids(t)
	// A class is made anew for other parameters, and a binding for another role.
	for name := range s.classes {
		delete(found, "StorageClass "+name)
	}
	maps.DeleteFunc(found, func(name, _ string) bool {
		binding, isBinding := strings.CutPrefix(name, "ClusterRoleBinding ")
		return isBinding && predecessors.SharedRole(binding) != ""
	})
	return found
}
