package cloud

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// addNode makes a worker in a zone, like the worker that exists, and waits until it is ready.
func addNode(ctx context.Context, c *env.Cluster, name, zone, instance string) error {
	like := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: "worker-0"}, like); err != nil {
		return fmt.Errorf("add node %s: %w", name, err)
	}
	labels := maps.Clone(like.Labels)
	labels[corev1.LabelHostname], labels[corev1.LabelTopologyZone] = name, zone
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instance},
		Status:     corev1.NodeStatus{Capacity: like.Status.Capacity, Allocatable: like.Status.Allocatable, NodeInfo: like.Status.NodeInfo},
	}
	if err := c.Client.Create(ctx, node); err != nil {
		return fmt.Errorf("add node %s: %w", name, err)
	}
	return env.Await(ctx, "node "+name+" ready", func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not ready")
	})
}

// removeNode takes a node away with its pods, for which Kubernetes would take a minute.
func removeNode(ctx context.Context, c *env.Cluster, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove node %s: %w", name, err)
	}
	return env.Await(ctx, "node "+name+" gone with its pods", func() error {
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
			return err
		}
		for i := range pods.Items {
			if err := c.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods were left", len(pods.Items))
		}
		return nil
	})
}
