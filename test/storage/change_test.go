package storage

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/test/env"
)

// volume makes a PersistentVolume of a driver.
func (s *scene) volume(name, driver string) *corev1.PersistentVolume {
	s.t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle"},
		},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}}
	env.Must(s.t, s.Client.Create(s.t.Context(), volume))
	return volume
}

// changesPlatform makes a cluster in AWS one in GCP.
func changesPlatform(t *testing.T, s *scene) {
	ebs := entriesOf(configv1.AWSPlatformType)[0]
	before := s.uids()
	volume := s.volume("precious", ebs.Name)

	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, s.Client.Delete(t.Context(), infrastructure))
	// For two minutes, that is no reason to be degraded.
	degraded := operatorv1.ConditionFalse
	if env.IsSoak(t) {
		degraded = operatorv1.ConditionTrue
	}
	s.says("CSIDriverStarterDegraded", degraded, "Infrastructure cluster is missing")
	s.reconciled()
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "")
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("without an Infrastructure (-before +after):\n%s", diff)
	}

	isOurs := s.leavesADriverOfSomebodyElse(entriesOf(configv1.GCPPlatformType)[0])
	s.says("AWSEBSCSIDriverOperatorRemovalProgressing", operatorv1.ConditionFalse, volume.Name)
	s.says("AWSEBSCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "")
	// Drivers of different platforms have the same ports of nodes: the new one is there, but its pods wait.
	s.says("GCPPDCSIDriverOperatorCRProgressing", operatorv1.ConditionTrue, "nodes not ready")
	s.says("GCPPDCSIDriverOperatorDeploymentProgressing", operatorv1.ConditionFalse, "")
	after := s.uids()
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("%s was removed or made anew while a volume was there", name)
		}
	}

	env.Must(t, s.Client.Delete(t.Context(), volume))
	s.eventually("the volume has gone", func() error { return s.Gone(t.Context(), volume) })
	if !env.IsSoak(t) {
		// It looks for volumes every minute, and when it starts.
		s.restart()
	}
	s.removed(ebs)
	s.reach(release)
	s.isComplete(entriesOf(configv1.GCPPlatformType), 2)
	isOurs()
}

// leavesADriverOfSomebodyElse makes the cluster one of a driver's platform in which somebody else has that driver. It is not migrated before an
// administrator asks for it. The function that is returned checks that it then was.
func (s *scene) leavesADriverOfSomebodyElse(entry catalogue.Entry) (isOurs func()) {
	s.t.Helper()
	theirs := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name, Labels: map[string]string{"who": "somebody"}}}
	env.Must(s.t, s.Client.Create(s.t.Context(), theirs))
	s.setPlatform(entry.Platform)
	s.says(entry.Condition+"CSIDriverOperatorStaticControllerDegraded", operatorv1.ConditionTrue,
		"oc annotate csidriver "+entry.Name+" csi.openshift.io/managed=true")
	s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, "ForeignCSIDriver")
	s.operatorSays(configv1.OperatorUpgradeable, configv1.ConditionTrue, "")
	for _, object := range []client.Object{
		env.CR(entry.Name, ""), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: entry.Operator}},
	} {
		env.Must(s.t, s.Gone(s.t.Context(), object))
	}
	_, err := s.Kubectl(s.t.Context(), "annotate", "csidriver", entry.Name, "csi.openshift.io/managed=true")
	env.Must(s.t, err)
	return func() {
		s.t.Helper()
		ours := &storagev1.CSIDriver{}
		env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(theirs), ours))
		if ours.UID != theirs.UID || ours.Labels[openshift.ManagedByLabel] != entry.Operator || ours.Labels["who"] != "somebody" {
			s.t.Errorf("the CSIDriver was taken over as %s with labels %v", ours.UID, ours.Labels)
		}
	}
}

// removed waits until nothing of a driver and its operator is left.
func (s *scene) removed(entry catalogue.Entry) {
	s.t.Helper()
	objects := []client.Object{
		env.CR(entry.Name, ""),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: entry.Operator}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: entry.Operator}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: entry.Operator + "-clusterrolebinding"}},
	}
	for _, workload := range entry.Workloads {
		meta := metav1.ObjectMeta{Namespace: workload.Namespace, Name: workload.Name}
		if workload.Kind == "Deployment" {
			objects = append(objects, &appsv1.Deployment{ObjectMeta: meta})
		} else {
			objects = append(objects, &appsv1.DaemonSet{ObjectMeta: meta})
		}
	}
	for _, object := range objects {
		s.eventually(fmt.Sprintf("%T %s has gone", object, object.GetName()), func() error { return s.Gone(s.t.Context(), object) })
	}
	storage := s.storage()
	s.eventually("nothing is said of "+entry.Title+" any more", func() error {
		env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(storage), storage))
		for _, condition := range storage.Status.Conditions {
			if len(condition.Type) > len(entry.Condition) && condition.Type[:len(entry.Condition)] == entry.Condition {
				return fmt.Errorf("condition %s is still there: %s", condition.Type, condition.Message)
			}
		}
		return nil
	})
}

func removesDriverOfOthers(_ *testing.T, s *scene) {
	s.hasMade(entriesOf(configv1.PowerVSPlatformType), release)
	s.readsSecrets()
	s.setPlatform(configv1.NonePlatformType)
	for _, entry := range entriesOf(configv1.PowerVSPlatformType) {
		s.removed(entry)
	}
	s.reach(release)
	s.isComplete(nil, 0)
}
