package env

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lines is the file that WriteLines writes.
const lines = "lines"

// WriteLines lets the first container of a pod write lines to a file in its first volume mount: see Writes.
func WriteLines(pod *corev1.Pod) {
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	container := &pod.Spec.Containers[0]
	container.Image, container.Command = WriterImage, Writes(linesOf(pod))
}

func linesOf(pod *corev1.Pod) string {
	return pod.Spec.Containers[0].VolumeMounts[0].MountPath + "/" + lines
}

// Lines waits until a pod of WriteLines has written some lines, and returns their times. It returns no time if a line is missing.
func (c *Cluster) Lines(ctx context.Context, pod *corev1.Pod, count int) ([]float64, error) {
	var times []float64
	err := Await(ctx, "lines in the volume", func() error {
		text, err := c.Kubectl(ctx, "-n", pod.Namespace, "exec", pod.Name, "--", "cat", linesOf(pod))
		if err != nil {
			return err
		}
		if times, err = Lines(text); err != nil {
			return err
		}
		if len(times) < count {
			return errors.New("too few lines")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return times, nil
}

// WrittenMeanwhile does something while a pod of WriteLines writes, and describes the lines that it wrote meanwhile. It fails if a line is
// missing, or if the pod stopped.
func (c *Cluster) WrittenMeanwhile(ctx context.Context, pod *corev1.Pod, do func(context.Context) error) (string, error) {
	before, err := c.Lines(ctx, pod, 1)
	if err != nil {
		return "", err
	}
	if err := do(ctx); err != nil {
		return "", err
	}
	after, err := c.Lines(ctx, pod, len(before)+10)
	if err != nil {
		return "", err
	}
	longest := LongestPause(after[len(before)-1:]).Length()
	return fmt.Sprintf("Pod %s wrote lines %d to %d meanwhile. None is missing. The longest pause was %.1f s.",
		pod.Name, len(before)+1, len(after), longest), nil
}

// StartAllNFS starts NFS on every real node, without a limit of space. Each ends with this program.
func (c *Cluster) StartAllNFS(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes, client.MatchingLabels{"devcluster/real": "true"}); err != nil {
		return fmt.Errorf("list the real nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if _, err := c.StartNFS(ctx, node.Name, ""); err != nil {
			return err
		}
	}
	return nil
}
