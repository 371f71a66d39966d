package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// project is the namespace of a developer.
const project = "my-project"

// share makes a SharedVolume as a developer does, runs a pod with it, changes the driver meanwhile, and shows that nothing is left when it is
// deleted.
func (d *demo) share(ctx context.Context) error {
	d.say("A developer creates SharedVolume sv1 in namespace %s, with the IDs of an access point:", project)
	sv := env.SharedVolume(project, "sv1")
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project}}, sv} {
		if err := d.cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	err := env.Await(ctx, "SharedVolume ready", func() error { return d.cluster.Ready(ctx, sv) })
	if err != nil {
		return err
	}
	for _, kind := range []string{"sv", "pvc"} {
		table, err := d.cluster.Kubectl(ctx, "-n", project, "get", kind)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		fmt.Println("           " + strings.ReplaceAll(strings.TrimSpace(table), "\n", "\n           "))
	}
	pod, err := d.use(ctx, sv.Status.ClaimRef.Name)
	if err != nil {
		return err
	}
	if err := d.meanwhile(ctx, pod, d.damage); err != nil {
		return err
	}
	if err := d.meanwhile(ctx, pod, func(ctx context.Context) error { return d.configure(ctx, pod) }); err != nil {
		return err
	}
	return d.unshare(ctx, pod, sv)
}

// use runs a pod with a PVC.
func (d *demo) use(ctx context.Context, pvc string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "pod1"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example/app:1.0.0",
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/mnt/efs-data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
			}}},
		},
	}
	if d.real {
		env.WriteLines(pod)
	}
	// A new namespace gets its ServiceAccount a moment later.
	err := env.Await(ctx, "pod created", func() error {
		if err := d.cluster.Client.Create(ctx, pod); err != nil {
			return fmt.Errorf("create the pod: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = env.Await(ctx, "pod running", func() error {
		if err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return fmt.Errorf("read the pod: %w", err)
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.say("Pod pod1 runs with it on node %s%s.", pod.Spec.NodeName, map[bool]string{true: ", and writes ten lines a second to the volume"}[d.real])
	return pod, nil
}

// unshare deletes the pod and the SharedVolume, and waits for all that was made for it.
func (d *demo) unshare(ctx context.Context, pod *corev1.Pod, sv *v1alpha1.SharedVolume) error {
	d.say("Deleting the pod and the SharedVolume. The rest can take a minute here: Kubernetes' garbage collector deletes the PVC,")
	fmt.Println("           and learns of a new kind only every 30 seconds, and this cluster is young.")
	pvc, volume := env.PVCOf(sv), env.VolumeOf(sv)
	for _, object := range []client.Object{pod, sv} {
		if err := d.cluster.Client.Delete(ctx, object); err != nil {
			return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
		}
	}
	for _, object := range []client.Object{pod, sv, pvc, volume} {
		name := object.GetName()
		if err := env.AwaitFor(ctx, 3*time.Minute, name+" gone", func() error { return d.cluster.Gone(ctx, object) }); err != nil {
			return err
		}
	}
	d.say("Claim %s and volume %s are gone; the data on the file system stays.", pvc.Name, volume.Name)
	return nil
}
