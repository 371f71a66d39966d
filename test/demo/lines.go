package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// writes adds ten lines a second, each with its number and the seconds since the machine started.
const writes = `n=0
while read -r up rest < /proc/uptime; do n=$((n+1)); echo "$n $up" >> /mnt/efs-data/lines || exit 1; sleep 0.1; done`

// startNFS lets each write to a volume of EFS go through a process of the node pod, as it does in AWS. It ends with this program: volumes that are
// mounted later are folders of their node.
func (d *demo) startNFS(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := d.cluster.Client.List(ctx, nodes, client.MatchingLabels{"devcluster/real": "true"}); err != nil {
		return fmt.Errorf("list the real nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if _, err := d.cluster.StartNFS(ctx, node.Name, ""); err != nil {
			return err
		}
	}
	return nil
}

// writeTo lets the pod write to its volume.
func writeTo(pod *corev1.Pod) {
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	container := &pod.Spec.Containers[0]
	container.Image = "devcluster.local/busybox:1"
	container.Command = []string{"sh", "-c", writes}
}

// meanwhile does something while the pod writes, and shows that the pod goes on, and that no line is missing.
func (d *demo) meanwhile(ctx context.Context, pod *corev1.Pod, do func(context.Context) error) error {
	if !d.real {
		return do(ctx)
	}
	before, err := d.lines(ctx, pod, 1)
	if err != nil {
		return err
	}
	d.say("Pod %s writes ten lines a second to the volume.", pod.Name)
	if err := do(ctx); err != nil {
		return err
	}
	after, err := d.lines(ctx, pod, len(before)+10)
	if err != nil {
		return err
	}
	longest := 0.0
	for i := len(before); i < len(after); i++ {
		longest = max(longest, after[i]-after[i-1])
	}
	d.say("Pod %s wrote lines %d to %d meanwhile. None is missing. The longest pause was %.1f s.", pod.Name, len(before)+1, len(after), longest)
	return nil
}

// lines waits until a pod has written some lines, and returns their times.
func (d *demo) lines(ctx context.Context, pod *corev1.Pod, count int) ([]float64, error) {
	var times []float64
	err := env.Await(ctx, "lines in the volume", func() error {
		text, err := d.cluster.Kubectl(ctx, "-n", pod.Namespace, "exec", pod.Name, "--", "cat", "/mnt/efs-data/lines")
		if err != nil {
			return err
		}
		times = nil
		for line := range strings.Lines(text) {
			number, at, _ := strings.Cut(strings.TrimSpace(line), " ")
			seconds, err := strconv.ParseFloat(at, 64)
			if number != strconv.Itoa(len(times)+1) || err != nil {
				return fmt.Errorf("after line %d comes %q", len(times), line)
			}
			times = append(times, seconds)
		}
		if len(times) < count {
			return errors.New("too few lines")
		}
		return nil
	})
	return times, err
}
