package sharedvolume

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

//go:embed assets
var assets embed.FS

const (
	crdName = efs.SharedVolumesName
	// unlistedPolicy is the policy that denies SharedVolumes in namespaces without a list. It exists only while the operator denies such SharedVolumes.
	unlistedPolicy = efs.UnlistedPolicy

	managedByLabel = "app.kubernetes.io/managed-by"
)

// AdmissionReconciler watches the CustomResourceDefinition of SharedVolumes. If the CRD exists, the operator serves SharedVolumes and applies the
// admission policies. The CRD owns the policies, because OLM bundles can't contain admission policies.
type AdmissionReconciler struct {
	Client client.Client
	Live   client.Reader
	// Owner is the field manager of the operator, and the name of its ServiceAccount. Namespace is the namespace of that ServiceAccount.
	Owner, Namespace string
	Others           Others
	Policies         bool
	// Serve starts the controllers of SharedVolumes. The AdmissionReconciler calls Serve once.
	Serve func()

	// Prefix is the beginning of the driver's condition types.
	Prefix string
	Now    func() time.Time

	served bool
	// decided is the default for namespaces without a list. It is empty before the operator has decided. decidedFor is the UID of the CRD for which the
	// operator decided this default.
	decided    string
	decidedFor types.UID
	// closed is true if namespaces without a list must not use any share.
	closed  bool
	open    prometheus.Gauge
	applier *apply.Applier
	writer  *status.Writer
}

// Reconcile applies the policies and starts the SharedVolume controllers, once the CRD is established.
func (r *AdmissionReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	crd := apply.CRD()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: crdName}, crd)
	if err != nil || !there || crd.GetDeletionTimestamp() != nil || !apply.IsEstablished(crd) {
		return ctrl.Result{}, err
	}
	// Each copy of this operator names its own namespace in the policies. Two copies would overwrite each other for ever, so this copy does not touch
	// the policies while another copy runs. The community's operator has no policies. So this operator applies the policies even while the community's
	// operator runs.
	running, err := r.Others.Namesake.Running(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	var again time.Duration
	if running == "" {
		again, err = r.enforce(ctx, crd)
	} else {
		// The other copy exports the metric.
		r.open.Set(0)
	}
	if !r.served {
		r.served = true
		r.Serve()
	}
	return status.Requeue(again, err)
}

// enforce applies the policies. It writes the conditions about SharedVolumes, for example that the CRD is outdated. It returns the time until the
// requeue.
func (r *AdmissionReconciler) enforce(ctx context.Context, crd *unstructured.Unstructured) (time.Duration, error) {
	cr, err := find[operatorv1.ClusterCSIDriver](ctx, r.Client, client.ObjectKey{Name: efs.DriverName})
	if err != nil {
		return 0, err
	}
	if r.Policies {
		err = r.applyPolicies(ctx, crd, cr)
	}
	again, reportErr := r.report(ctx, crd, cr)
	return again, errors.Join(err, reportErr)
}

func (r *AdmissionReconciler) applyPolicies(ctx context.Context, crd *unstructured.Unstructured, cr *operatorv1.ClusterCSIDriver) error {
	byDefault, err := r.decide(ctx, crd.GetUID())
	if err != nil {
		return err
	}
	objects, err := r.load("assets/policy.yaml", crd)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, isPolicy := object.(*admissionv1.ValidatingAdmissionPolicy); isPolicy {
			object.SetAnnotations(map[string]string{DefaultAnnotation: byDefault})
		}
	}
	unlisted, err := r.load("assets/unlisted.yaml", crd)
	if err != nil {
		return err
	}
	closed, err := r.isClosed(ctx, cr, byDefault)
	if err != nil {
		return err
	}
	if r.closed = closed; closed {
		// The operator applies the unlisted policy first. If the main policy existed without the unlisted policy, unlistedClosed would allow namespaces
		// without a list.
		return r.applier.Set(ctx, append(unlisted, objects...)).Err()
	}
	return errors.Join(r.applier.Set(ctx, objects).Err(), r.remove(ctx, unlisted))
}

// isClosed reports whether namespaces without a list must not use any share. Without a ClusterCSIDriver, closed namespaces stay closed. An unknown
// value of the annotation keeps the previous state, even if a user deletes the policy.
func (r *AdmissionReconciler) isClosed(ctx context.Context, cr *operatorv1.ClusterCSIDriver, byDefault string) (bool, error) {
	if cr != nil {
		if closed, known := efs.IsClosed(cr.Annotations, byDefault); known {
			return closed, nil
		}
	}
	closed, err := get(ctx, r.Client, client.ObjectKey{Name: unlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{})
	if err != nil || closed || cr == nil {
		return closed || byDefault != unlistedAllow, err
	}
	wasOpen, err := get(ctx, r.Client, client.ObjectKey{Name: crdName}, &admissionv1.ValidatingAdmissionPolicy{})
	return r.closed || !wasOpen && byDefault != unlistedAllow, err
}

func (r *AdmissionReconciler) remove(ctx context.Context, objects []client.Object) error {
	var failures []error
	for _, object := range objects {
		there, err := get(ctx, r.Client, client.ObjectKeyFromObject(object), object)
		if err == nil && there && object.GetDeletionTimestamp() == nil {
			err = apply.DeleteRead(ctx, r.Client, object)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("delete %T %s: %w", object, object.GetName(), err))
		}
	}
	return errors.Join(failures...)
}

// load renders one file of policies, and makes the CRD the owner of the policies.
func (r *AdmissionReconciler) load(file string, crd *unstructured.Unstructured) ([]client.Object, error) {
	objects, err := Policies(r.Client.Scheme(), file, r.Namespace, r.Owner)
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: crd.GetAPIVersion(), Kind: crd.GetKind(), Name: crd.GetName(), UID: crd.GetUID(),
		}})
	}
	return objects, err
}

// Policies renders a file of admission policies and their bindings. The policies let the given ServiceAccount restore IDs that a user changed before
// the policies existed.
func Policies(scheme *runtime.Scheme, file, namespace, account string) ([]client.Object, error) {
	objects, err := manifest.LoadFile(assets, file, manifest.Values{"NAMESPACE": namespace, "OPERATOR": account}, scheme)
	if err != nil {
		return nil, fmt.Errorf("render the admission policies of SharedVolumes: %w", err)
	}
	for _, object := range objects {
		object.SetLabels(ownLabels(account))
	}
	return objects, nil
}

// Kind returns the kind SharedVolume.
func Kind() (found schema.GroupKind, version string) {
	return schema.GroupKind{Group: v1alpha1.GroupVersion().Group, Kind: kind}, v1alpha1.GroupVersion().Version
}

// PolicyKind returns the kind of admission policies. Kubernetes serves this kind from version 1.30 on.
func PolicyKind() (kind schema.GroupKind, version string) {
	return schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingAdmissionPolicy"}, "v1"
}

func ownLabels(operator string) map[string]string { return map[string]string{managedByLabel: operator} }
