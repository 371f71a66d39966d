package kube

import (
	"context"
	"errors"
	"fmt"
	"net"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Preflight checks the cluster before anything starts.
type Preflight struct {
	// Live reads from the cluster, without a cache. Mapper knows the kinds that the cluster serves, and their resources.
	Live   client.Reader
	Mapper meta.RESTMapper
}

// CheckNamespace returns an error if the namespace does not exist.
func (p Preflight) CheckNamespace(ctx context.Context, name string) error {
	err := p.Live.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q does not exist: create it, or pass another one with --namespace", name)
	}
	if apierrors.IsForbidden(err) {
		// The operator's Role is in this namespace. If the namespace does not exist, the Role does not exist either, so the API server answers "forbidden".
		return fmt.Errorf("namespace %q does not exist, or the operator has no Role there: create both, or pass another one with --namespace: "+
			"%w", name, err)
	}
	if err != nil {
		return fmt.Errorf("look for namespace %q: %w", name, reachable(err))
	}
	return nil
}

// Require returns an error if the cluster does not serve a kind.
func (p Preflight) Require(kind schema.GroupVersionKind, hint string) error {
	served, err := p.Serves(kind.GroupKind(), kind.Version)
	if err == nil && !served {
		err = fmt.Errorf("the cluster does not serve kind %s of %s: %s", kind.Kind, kind.GroupVersion(), hint)
	}
	return err
}

// Serves reports whether the cluster serves a kind.
func (p Preflight) Serves(kind schema.GroupKind, version string) (bool, error) {
	_, err := p.Mapper.RESTMapping(kind, version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for kind %s: %w", kind, reachable(err))
	default:
		return true, nil
	}
}

// SingleNode reports whether the control plane is a single node. It returns false if the operator can't find that out.
func (p Preflight) SingleNode(ctx context.Context) bool {
	infrastructure, err := openshift.ReadInfrastructure(ctx, p.Live)
	return err == nil && infrastructure != nil && infrastructure.Status.ControlPlaneTopology == configv1.SingleReplicaTopologyMode
}

// reachable adds a hint to network and authentication errors.
func reachable(err error) error {
	var network net.Error
	switch {
	case errors.As(err, &network):
		return fmt.Errorf("the API server can't be reached, check the kubeconfig and the network: %w", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials of the kubeconfig: %w", err)
	default:
		return err
	}
}
