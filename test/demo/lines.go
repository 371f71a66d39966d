package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// meanwhile does something while the pod writes, and shows that the pod goes on, and that no line is missing.
func (d *demo) meanwhile(ctx context.Context, pod *corev1.Pod, do func(context.Context) error) error {
	if !d.real {
		return do(ctx)
	}
	said, err := d.cluster.WrittenMeanwhile(ctx, pod, do)
	if err != nil {
		return err
	}
	d.say("%s", said)
	return nil
}
