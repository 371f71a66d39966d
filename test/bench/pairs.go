package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// pairs measures what the same kube-controller-manager takes for pairs that nobody has to make from SharedVolumes.
func (t *trial) pairs(ctx context.Context, count int) error {
	cost, err := measurePairs(ctx, t.cluster, count, t.limit)
	if cost != nil {
		t.result.Rounds = append(t.result.Rounds, Round{Pairs: cost})
	}
	return err
}

// round is the one that is being measured.
func (t *trial) round() *Round { return &t.result.Rounds[len(t.result.Rounds)-1] }

// measurePairs makes pairs of PersistentVolumes and claims as the operator makes them, and takes the time until
// kube-controller-manager has bound them all. They have gone when it returns.
func measurePairs(ctx context.Context, cluster *env.Cluster, count int, limit time.Duration) (*PairCost, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var volumeKeys, claimKeys []client.ObjectKey
	for number := range count {
		volume, claim := pair(number)
		volumeKeys, claimKeys = append(volumeKeys, client.ObjectKeyFromObject(volume)), append(claimKeys, client.ObjectKeyFromObject(claim))
	}
	volumes, claims, err := gatherPairs(watching, cluster, volumeKeys, claimKeys)
	if err != nil {
		return nil, err
	}
	both := []*crowd{volumes, claims}
	began := time.Now()
	err = inParallel(count, func(number int) error {
		volume, claim := pair(number)
		return create(ctx, cluster, volume, claim)
	})
	if err != nil {
		return nil, err
	}
	if _, err := awaitCrowds(ctx, limit, both, isDone(count)); err != nil {
		return nil, err
	}
	cost := &PairCost{
		Exist: latest(began, volumes.state().allThere, claims.state().allThere),
		Most:  latest(began, claims.state().mostDone), Bound: latest(began, claims.state().allDone),
	}
	err = inParallel(count, func(number int) error { return discardPair(ctx, cluster, number) })
	if err != nil {
		return nil, err
	}
	gone, err := awaitCrowds(ctx, limit, both, isGone)
	if err == nil && !gone {
		err = fmt.Errorf("%d volumes and %d claims have not gone within %s: look at the log of kube-controller-manager",
			volumes.state().there, claims.state().there, limit)
	}
	return cost, err
}

// awaitLook waits until kube-controller-manager has looked at all claims again, which it does every 15 seconds. A claim that it
// happens to see before its volume waits for that. So what is measured must always begin at the same time before the next look.
func awaitLook(ctx context.Context, cluster *env.Cluster, limit time.Duration) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	volume, claim := pair(0)
	volumes, claims, err := gatherPairs(watching, cluster,
		[]client.ObjectKey{client.ObjectKeyFromObject(volume)}, []client.ObjectKey{client.ObjectKeyFromObject(claim)})
	if err != nil {
		return err
	}
	if err := create(ctx, cluster, claim); err != nil {
		return err
	}
	// Nothing tells that kube-controller-manager has seen the claim.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	if err := create(ctx, cluster, volume); err != nil {
		return err
	}
	both := []*crowd{volumes, claims}
	done, err := awaitCrowds(ctx, limit, both, isDone(1))
	if err == nil && !done {
		err = fmt.Errorf("claim %s is not bound within %s: look at the log of kube-controller-manager", claim.Name, limit)
	}
	if err != nil {
		return err
	}
	if err := discardPair(ctx, cluster, 0); err != nil {
		return err
	}
	gone, err := awaitCrowds(ctx, limit, both, isGone)
	if err == nil && !gone {
		err = fmt.Errorf("claim %s and its volume have not gone within %s: look at the log of kube-controller-manager", claim.Name, limit)
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
	volume, claim := pair(number)
	// The claim first, or the volume waits for it.
	for _, object := range []client.Object{claim, volume} {
		if err := cluster.Client.Delete(ctx, object); err != nil {
			return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// gatherPairs follows volumes and claims. They are done when they are bound.
func gatherPairs(ctx context.Context, cluster *env.Cluster, volumeKeys, claimKeys []client.ObjectKey) (volumes, claims *crowd, err error) {
	volumes, err = gather(ctx, cluster, volumeKeys, &corev1.PersistentVolumeList{}, func(object client.Object) bool {
		volume, ok := object.(*corev1.PersistentVolume)
		return ok && volume.Status.Phase == corev1.VolumeBound
	})
	if err != nil {
		return nil, nil, err
	}
	claims, err = gather(ctx, cluster, claimKeys, &corev1.PersistentVolumeClaimList{}, func(object client.Object) bool {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		return ok && claim.Status.Phase == corev1.ClaimBound
	})
	return volumes, claims, err
}

// pair is a volume and a claim that name each other, as those of a SharedVolume do.
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
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeMode: &mode, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	return volume, claim
}

func handle(number int) string {
	fileSystem, accessPoint := shareIDs(number)
	return fileSystem + "::" + accessPoint
}

// shareIDs are those of a file system and of an access point that nobody else has.
func shareIDs(number int) (fileSystem, accessPoint string) {
	return "fs-0123456789abcdef0", fmt.Sprintf("fsap-%017x", number)
}
