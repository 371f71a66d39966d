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

func TestDriverOfTheOldPlatformGoesWhenItsVolumesHaveGone(t *testing.T) {
	s := installed(t, configv1.AWSPlatformType)
	ebs := entriesOf(configv1.AWSPlatformType)[0]
	before := s.uids()
	volume := s.volume("precious", ebs.Name)

	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, s.Client.Delete(t.Context(), infrastructure))
	s.says("CSIDriverStarterDegraded", operatorv1.ConditionTrue, "Infrastructure cluster is missing")
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "")
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("without an Infrastructure (-before +after):\n%s", diff)
	}

	s.setPlatform(configv1.GCPPlatformType)
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
	s.removed(ebs)
	s.reach(release)
	s.isComplete(entriesOf(configv1.GCPPlatformType), 2)
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

func TestDriverOfOthersIsRemovedWithItsOperator(t *testing.T) {
	s := installed(t, configv1.PowerVSPlatformType)
	s.hasMade(entriesOf(configv1.PowerVSPlatformType), release)
	s.readsSecrets()
	s.setPlatform(configv1.NonePlatformType)
	for _, entry := range entriesOf(configv1.PowerVSPlatformType) {
		s.removed(entry)
	}
	s.reach(release)
	s.isComplete(nil, 0)
}
