// Package kube has the scheme, the checks at start, and the namespace of the CSI drivers.
package kube

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

// DefaultNamespace is the namespace in which OpenShift runs CSI drivers.
const DefaultNamespace = "openshift-cluster-csi-drivers"

// Scheme has the kinds that the operators read or write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		operatorv1.Install,
		configv1.Install,
		monitoringv1.AddToScheme,
		securityv1.Install,
		cloudcredentialv1.AddToScheme,
		snapshotv1.AddToScheme,
		v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}
