package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// seen is everything that a reconcile has read.
type seen struct {
	openshift.Cluster
	// storage and clusterOperator are nil if they do not exist.
	storage         *operatorv1.Storage
	clusterOperator *configv1.ClusterOperator
	// drivers and csiDrivers have the objects by CSI name. deployments has the operators' Deployments by operator name.
	drivers     map[string]*operatorv1.ClusterCSIDriver
	csiDrivers  map[string]*storagev1.CSIDriver
	deployments map[string]*appsv1.Deployment
	classes     []storagev1.StorageClass
	// version is the version of the release. Field "now" is the time at which the reconcile read the objects.
	version string
	now     time.Time
	// attributes are the VolumeAttributesClasses. The list is empty if the cluster does not serve this kind.
	attributes []storagev1.VolumeAttributesClass
	// conflicts is true if pods share a volume that they could not share in the next version.
	conflicts bool
}

// read reads everything that a reconcile needs, from the cache.
func (r *Reconciler) read(ctx context.Context) (*seen, error) {
	w := &seen{
		version: r.Version, now: r.Now(), drivers: map[string]*operatorv1.ClusterCSIDriver{}, csiDrivers: map[string]*storagev1.CSIDriver{},
		deployments: map[string]*appsv1.Deployment{},
	}
	var err error
	if w.storage, err = apply.Newest[operatorv1.Storage](ctx, r.applier, client.ObjectKey{Name: openshift.Singleton}); err != nil {
		return nil, err
	}
	if w.clusterOperator, err = apply.Newest[configv1.ClusterOperator](ctx, r.applier, client.ObjectKey{Name: clusterOperatorName}); err != nil {
		return nil, err
	}
	if err := r.readConfiguration(ctx, w); err != nil {
		return nil, err
	}
	for _, entry := range r.Catalogue {
		driver, err := apply.Newest[operatorv1.ClusterCSIDriver](ctx, r.applier, client.ObjectKey{Name: entry.Name})
		if err != nil {
			return nil, err
		}
		if driver != nil {
			w.drivers[entry.Name] = driver
		}
	}
	for _, entry := range r.Scope.Entries {
		deployment, err := r.deployment(ctx, entry)
		if err != nil {
			return nil, err
		}
		if deployment != nil && deployment.Labels[openshift.ManagedByLabel] == catalogue.Operator {
			w.deployments[entry.Operator] = deployment
		}
	}
	return w, r.readClasses(ctx, w)
}

func (r *Reconciler) readConfiguration(ctx context.Context, w *seen) error {
	kinds := map[schema.GroupKind]bool{}
	for _, kind := range configuration() {
		kinds[kind] = true
	}
	var err error
	if w.Cluster, err = openshift.Read(ctx, r.Client, kinds); err != nil {
		return err
	}
	w.conflicts, err = r.hasConflicts(ctx)
	return err
}

// configuration lists OpenShift's configuration kinds.
func configuration() []schema.GroupKind {
	return []schema.GroupKind{
		openshift.InfrastructureKind(), openshift.FeatureGateKind(), openshift.ProxyKind(), openshift.APIServerKind().GroupKind(),
	}
}

func (r *Reconciler) readClasses(ctx context.Context, w *seen) error {
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	w.classes = classes.Items
	if r.Scope.AttributesClasses {
		attributes := &storagev1.VolumeAttributesClassList{}
		if err := r.Client.List(ctx, attributes); err != nil {
			return fmt.Errorf("list VolumeAttributesClasses: %w", err)
		}
		w.attributes = attributes.Items
	}
	if len(r.Scope.Entries) == 0 {
		return nil
	}
	drivers := &storagev1.CSIDriverList{}
	if err := r.Client.List(ctx, drivers); err != nil {
		return fmt.Errorf("list CSIDrivers: %w", err)
	}
	for i := range drivers.Items {
		w.csiDrivers[drivers.Items[i].Name] = &drivers.Items[i]
	}
	return nil
}

// deployment returns the Deployment of a catalogue entry's operator. If the cache lags behind our latest apply of the Deployment, deployment returns
// the result of that apply. With the cached object, a new roll-out would look complete. The result is nil if the Deployment is absent.
func (r *Reconciler) deployment(ctx context.Context, entry catalogue.Entry) (*appsv1.Deployment, error) {
	return apply.Newest[appsv1.Deployment](ctx, r.applier, client.ObjectKey{Namespace: catalogue.Namespace, Name: entry.Operator})
}

func (w *seen) facts(entries []catalogue.Entry) facts {
	f := facts{gates: gatesOf(w.FeatureGate, w.version), present: map[string]bool{}, ours: map[string]bool{}}
	if w.Infrastructure != nil {
		f.infrastructure = &w.Infrastructure.Status
	}
	for _, entry := range entries {
		driver := w.drivers[entry.Name]
		f.present[entry.Name] = driver != nil
		f.ours[entry.Name] = w.deployments[entry.Operator] != nil || isOurs(driver)
	}
	return f
}

// platform returns the platform of the cluster. It returns an empty string if the platform is unknown.
func (w *seen) platform() configv1.PlatformType { return w.facts(nil).platform() }

// platformProblem returns why the platform is unknown. It returns an empty string if the platform is known.
func (w *seen) platformProblem() string { return w.facts(nil).problem() }

// isOurs reports whether some version of this program has created or changed a ClusterCSIDriver. An administrator may have created a ClusterCSIDriver
// for a driver of another platform, and this program must not manage such a driver.
func isOurs(driver *operatorv1.ClusterCSIDriver) bool {
	return driver != nil && slices.ContainsFunc(driver.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == catalogue.Operator && entry.Subresource == ""
	})
}

// config returns the configuration for rendering the objects of the operators.
func (r *Reconciler) config(w *seen) catalogue.Config {
	return catalogue.Config{
		Images: r.Images, Version: r.Version, Infrastructure: w.Infrastructure.Status, Proxy: w.Proxy,
		TLSMinVersion: w.TLS.Profile.MinVersion, TLSCiphers: w.TLS.Profile.Ciphers, Kinds: r.Scope.Kinds,
	}
}

func (w *seen) logLevel() operatorv1.LogLevel {
	if w.storage == nil {
		return ""
	}
	return w.storage.Spec.OperatorLogLevel
}

// managementState returns the state in the Storage. The default is Managed, so that the drivers stay managed if the Storage is deleted.
func (w *seen) managementState() operatorv1.ManagementState {
	if w.storage == nil || w.storage.Spec.ManagementState == "" {
		return operatorv1.Managed
	}
	return w.storage.Spec.ManagementState
}
