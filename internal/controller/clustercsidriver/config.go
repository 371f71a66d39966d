package clustercsidriver

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/tlsprofile"
)

// singleton is the name of OpenShift's cluster-wide configuration objects.
const singleton = "cluster"

// config reads what rendering depends on, but for the inputs of the pods. All reads are from the cache. The second value
// says what of the configuration can't be followed.
func (r *Reconciler) config(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (driver.Config, []string, error) {
	cfg := driver.Config{
		Namespace: r.Namespace,
		Images:    r.Images,
		RoleARNs:  r.RoleARNs,
		Settings:  r.settings(cr),
		FIPS:      r.FIPS,
		Kinds:     r.Kinds,
		Spec:      cr.Spec,
	}
	credential, proxy := &operatorv1.CloudCredential{}, &configv1.Proxy{}
	if err := r.optional(ctx, credential, CloudCredentialKind()); err != nil {
		return cfg, nil, err
	}
	if err := r.optional(ctx, proxy, ProxyKind()); err != nil {
		return cfg, nil, err
	}
	cfg.CredentialsMode = credential.Spec.CredentialsMode
	var err error
	if cfg.Minting, err = r.minting(ctx, cfg.CredentialsMode); err != nil {
		return cfg, nil, err
	}
	// The status, because the network operator checks and completes what the administrator wrote.
	cfg.Proxy = proxy.Status
	if cfg.FeatureGates, err = r.featureGates(ctx); err != nil {
		return cfg, nil, err
	}
	servers, err := r.tls(ctx)
	if err != nil {
		return cfg, nil, err
	}
	cfg.TLS = servers.Profile
	if err := r.infrastructure(ctx, &cfg); err != nil {
		return cfg, nil, err
	}
	if cfg.Classes, err = r.classes(ctx); err != nil {
		return cfg, nil, err
	}
	cloudCA, notPEM, err := r.cloudCA(ctx)
	if err != nil {
		return cfg, nil, err
	}
	cfg.CloudCA = cloudCA
	var problems []string
	for _, problem := range []string{servers.Problem, notPEM} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	if r.Driver.Check != nil {
		problems = append(problems, r.Driver.Check(cfg)...)
	}
	return cfg, problems, nil
}

// infrastructure fills in what the Infrastructure says.
func (r *Reconciler) infrastructure(ctx context.Context, cfg *driver.Config) error {
	if !r.Kinds[InfrastructureKind()] {
		return nil
	}
	// Whoever has an Infrastructure has OpenShift's service CA.
	cfg.ServingCertificates = true
	infrastructure := &configv1.Infrastructure{}
	if err := r.singleton(ctx, infrastructure); err != nil {
		return err
	}
	cfg.InfrastructureID = infrastructure.Status.InfrastructureName
	cfg.ControlPlaneTopology = infrastructure.Status.ControlPlaneTopology
	cfg.InfrastructureTopology = infrastructure.Status.InfrastructureTopology
	cfg.Platform = infrastructure.Status.PlatformStatus
	if platform := cfg.Platform; platform != nil && platform.AWS != nil {
		cfg.Region, cfg.ResourceTags = platform.AWS.Region, platform.AWS.ResourceTags
	}
	if platform := cfg.Platform; platform != nil && platform.GCP != nil {
		cfg.Region = platform.GCP.Region
	}
	if cfg.InfrastructureID == "" || cfg.ControlPlaneTopology == "" {
		return fmt.Errorf("the Infrastructure %s has no infrastructureName or controlPlaneTopology in its status yet: "+
			"the driver is rolled out once, when they are known", singleton)
	}
	return nil
}

// classes reads what says which class is the default. A driver whose one class is not the default needs none of it.
func (r *Reconciler) classes(ctx context.Context) ([]driver.Class, error) {
	if r.Driver.StorageClass != "" {
		return nil, nil
	}
	var found []driver.Class
	add := func(kind string, object client.Object) {
		found = append(found, driver.Class{Kind: kind, Name: object.GetName(), Default: object.GetAnnotations()[driver.DefaultAnnotation(kind)]})
	}
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	for i := range classes.Items {
		add("StorageClass", &classes.Items[i])
	}
	snapshots := driver.VolumeSnapshotClassKind()
	if !r.Kinds[snapshots] {
		return found, nil
	}
	snapshotClasses := &snapshotv1.VolumeSnapshotClassList{}
	if err := r.Client.List(ctx, snapshotClasses); err != nil {
		return nil, fmt.Errorf("list VolumeSnapshotClasses: %w", err)
	}
	for i := range snapshotClasses.Items {
		// Each driver has a default of its own.
		if snapshotClasses.Items[i].Driver == r.Driver.Name {
			add(snapshots.Kind, &snapshotClasses.Items[i])
		}
	}
	return found, nil
}

// tls reads the cluster's TLS profile.
func (r *Reconciler) tls(ctx context.Context) (tlsprofile.Cluster, error) {
	apiServer := &unstructured.Unstructured{Object: map[string]any{}}
	apiServer.SetGroupVersionKind(tlsprofile.Kind())
	if err := r.optional(ctx, apiServer, APIServerKind()); err != nil {
		return tlsprofile.Cluster{}, err
	}
	servers, err := tlsprofile.Of(apiServer)
	if err != nil {
		return servers, fmt.Errorf("TLS security profile: %w", err)
	}
	return servers, nil
}

// optional reads a singleton that need not exist, of a kind that need not be served.
func (r *Reconciler) optional(ctx context.Context, object client.Object, kind schema.GroupKind) error {
	if !r.Kinds[kind] {
		return nil
	}
	if err := r.singleton(ctx, object); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
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

// ProxyKind is the kind with the cluster's way to the internet.
func ProxyKind() schema.GroupKind { return schema.GroupKind{Group: configv1.GroupName, Kind: "Proxy"} }

// APIServerKind is the kind with the cluster's TLS profile.
func APIServerKind() schema.GroupKind { return tlsprofile.Kind().GroupKind() }

// CloudCredentialKind is the kind with the mode of the cloud-credential-operator.
func CloudCredentialKind() schema.GroupKind {
	return schema.GroupKind{Group: operatorv1.GroupName, Kind: "CloudCredential"}
}

// OptionalKinds are the kinds that not every cluster serves, with the versions that the operator of a driver uses.
func OptionalKinds(d driver.Driver) map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{
		InfrastructureKind():  configv1.GroupVersion.Version,
		ProxyKind():           configv1.GroupVersion.Version,
		APIServerKind():       configv1.GroupVersion.Version,
		CloudCredentialKind(): operatorv1.GroupVersion.Version,
	}
	for _, kind := range d.OptionalKinds() {
		kinds[kind] = "v1"
	}
	if len(d.FeatureGates) > 0 {
		kinds[FeatureGateKind()] = configv1.GroupVersion.Version
	}
	return kinds
}
