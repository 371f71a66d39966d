package migration

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Serving is the predecessor's driver in our namespace. A nil workload is absent.
type Serving struct {
	Deployment *appsv1.Deployment
	DaemonSet  *appsv1.DaemonSet
	// Pods are the DaemonSet's pods.
	Pods []corev1.Pod
}

// Serving finds the workloads of a predecessor that keep running while the driver is Unmanaged.
func (m *Migration) Serving(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (Serving, error) {
	var found Serving
	for _, predecessor := range m.Predecessors {
		if err := m.addNodes(ctx, predecessor, &found); err != nil {
			return found, err
		}
	}
	succeeds, err := m.succeeds(ctx, cr)
	if err != nil || !succeeds {
		return found, err
	}
	deployment := &appsv1.Deployment{}
	err = m.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.Deployment}, deployment)
	switch {
	case err == nil:
		found.Deployment = deployment
	case !apierrors.IsNotFound(err):
		return found, fmt.Errorf("look for Deployment %s of a predecessor: %w", m.Driver.Deployment, err)
	}
	return found, nil
}

// addNodes adds the DaemonSet of a predecessor, with its pods.
func (m *Migration) addNodes(ctx context.Context, predecessor *Predecessor, found *Serving) error {
	daemonSets, err := predecessor.daemonSets(ctx)
	if err != nil {
		return err
	}
	for i := range daemonSets {
		if daemonSets[i].Namespace != m.Namespace {
			continue
		}
		pods := &corev1.PodList{}
		if err := m.Client.List(ctx, pods, client.InNamespace(m.Namespace), client.MatchingLabels{"app": predecessor.DaemonSet}); err != nil {
			return fmt.Errorf("list node pods of %s: %w", predecessor.Title, err)
		}
		found.DaemonSet, found.Pods = &daemonSets[i], pods.Items
	}
	return nil
}
