package clustercsidriver

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

// config reads from the cache what the operator needs to render the driver's objects. Method "inputs" later adds the hashes of the pods' inputs. The
// second result lists settings that the operator can't apply.
func (r *Reconciler) config(
	ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live, state migration.State,
) (driver.Config, []string, error) {
	cfg := driver.Config{
		Namespace: r.Namespace,
		Images:    r.Images,
		RoleARNs:  r.RoleARNs,
		Settings:  r.Migration.Settings(r.Settings, cr, state.Inherited),
		Migrating: len(state.Old) > 0,
		FIPS:      r.FIPS,
		Kinds:     r.Kinds,
		Spec:      cr.Spec,
		Classes:   live.classes,
	}
	cluster, err := openshift.Read(ctx, r.Client, r.Kinds)
	if err != nil {
		return cfg, nil, err
	}
	cfg.CredentialsMode, cfg.Proxy, cfg.TLS = cluster.CredentialsMode, cluster.Proxy, cluster.TLS.Profile
	cfg.Minting = live.credentials.Minting(r.Driver, cfg)
	cfg.FeatureGates = r.featureGates(cluster.FeatureGate)
	var unscheduled string
	if cfg.RequiresDriver, unscheduled, err = r.requiresDriver(ctx, cr, cfg.FeatureGates); err != nil {
		return cfg, nil, err
	}
	if err := r.infrastructure(cluster.Infrastructure, &cfg); err != nil {
		return cfg, nil, err
	}
	cfg.Cloud = r.Derived.Facts()
	if cfg.ClassesInUse, err = r.Derived.ClassesInUse(ctx, cfg); err != nil {
		return cfg, nil, err
	}
	cloudCA, notPEM, err := r.Derived.CA(ctx)
	if err != nil {
		return cfg, nil, err
	}
	cfg.CloudCA = cloudCA
	noPolicy := ""
	if r.Driver.MountsInPods {
		cfg.Rollout, noPolicy = driver.RolloutPolicyOf(cfg.Settings, cr.Annotations[driver.RolloutPolicyAnnotation])
	}
	var problems []string
	for _, problem := range []string{cluster.TLS.Problem, notPEM, noPolicy, unscheduled} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return cfg, append(problems, r.Driver.Problems(cfg)...), nil
}

// infrastructure copies fields of the Infrastructure into the Config.
func (r *Reconciler) infrastructure(infrastructure *configv1.Infrastructure, cfg *driver.Config) error {
	if !r.Kinds[openshift.InfrastructureKind()] {
		return nil
	}
	if infrastructure == nil {
		return fmt.Errorf( //nolint:staticcheck // It begins with the name of a kind.
			"Infrastructure %s is missing: restore it, every OpenShift cluster needs it", openshift.Singleton)
	}
	// A cluster with an Infrastructure is OpenShift, whose service CA issues serving certificates.
	cfg.ServingCertificates = true
	cfg.InfrastructureID = infrastructure.Status.InfrastructureName
	cfg.ControlPlaneTopology = infrastructure.Status.ControlPlaneTopology
	cfg.InfrastructureTopology = infrastructure.Status.InfrastructureTopology
	cfg.Platform, cfg.VSphere = infrastructure.Status.PlatformStatus, infrastructure.Spec.PlatformSpec.VSphere
	if platform := cfg.Platform; platform != nil && platform.AWS != nil {
		cfg.Region, cfg.ResourceTags = platform.AWS.Region, platform.AWS.ResourceTags
	}
	if platform := cfg.Platform; platform != nil && platform.GCP != nil {
		cfg.Region = platform.GCP.Region
	}
	if cfg.InfrastructureID == "" || cfg.ControlPlaneTopology == "" {
		return fmt.Errorf( //nolint:staticcheck // It begins with the name of a kind.
			"Infrastructure %s has no infrastructureName or controlPlaneTopology in its status yet: the operator rolls out the driver when it has both",
			openshift.Singleton)
	}
	return nil
}

// classes reads the StorageClasses and VolumeSnapshotClasses, to find the default classes. For a driver with Driver.StorageClass, it reads only that
// StorageClass.
func (r *Reconciler) classes(ctx context.Context) ([]driver.Class, error) {
	if r.Driver.StorageClass != "" {
		return r.keptClass(ctx)
	}
	var found []driver.Class
	add := func(kind string, object client.Object) *driver.Class {
		found = append(found, driver.Class{Kind: kind, Name: object.GetName(), Default: object.GetAnnotations()[driver.DefaultAnnotation(kind)]})
		return &found[len(found)-1]
	}
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	for i := range classes.Items {
		class := add("StorageClass", &classes.Items[i])
		if r.Driver.Cloud != nil {
			class.Provisioner, class.Parameters = classes.Items[i].Provisioner, classes.Items[i].Parameters
		}
	}
	// For a short time, the cache can lack a StorageClass that the operator has recreated. Such a gap in the cache must not change the default.
	isCached := func(name string) bool {
		return slices.ContainsFunc(found, func(class driver.Class) bool { return class.Name == name })
	}
	for _, class := range r.applier.Mutations.Unseen("StorageClass", isCached) {
		add("StorageClass", class)
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
		// Each driver has its own default VolumeSnapshotClass, so only the classes of this driver matter.
		if snapshotClasses.Items[i].Driver == r.Driver.Name {
			add(snapshots.Kind, &snapshotClasses.Items[i])
		}
	}
	return found, nil
}

// keptClass returns the StorageClass with the name Driver.StorageClass, whoever owns it. The applier does not change StorageClasses of other owners.
func (r *Reconciler) keptClass(ctx context.Context) ([]driver.Class, error) {
	class := &storagev1.StorageClass{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Driver.StorageClass}, class)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get StorageClass %s: %w", r.Driver.StorageClass, err)
	default:
		return []driver.Class{{Kind: "StorageClass", Name: class.Name}}, nil
	}
}

// inventory lists all objects that the driver can have. For a driver with Driver.CloudClasses, the only StorageClasses in the list are the existing
// classes that the operator created (Driver.Made).
func (r *Reconciler) inventory(classes []driver.Class) []apply.Subject {
	if r.Driver.CloudClasses == nil {
		return r.applier.Inventory
	}
	kind := storagev1.SchemeGroupVersion.WithKind("StorageClass")
	all := slices.DeleteFunc(slices.Clone(r.applier.Inventory), func(subject apply.Subject) bool { return subject.GroupKind() == kind.GroupKind() })
	for _, name := range r.Driver.Made(classes) {
		all = append(all, apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKey{Name: name}})
	}
	return all
}
