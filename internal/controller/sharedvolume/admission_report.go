package sharedvolume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The types of the ClusterCSIDriver's conditions about SharedVolumes, without the driver's prefix. A condition exists, with status True, only while
// there is a problem to report.
const (
	conditionOpen     = "SharedVolumesOpen"
	conditionOutdated = "SharedVolumeDefinitionOutdated"
	conditionUnknown  = "SharedVolumesSettingUnknown"
	conditionStranger = "SharedVolumeBoundToStranger"
)

// strangersInterval is the time between two checks for volumes that are bound to PVCs which the operator did not create.
const strangersInterval = 10 * time.Minute

// exposure describes which shares namespaces without a list may use.
type exposure struct {
	// closed is true if namespaces without a list must not use any share. said is true if the ClusterCSIDriver has the annotation. policies is true if
	// the API server serves admission policies.
	closed, said, policies bool
	// unknown is the value of the annotation if that value is neither Allow nor Deny. It is nil if the annotation is absent or has a valid value.
	unknown *string
	// lists counts the namespaces with a list.
	lists int
}

// condition warns that namespaces without a list may use all shares. It warns if no administrator has decided that, or if other namespaces have
// lists. In all other cases, it returns nil.
func (e exposure) condition(prefix string) *operatorv1.OperatorCondition {
	howTo := fmt.Sprintf("To deny this, set annotation %s on each Namespace that uses SharedVolumes, "+
		"then run: oc annotate clustercsidriver %s --overwrite %s=%s", AllowedAnnotation, efs.DriverName, UnlistedAnnotation, unlistedDeny)
	var found operatorv1.OperatorCondition
	switch {
	case e.closed:
		return nil
	case e.lists > 0:
		found = status.Condition(prefix+conditionOpen, true, "ListsCanBeAvoided", fmt.Sprintf("%d namespaces have a list of the shares that "+
			"their SharedVolumes may use, but namespaces without a list may use every share. A user who deletes and recreates a project "+
			"removes its list. %s", e.lists, howTo))
	case !e.said && !e.policies:
		found = status.Condition(prefix+conditionOpen, true, "NoAdmissionPolicies", "namespaces without a list may use every access point whose "+
			"IDs they know, because this cluster has no ValidatingAdmissionPolicies (Kubernetes before 1.30). "+howTo)
	case !e.said:
		found = status.Condition(prefix+conditionOpen, true, "InUseBefore", "namespaces without a list may use every access point whose IDs "+
			"they know, because they could before this operator was installed or upgraded. New installations deny this. "+howTo+
			". To allow this and clear this condition, set the annotation of the ClusterCSIDriver to "+unlistedAllow)
	default:
		return nil
	}
	return &found
}

// mistyped reports an unknown value of the annotation. It returns nil if the value is known.
func (e exposure) mistyped(prefix string) *operatorv1.OperatorCondition {
	if e.unknown == nil {
		return nil
	}
	meanwhile := "everything"
	if e.closed {
		meanwhile = "nothing"
	}
	found := status.Condition(prefix+conditionUnknown, true, "UnknownValue", fmt.Sprintf("annotation %s of ClusterCSIDriver %s has the unknown "+
		"value %q: set it to %s or %s. Until then, SharedVolumes may use %s in namespaces without a list of allowed file systems",
		UnlistedAnnotation, efs.DriverName, clip(*e.unknown), unlistedAllow, unlistedDeny, meanwhile))
	return &found
}

// outdated reports fields that the CRD lacks. It returns nil if the CRD lacks no field.
func outdated(prefix string, lacks []string) *operatorv1.OperatorCondition {
	if len(lacks) == 0 {
		return nil
	}
	found := status.Condition(prefix+conditionOutdated, true, "FieldsMissing", fmt.Sprintf("CustomResourceDefinition %s is older than this "+
		"operator: the status of SharedVolumes lacks the fields %s. A Subscription of the community's package aws-efs-operator in "+
		"another namespace installs such a CRD, even if its operator fails. Delete that Subscription and its "+
		"ClusterServiceVersion, then apply the CRD of this operator's release: oc apply -f config/crd", crdName, strings.Join(lacks, ", ")))
	return &found
}

