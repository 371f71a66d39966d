package standin

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	injectTrustedCA = "config.openshift.io/inject-trusted-cabundle"
	trustedCAKey    = "ca-bundle.crt"
	// userConfigNamespace is the namespace of the ConfigMap with the administrator's own certificates.
	userConfigNamespace = "openshift-config"
)

// trustedCABundle replaces a part of cluster-network-operator. This part writes the CAs that the cluster trusts into ConfigMaps with a label. The
// cluster trusts the CAs of the system. If the Proxy names a ConfigMap, the cluster also trusts the administrator's CAs in that ConfigMap.
type trustedCABundle struct {
	client client.Client
	system string
}

func (s *trustedCABundle) setup(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("trusted-ca-bundle").
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(s.affected)).
		Watches(&configv1.Proxy{}, handler.EnqueueRequestsFromMapFunc(s.labelled)).
		Complete(s)
}

// affected returns the ConfigMaps that the stand-in must look at after a change of a ConfigMap. If the changed ConfigMap has the label, the result is
// only this ConfigMap. A changed ConfigMap without the label matters only in the namespace of the administrator's certificates. The result is then
// all ConfigMaps with the label.
func (s *trustedCABundle) affected(ctx context.Context, object client.Object) []reconcile.Request {
	if object.GetLabels()[injectTrustedCA] == "true" {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}
	if object.GetNamespace() == userConfigNamespace {
		return s.labelled(ctx, object)
	}
	return nil
}

func (s *trustedCABundle) labelled(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &corev1.ConfigMapList{}
	if err := s.client.List(ctx, list, client.MatchingLabels{injectTrustedCA: "true"}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ConfigMaps that want the trusted certificates")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile fills one ConfigMap.
func (s *trustedCABundle) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if config.Labels[injectTrustedCA] != "true" || config.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	user, err := s.userBundle(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, setData(ctx, s.client, config, trustedCAKey, user+s.system)
}

// userBundle returns the administrator's certificates. If there is no Proxy or no ConfigMap, it returns none.
func (s *trustedCABundle) userBundle(ctx context.Context) (string, error) {
	proxy := &configv1.Proxy{}
	err := s.client.Get(ctx, client.ObjectKey{Name: "cluster"}, proxy)
	if apierrors.IsNotFound(err) || err == nil && proxy.Spec.TrustedCA.Name == "" {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get Proxy cluster: %w", err)
	}
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: userConfigNamespace, Name: proxy.Spec.TrustedCA.Name}
	if err := s.client.Get(ctx, key, config); err != nil {
		return "", client.IgnoreNotFound(fmt.Errorf("get ConfigMap %s, which Proxy cluster names: %w", key, err))
	}
	return config.Data[trustedCAKey], nil
}
