package clustercsidriver

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// singleton is the name of OpenShift's cluster-wide configuration objects.
const singleton = "cluster"

// config reads everything that rendering depends on. All reads are from the cache.
func (r *Reconciler) config(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (driver.Config, error) {
	cfg := driver.Config{
		Namespace: r.Namespace,
		Images:    r.Images,
		RoleARNs:  r.RoleARNs,
		Kinds:     r.Kinds,
		Spec:      cr.Spec,
	}
	if r.Kinds[CloudCredentialKind()] {
		credential := &operatorv1.CloudCredential{}
		if err := r.singleton(ctx, credential); client.IgnoreNotFound(err) != nil {
			return cfg, err
		}
		cfg.CredentialsMode = credential.Spec.CredentialsMode
	}
	if r.Kinds[InfrastructureKind()] {
		// Whoever has an Infrastructure has OpenShift's service CA.
		cfg.ServingCertificates = true
		infrastructure := &configv1.Infrastructure{}
		if err := r.singleton(ctx, infrastructure); err != nil {
			return cfg, err
		}
		cfg.InfrastructureID = infrastructure.Status.InfrastructureName
		cfg.ControlPlaneTopology = infrastructure.Status.ControlPlaneTopology
		cfg.InfrastructureTopology = infrastructure.Status.InfrastructureTopology
		if cfg.InfrastructureID == "" || cfg.ControlPlaneTopology == "" {
			return cfg, fmt.Errorf("the Infrastructure %s has no infrastructureName or controlPlaneTopology in its status yet: "+
				"the driver is rolled out once, when they are known", singleton)
		}
	}
	return cfg, nil
}

func (r *Reconciler) singleton(ctx context.Context, object client.Object) error {
	err := r.Client.Get(ctx, client.ObjectKey{Name: singleton}, object)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: every OpenShift cluster has it; restore it", err)
	}
	if err != nil {
		return fmt.Errorf("read %T %s: %w", object, singleton, err)
	}
	return nil
}

// InfrastructureKind is the kind that names the cluster and its topology.
func InfrastructureKind() schema.GroupKind {
	return schema.GroupKind{Group: configv1.GroupName, Kind: "Infrastructure"}
}

// CloudCredentialKind is the kind with the mode of the cloud-credential-operator.
func CloudCredentialKind() schema.GroupKind {
	return schema.GroupKind{Group: operatorv1.GroupName, Kind: "CloudCredential"}
}

// OptionalKinds are the kinds that not every cluster serves, with the versions that this operator uses.
func OptionalKinds() map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{
		InfrastructureKind():  configv1.GroupVersion.Version,
		CloudCredentialKind(): operatorv1.GroupVersion.Version,
	}
	for _, kind := range driver.OptionalKinds() {
		kinds[kind] = "v1"
	}
	return kinds
}