// strangers reports volumes of deleted SharedVolumes that are bound to PVCs which the operator did not create. It returns nil if there are no such
// volumes. Pods may have used these PVCs for a long time, so the operator does not unbind the volumes.
func (r *AdmissionReconciler) strangers(ctx context.Context) (*operatorv1.OperatorCondition, error) {
	list := &corev1.PersistentVolumeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the bound volumes of SharedVolumes: %w", err)
	}
	var names []string
	for i := range list.Items {
		unfold(&list.Items[i])
		if is, err := isStrangers(ctx, r.Client, r.Live, &list.Items[i]); err != nil {
			return nil, err
		} else if is {
			names = append(names, list.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	found := status.Condition(r.Prefix+conditionStranger, true, "OwnerGone", fmt.Sprintf("%d PersistentVolumes of deleted SharedVolumes "+
		"are bound to PVCs that the operator did not create: %s. Pods with these PVCs can use the share. To prevent this, delete the PVC: "+
		"the operator then deletes the volume and keeps the data", len(names), status.Shorten(names)))
	return &found, nil
}

// report writes the conditions about SharedVolumes if they have changed. It returns when to requeue.
func (r *AdmissionReconciler) report(
	ctx context.Context, crd *unstructured.Unstructured, cr *operatorv1.ClusterCSIDriver,
) (time.Duration, error) {
	found, err := r.exposure(ctx, cr)
	if err != nil {
		return 0, err
	}
	r.open.Set(0)
	if !found.closed && found.lists > 0 {
		r.open.Set(1)
	}
	if cr == nil {
		return 0, nil
	}
	strangers, err := r.strangers(ctx)
	if notYet := (*cache.ErrResourceNotCached)(nil); errors.As(err, &notYet) {
		// The watch of volumes starts together with the SharedVolume controllers. Until then, the conditions stay unchanged.
		return time.Second, nil
	}
	if err != nil {
		return 0, err
	}
	var wanted []operatorv1.OperatorCondition
	old := outdated(r.Prefix, crdstatus.Lacking(crd))
	for _, condition := range []*operatorv1.OperatorCondition{found.condition(r.Prefix), found.mistyped(r.Prefix), old, strangers} {
		if condition != nil {
			wanted = append(wanted, *condition)
		}
	}
	// The Writer's field manager owns only these conditions. Another controller writes the conditions of the driver.
	target := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	again, err := r.writer.WriteConditions(ctx, target, cr.Status.Conditions, wanted, ownConditions(r.Prefix))
	if strangers != nil {
		// The operator does not watch PVCs that it did not create, so the deletion of such a PVC causes no event.
		again = status.MinRequeue(again, strangersInterval)
	}
	return again, err
}

// exposure reads which shares namespaces without a list may use.
func (r *AdmissionReconciler) exposure(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (exposure, error) {
	found := exposure{policies: r.Policies}
	byDefault := unlistedAllow
	if r.Policies {
		byDefault = cmp.Or(r.decided, unlistedDeny)
	}
	found.closed = byDefault != unlistedAllow
	if cr != nil {
		value, said := cr.Annotations[UnlistedAnnotation]
		closed, known := efs.IsClosed(cr.Annotations, byDefault)
		if found.said, found.closed = said, closed; !known {
			found.unknown, found.closed = &value, r.closed || !r.Policies
		}
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(namespaceMetadata().GroupVersionKind())
	if err := r.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		if _, listed := namespaces.Items[i].Annotations[AllowedAnnotation]; listed {
			found.lists++
		}
	}
	return found, nil
}

// ownConditions returns the condition types that this controller writes.
func ownConditions(prefix string) []string {
	return []string{prefix + conditionOutdated, prefix + conditionOpen, prefix + conditionUnknown, prefix + conditionStranger}
}
