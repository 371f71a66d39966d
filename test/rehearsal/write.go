package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// write runs a pod that writes to a volume of the driver, and shows the mount.
func (r *rehearsal) write(ctx context.Context) error {
	if err := r.cluster.StartAllNFS(ctx); err != nil {
		return err
	}
	volume, pvc, pod := env.Workload()
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	env.WriteLines(pod)
	for _, object := range []client.Object{volume, pvc, pod} {
		// A new namespace gets its ServiceAccount a moment later.
		err := env.Await(ctx, object.GetName()+" created", func() error { return r.cluster.Client.Create(ctx, object) })
		if err != nil {
			return err
		}
	}
	r.pod = pod
	written, err := r.cluster.Lines(ctx, pod, 10)
	if err != nil {
		return err
	}
	mount, err := r.cluster.Kubectl(ctx, "exec", pod.Name, "--", "grep", " /data ", "/proc/mounts")
	if err != nil {
		return err
	}
	if !strings.Contains(mount, " fuse") {
		return fmt.Errorf("the pod writes to no volume of the driver, but to: %s", mount)
	}
	r.say("Pod %s has written %d lines to its volume. The mount: %s", pod.Name, len(written), strings.TrimSpace(mount))
	return nil
}

// whileWriting does something while the pod writes, and shows that no line is missing.
func (r *rehearsal) whileWriting(ctx context.Context, do func(context.Context) error) error {
	said, err := r.cluster.WrittenMeanwhile(ctx, r.pod, do)
	if err != nil {
		return err
	}
	r.say("%s", said)
	return nil
}
