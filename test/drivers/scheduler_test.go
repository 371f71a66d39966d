package drivers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
)

// schedulerNamespace has the pods and PVCs of the tests of the scheduler.
const schedulerNamespace = "scheduler"

// With the gate, the scheduler keeps a pod from nodes whose CSINode lacks the driver. It tries the pod again when a driver with a limit of volumes
// registers on a node, whichever driver that is. It does not notice a driver without a limit: such a pod waits until something else wakes it.
func TestPodsWaitForTheDriverWithTheFeatureGate(t *testing.T) {
	s := scheduling{pool.Lend(t)}
	ebs, efs := awsebs.Driver(), awsefs.Driver()
	s.prepare(t, ebs, true)
	s.prepare(t, efs, true)
	node := s.worker(t)

	s.createPod(t, "ebs", ebs, node)
	s.createPod(t, "efs", efs, node)
	s.waits(t, "ebs", ebs)
	s.waits(t, "efs", efs)

	s.register(t, node, efs, 0)
	s.createPod(t, "efs-later", efs, node)
	s.scheduled(t, "efs-later")
	s.waits(t, "efs", efs)
	s.waits(t, "ebs", ebs)

	s.register(t, node, ebs, 25)
	s.scheduled(t, "ebs")
	s.scheduled(t, "efs")
}

// Without the gate, the API server drops the field, and the scheduler places pods on nodes without the driver. That is a cluster of its own.
func TestPodsDoNotWaitForTheDriverWithoutTheFeatureGate(t *testing.T) {
	env.OnlySoak(t)
	s := scheduling{pool.Lend(t, "--feature-gates", driver.SchedulingGate+"=false")}
	node := s.worker(t)
	for name, d := range map[string]driver.Driver{"ebs": awsebs.Driver(), "efs": awsefs.Driver()} {
		s.prepare(t, d, false)
		s.createPod(t, name, d, node)
		s.scheduled(t, name)
	}
}

// scheduling is a cluster without operators. The test creates the CSIDrivers as the operators render them, and registers drivers as kubelets do.
type scheduling struct{ *env.Cluster }

// prepare creates the driver's CSIDriver with the field, and checks whether the API server keeps the field.
func (s scheduling) prepare(t *testing.T, d driver.Driver, kept bool) {
	t.Helper()
	env.Must(t, s.Namespace(t.Context(), schedulerNamespace))
	for _, object := range variants.Render(t, d, func(cfg *driver.Config) { cfg.RequiresDriver = true }) {
		rendered, ok := object.(*storagev1.CSIDriver)
		if !ok {
			continue
		}
		env.Must(t, s.Client.Create(t.Context(), rendered))
		t.Cleanup(func() { env.Must(t, s.Client.Delete(context.Background(), rendered)) })
		field := rendered.Spec.PreventPodSchedulingIfMissing
		if (field != nil && *field) != kept {
			t.Fatalf("%s: the field is %v in the cluster, want it kept: %t", d.Name, field, kept)
		}
		return
	}
	t.Fatalf("%s renders no CSIDriver", d.Name)
}

// worker returns the name of a worker on which no driver is registered. At the end of the test, it removes the drivers that the test has registered.
func (s scheduling) worker(t *testing.T) string {
	t.Helper()
	workers := &corev1.NodeList{}
	env.Must(t, s.Client.List(t.Context(), workers, client.HasLabels{"node-role.kubernetes.io/worker"}))
	if len(workers.Items) == 0 {
		t.Fatal("the cluster has no worker")
	}
	name := workers.Items[0].Name
	t.Cleanup(func() { env.Must(t, s.setDrivers(context.Background(), name, nil)) })
	return name
}

// createPod creates a bound PVC of the driver, and a pod with this PVC that only the node can run.
func (s scheduling) createPod(t *testing.T, name string, d driver.Driver, node string) {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes, noClass := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ""
	pod := env.Application(schedulerNamespace, name, "", name)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	for _, object := range []client.Object{
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "scheduler-" + name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: d.Name, VolumeHandle: name}},
			ClaimRef:               &corev1.ObjectReference{Namespace: schedulerNamespace, Name: name},
		}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: schedulerNamespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, StorageClassName: &noClass, VolumeName: "scheduler-" + name,
				Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		},
		pod,
	} {
		// The account of a young namespace may be missing for a moment.
		env.Eventually(t, fmt.Sprintf("%T %s created", object, name), func() error { return s.Client.Create(t.Context(), object) })
		t.Cleanup(func() {
			env.Must(t, client.IgnoreNotFound(s.Client.Delete(context.Background(), object, client.GracePeriodSeconds(0))))
			env.Must(t, env.Await(context.Background(), name+" deleted", func() error {
				err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("%T %s exists (%w)", object, name, err)
			}))
		})
	}
	env.Eventually(t, "PVC "+name+" bound", func() error {
		pvc := &corev1.PersistentVolumeClaim{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: schedulerNamespace, Name: name}, pvc); err != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", pvc.Status.Phase)
		}
		return nil
	})
}

// waits waits until the scheduler says that the pod waits for the driver.
func (s scheduling) waits(t *testing.T, name string, d driver.Driver) {
	t.Helper()
	want := d.Name + " CSI driver is not installed on the node"
	env.Eventually(t, "pod "+name+" waits", func() error {
		pod, condition, err := s.pod(t.Context(), name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s is on node %s, which lacks the driver", name, pod.Spec.NodeName)
		}
		if condition.Reason != corev1.PodReasonUnschedulable || !strings.Contains(condition.Message, want) {
			return fmt.Errorf("%s is %s: %s", condition.Type, condition.Reason, condition.Message)
		}
		return nil
	})
}

func (s scheduling) scheduled(t *testing.T, name string) {
	t.Helper()
	env.Eventually(t, "pod "+name+" has a node", func() error {
		pod, condition, err := s.pod(t.Context(), name)
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("%s is %s: %s", condition.Type, condition.Reason, condition.Message)
		}
		return err
	})
}

// pod returns a pod and its condition PodScheduled.
func (s scheduling) pod(ctx context.Context, name string) (*corev1.Pod, corev1.PodCondition, error) {
	pod := &corev1.Pod{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: schedulerNamespace, Name: name}, pod)
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return pod, condition, err
		}
	}
	return pod, corev1.PodCondition{}, err
}

// register adds a driver to the node's CSINode. limit is the number of its volumes on the node; 0 means that the driver reports none.
func (s scheduling) register(t *testing.T, node string, d driver.Driver, limit int32) {
	t.Helper()
	registered := storagev1.CSINodeDriver{Name: d.Name, NodeID: node}
	if limit > 0 {
		registered.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	}
	have := &storagev1.CSINode{}
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKey{Name: node}, have))
	env.Must(t, s.setDrivers(t.Context(), node, append(have.Spec.Drivers, registered)))
}

func (s scheduling) setDrivers(ctx context.Context, node string, drivers []storagev1.CSINodeDriver) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		have := &storagev1.CSINode{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: node}, have); err != nil {
			return fmt.Errorf("read CSINode %s: %w", node, err)
		}
		have.Spec.Drivers = drivers
		return s.Client.Update(ctx, have)
	})
}
