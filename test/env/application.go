package env

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Application is a pod that uses PVCs. Without a node, the scheduler chooses one.
func Application(namespace, name, node string, pvcs ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "registry.example/app:1"}}},
	}
	for _, pvc := range pvcs {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: pvc, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
		}})
	}
	return pod
}

// RunPod creates a pod and waits until it runs.
func (c *Cluster) RunPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	// The account of a young namespace may be missing for a moment.
	Eventually(t, "pod "+pod.Name+" created", func() error { return c.Client.Create(t.Context(), pod) })
	Eventually(t, "pod "+pod.Name+" runs", func() error { return c.Running(t.Context(), pod) })
	return pod
}

// Running returns an error unless a pod runs, and is not asked to end.
func (c *Cluster) Running(ctx context.Context, pod *corev1.Pod) error {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
	}
	return nil
}
