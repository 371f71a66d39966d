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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	// unlistedPolicy is the name of the policy for namespaces without a list.
	unlistedPolicy = efs.UnlistedPolicy

	managedByLabel = "app.kubernetes.io/managed-by"
)

// AdmissionReconciler follows the CustomResourceDefinition: where it is, SharedVolumes are served, and the API server holds
// them to the policies. The policies belong to the CRD and go with it; bundles of OLM can't carry them.
type AdmissionReconciler struct {
	Client client.Client
	Live   client.Reader
	// Owner is the field manager and the name of the operator's ServiceAccount; Namespace is where that is.
	Owner, Namespace string
	Others           Others
	Policies         bool
	// Serve starts the controllers of SharedVolumes.
	Serve func() error

	// Prefix is that of the driver's conditions. Now is the clock.
	Prefix string
	Now    func() time.Time

	served bool
	// decided is what namespaces without a list may use if nobody says, decidedFor the CRD that this holds for.
	decided    string
	decidedFor types.UID
	// closed means that they may use nothing.
	closed  bool
	open    prometheus.Gauge
	applier *apply.Applier
	writer  *status.Writer
}

// Reconcile looks at the CRD and the policies.
func (r *AdmissionReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	crd := apply.CRD()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: crdName}, crd)
	if err != nil || !there || crd.GetDeletionTimestamp() != nil || !apply.IsEstablished(crd) {
		return ctrl.Result{}, err
	}
	// Another copy of this operator names its own namespace in the policies: both would write them in turns for ever. The community's
	// operator knows no policies, and lists count beside it.
	running, err := r.Others.Namesake.Running(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	var again time.Duration
	if running == "" {
		again, err = r.enforce(ctx, crd)
	} else {
		// The other copy reports what is open.
		r.open.Set(0)
	}
	if !r.served {
		// A controller can be added only once.
		r.served = true
		if serving := r.Serve(); serving != nil {
			return ctrl.Result{}, reconcile.TerminalError(errors.Join(err, serving)) //nolint:wrapcheck // Both say what failed.
		}
	}
	return status.Requeue(again, err)
}

// enforce brings the policies up to date, and reports to the administrator what is open or outdated. It returns when to come again.
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
		// Before the other one: a reader of that one knows what was decided.
		return r.applier.Set(ctx, append(unlisted, objects...)).Err()
	}
	return errors.Join(r.applier.Set(ctx, objects).Err(), r.remove(ctx, unlisted))
}

// isClosed reports whether namespaces without a list may use nothing. Without a ClusterCSIDriver nobody has said that they may again. While the
// value of the annotation is unknown, what held before stays, also if somebody deletes the policy.
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

// load renders one file of policies, owned by the CRD.
func (r *AdmissionReconciler) load(file string, crd *unstructured.Unstructured) ([]client.Object, error) {
	objects, err := Policies(r.Client.Scheme(), file, r.Namespace, r.Owner)
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: crd.GetAPIVersion(), Kind: crd.GetKind(), Name: crd.GetName(), UID: crd.GetUID(),
		}})
	}
	return objects, err
}

// Policies renders a file of admission policies and their bindings. The ServiceAccount of that name in that namespace may put
// IDs back that were changed before there was a policy.
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

// Kind is that of SharedVolumes.
func Kind() (found schema.GroupKind, version string) {
	return schema.GroupKind{Group: v1alpha1.GroupVersion().Group, Kind: kind}, v1alpha1.GroupVersion().Version
}

// PolicyKind is served by clusters of Kubernetes 1.30 and later.
func PolicyKind() (kind schema.GroupKind, version string) {
	return schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingAdmissionPolicy"}, "v1"
}

func ownLabels(operator string) map[string]string { return map[string]string{managedByLabel: operator} }
