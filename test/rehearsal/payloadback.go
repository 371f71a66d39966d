package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// olderRelease is the release of OpenShift that has the operators of the older version.
const olderRelease = "4.20.99"

// payloadBack goes back to a payload with the older operators and forward again, as the cluster-version operator does. The operators are killed once in
// the middle of their work. A pod with a volume of EBS goes on writing.
func (r *rehearsal) payloadBack(ctx context.Context) error {
	older, err := r.olderPayload(ctx)
	if err != nil {
		return err
	}
	if err := r.writeToDisk(ctx); err != nil {
		return err
	}
	before, err := r.kept(ctx)
	if err != nil {
		return err
	}
	for _, to := range []env.Release{older, r.newPayload} {
		r.say("Changing the payload to %s.", to.Version)
		if err := r.whileWriting(ctx, func(ctx context.Context) error { return r.changePayload(ctx, to) }); err != nil {
			return err
		}
		now, err := r.kept(ctx)
		if err == nil && !slices.Equal(before, now) {
			err = fmt.Errorf("the change to %s did not keep all (-before +after):\n%s", to.Version, cmp.Diff(before, now))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// olderPayload is the release with the operators of the older version. All other images are those of the newer one.
func (r *rehearsal) olderPayload(ctx context.Context) (env.Release, error) {
	folder := r.file("older")
	older := env.Release{Version: olderRelease, Folder: filepath.Join(folder, "manifests"), Images: maps.Clone(r.newPayload.Images)}
	for _, name := range []string{env.CSO, env.DriverOperator} {
		if _, err := r.command(ctx, folder, "go", "run", "./hack/images", "-output", "out", "-arch", runtime.GOARCH, "-only", name); err != nil {
			return older, err
		}
		index, err := layout.ImageIndexFromPath(filepath.Join(folder, "out", name))
		if err != nil {
			return older, err
		}
		built, err := (&inner{index}).open()
		if err != nil {
			return older, err
		}
		if older.Images[name], err = r.push(ctx, r.first.host+"/release/"+name+":v"+olderRelease, built); err != nil {
			return older, err
		}
	}
	return older, nil
}

// changePayload applies a release, and deletes the pods of its operators without a grace period as soon as cluster-storage-operator reports progress.
func (r *rehearsal) changePayload(ctx context.Context, to env.Release) error {
	if err := r.cluster.ApplyRelease(ctx, to); err != nil {
		return err
	}
	if err := env.AwaitFor(ctx, patience, "the operator of EBS at work", func() error { return r.runsImage(ctx, to.Images[env.DriverOperator]) }); err != nil {
		return err
	}
	for namespace, label := range map[string]string{env.CSONamespace: "name=" + env.CSO, env.OperatorNamespace: "name=aws-ebs-csi-driver-operator"} {
		if _, err := r.cluster.Kubectl(ctx, "-n", namespace, "delete", "pods", "-l", label, "--grace-period=0", "--force"); err != nil {
			return err
		}
	}
	return r.applyPayload(ctx, to)
}

// runsImage returns an error unless the pod of the operator of EBS has an image, and is ready.
func (r *rehearsal) runsImage(ctx context.Context, image string) error {
	pods := &corev1.PodList{}
	if err := r.cluster.Client.List(ctx, pods, client.InNamespace(env.OperatorNamespace),
		client.MatchingLabels{"name": "aws-ebs-csi-driver-operator"}); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(each corev1.PodCondition) bool {
			return each.Type == corev1.PodReady && each.Status == corev1.ConditionTrue
		})
		if ready && pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == image {
			return nil
		}
	}
	return fmt.Errorf("none of %d pods of the operator of EBS is ready with image %s", len(pods.Items), image)
}

// writeToDisk runs a pod that writes to a volume of the default StorageClass, which is one of EBS.
func (r *rehearsal) writeToDisk(ctx context.Context) error {
	_, pvc, pod := env.Workload()
	pvc.Name, pod.Name = "disk", "writes-to-disk"
	pvc.Spec.VolumeName, pvc.Spec.StorageClassName = "", nil
	pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = pvc.Name
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	env.WriteLines(pod)
	for _, object := range []client.Object{pvc, pod} {
		if err := r.cluster.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	r.pod = pod
	var written []float64
	err := env.AwaitFor(ctx, patience, "lines on a volume of EBS", func() (err error) {
		written, err = r.cluster.Lines(ctx, pod, 10)
		return err
	})
	if err == nil {
		r.say("Pod %s has written %d lines to a volume of EBS.", pod.Name, len(written))
	}
	return err
}
