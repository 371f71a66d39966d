package standin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	injectServiceCA = "service.beta.openshift.io/inject-cabundle"
	serviceCAKey    = "service-ca.crt"
)

// serviceCABundle replaces a part of service-ca-operator. This part writes the CA of serving certificates into ConfigMaps with an annotation.
type serviceCABundle struct {
	client client.Client
	bundle string
}

func (s *serviceCABundle) setup(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("service-ca-bundle").
		For(&corev1.ConfigMap{}).
		Complete(s)
}

// Reconcile fills in one ConfigMap, if the ConfigMap has the annotation.
func (s *serviceCABundle) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if config.Annotations[injectServiceCA] != "true" || config.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, setData(ctx, s.client, config, serviceCAKey, s.bundle)
}

// setData sets one key of a ConfigMap, unless the key already has this value.
func setData(ctx context.Context, c client.Client, config *corev1.ConfigMap, key, value string) error {
	if config.Data[key] == value {
		return nil
	}
	wanted := config.DeepCopy()
	if wanted.Data == nil {
		wanted.Data = map[string]string{}
	}
	wanted.Data[key] = value
	if err := c.Patch(ctx, wanted, client.MergeFrom(config)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write key %s of ConfigMap %s/%s: %w", key, config.Namespace, config.Name, err))
	}
	return nil
}
