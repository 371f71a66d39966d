package env

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddWorkers adds workers until the cluster has this number of nodes, and waits until they can run pods. devcluster would choose the same zones.
func (c *Cluster) AddWorkers(ctx context.Context, nodes int) error {
	have, workers := &corev1.NodeList{}, &corev1.NodeList{}
	err := errors.Join(c.Client.List(ctx, have), c.Client.List(ctx, workers, client.HasLabels{"node-role.kubernetes.io/worker"}))
	if err != nil {
		return fmt.Errorf("add workers: %w", err)
	}
	for i := range nodes - len(have.Items) {
		number := len(workers.Items) + i
		like := workers.Items[number%len(workers.Items)]
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%d", number), Labels: like.DeepCopy().Labels},
			Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("%s-%d", like.Spec.ProviderID, number)},
			Status:     corev1.NodeStatus{Capacity: like.Status.Capacity, Allocatable: like.Status.Allocatable, NodeInfo: like.Status.NodeInfo},
		}
		node.Labels[corev1.LabelHostname] = node.Name
		if err := c.Client.Create(ctx, node); err != nil {
			return fmt.Errorf("add worker %s: %w", node.Name, err)
		}
	}
	return Await(ctx, "the added nodes ready", func() error {
		csi := &storagev1.CSINodeList{}
		if err := errors.Join(c.Client.List(ctx, have), c.Client.List(ctx, csi)); err != nil {
			return err
		}
		if len(csi.Items) < len(have.Items) {
			return fmt.Errorf("%d of %d nodes have a CSINode", len(csi.Items), len(have.Items))
		}
		for _, node := range have.Items {
			ready := false
			for _, condition := range node.Status.Conditions {
				ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
			}
			if !ready {
				return fmt.Errorf("node %s is not ready", node.Name)
			}
			for _, taint := range node.Spec.Taints {
				if taint.Key == corev1.TaintNodeNotReady {
					return fmt.Errorf("node %s is tainted as not ready", node.Name)
				}
			}
		}
		return nil
	})
}

// Unregister does on all nodes what a kubelet does after the last pod of a driver. The stand-in of a devcluster does so only while it sees a
// pod that ends. It returns an error that names nodes where the driver was still registered.
func (c *Cluster) Unregister(ctx context.Context, driver string) error {
	nodes := &storagev1.CSINodeList{}
	err := c.Client.List(ctx, nodes)
	for i := range nodes.Items {
		node := &nodes.Items[i]
		others := slices.DeleteFunc(slices.Clone(node.Spec.Drivers), func(one storagev1.CSINodeDriver) bool { return one.Name == driver })
		if len(others) == len(node.Spec.Drivers) {
			continue
		}
		node.Spec.Drivers = others
		err = errors.Join(err, fmt.Errorf("driver %s was registered on %s", driver, node.Name), c.Client.Update(ctx, node))
	}
	return err
}
