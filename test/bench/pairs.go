package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// pairs measures what the same kube-controller-manager takes for pairs that nobody has to make from SharedVolumes.
func (t *trial) pairs(ctx context.Context, count int) error {
	cost, err := measurePairs(ctx, t.cluster, count, t.limit)
	if cost != nil {
		t.result.Rounds = append(t.result.Rounds, report.Round{Pairs: cost})
	}
	return err
}

// round is the one that is being measured.
func (t *trial) round() *report.Round { return &t.result.Rounds[len(t.result.Rounds)-1] }

// measurePairs makes pairs of PersistentVolumes and PVCs as the operator makes them, and takes the time until
// kube-controller-manager has bound them all. They have gone when it returns.
func measurePairs(ctx context.Context, cluster *env.Cluster, count int, limit time.Duration) (*report.PairCost, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var volumeKeys, pvcKeys []client.ObjectKey
	for number := range count {
		volume, pvc := pair(number)
		volumeKeys, pvcKeys = append(volumeKeys, client.ObjectKeyFromObject(volume)), append(pvcKeys, client.ObjectKeyFromObject(pvc))
	}
	volumes, pvcs, err := gatherPairs(watching, cluster, volumeKeys, pvcKeys)
	if err != nil {
		return nil, err
	}
	both := []*crowd{volumes, pvcs}
	began := time.Now()
	err = inParallel(count, func(number int) error {
		volume, pvc := pair(number)
		return create(ctx, cluster, volume, pvc)
	})
	if err != nil {
		return nil, err
	}
	if _, err := awaitCrowds(ctx, limit, both, isDone(count)); err != nil {
		return nil, err
	}
	cost := &report.PairCost{
		Exist: latest(began, volumes.state().allThere, pvcs.state().allThere),
		Most:  latest(began, pvcs.state().mostDone), Bound: latest(began, pvcs.state().allDone),
	}
	err = inParallel(count, func(number int) error { return discardPair(ctx, cluster, number) })
	if err != nil {
		return nil, err
	}
	gone, err := awaitCrowds(ctx, limit, both, isGone)
	if err == nil && !gone {
		err = fmt.Errorf("%d volumes and %d PVCs have not gone within %s: look at the log of kube-controller-manager",
			volumes.state().there, pvcs.state().there, limit)
	}
	return cost, err
}

// awaitLook waits until kube-controller-manager has looked at all PVCs again, which it does every 15 seconds. A PVC that it
// happens to see before its volume waits for that. So what is measured must always begin at the same time before the next look.
func awaitLook(ctx context.Context, cluster *env.Cluster, limit time.Duration) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	volume, pvc := pair(0)
	volumes, pvcs, err := gatherPairs(watching, cluster,
		[]client.ObjectKey{client.ObjectKeyFromObject(volume)}, []client.ObjectKey{client.ObjectKeyFromObject(pvc)})
	if err != nil {
		return err
	}
	if err := create(ctx, cluster, pvc); err != nil {
		return err
	}
	// Nothing shows that kube-controller-manager has seen the PVC.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	if err := create(ctx, cluster, volume); err != nil {
		return err
	}
	both := []*crowd{volumes, pvcs}
	done, err := awaitCrowds(ctx, limit, both, isDone(1))
	if err == nil && !done {
		err = fmt.Errorf("PVC %s is not bound within %s: look at the log of kube-controller-manager", pvc.Name, limit)
	}
	if err != nil {
		return err
	}
	if err := discardPair(ctx, cluster, 0); err != nil {
		return err
	}
	gone, err := awaitCrowds(ctx, limit, both, isGone)
	if err == nil && !gone {
		err = fmt.Errorf("PVC %s and its volume have not gone within %s: look at the log of kube-controller-manager", pvc.Name, limit)
	}
	return err
}

func create(ctx context.Context, cluster *env.Cluster, objects ...client.Object) error {
	for _, object := range objects {
		if err := cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func discardPair(ctx context.Context, cluster *env.Cluster, number int) error {
	volume, pvc := pair(number)
	// The PVC first, or the volume waits for it.
	for _, object := range []client.Object{pvc, volume} {
		if err := cluster.Client.Delete(ctx, object); err != nil {
			return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// gatherPairs follows volumes and PVCs. They are done when they are bound.
func gatherPairs(ctx context.Context, cluster *env.Cluster, volumeKeys, pvcKeys []client.ObjectKey) (volumes, pvcs *crowd, err error) {
	volumes, err = gather(ctx, cluster, volumeKeys, &corev1.PersistentVolumeList{}, func(object client.Object) bool {
		volume, ok := object.(*corev1.PersistentVolume)
		return ok && volume.Status.Phase == corev1.VolumeBound
	})
	if err != nil {
		return nil, nil, err
	}
	pvcs, err = gather(ctx, cluster, pvcKeys, &corev1.PersistentVolumeClaimList{}, func(object client.Object) bool {
		pvc, ok := object.(*corev1.PersistentVolumeClaim)
		return ok && pvc.Status.Phase == corev1.ClaimBound
	})
	return volumes, pvcs, err
}

// pair is a volume and a PVC that name each other, as those of a SharedVolume do.
func pair(number int) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	namespace, name := shareKey(number).Namespace, fmt.Sprintf("pair-%05d", number)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	class, mode := "bench", corev1.PersistentVolumeFilesystem
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, VolumeMode: &mode, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: env.EFS("").Name, VolumeHandle: handle(number),
			}},
		},
	}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeMode: &mode, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	return volume, pvc
}

func handle(number int) string {
	fileSystem, accessPoint := shareIDs(number)
	return fileSystem + "::" + accessPoint
}

// shareIDs are those of a file system and of an access point that nobody else has.
func shareIDs(number int) (fileSystem, accessPoint string) {
	return "fs-0123456789abcdef0", fmt.Sprintf("fsap-%017x", number)
}
