package storage

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// result says what this program has observed and done for one catalogue entry. The conditions follow from the result.
type result struct {
	choice
	// applied is true if this program rendered and applied everything.
	applied bool
	changes apply.ChangeSet
	// err is an error that belongs to no change.
	err error
	// thirdParty is the message about a CSIDriver of another owner. It is empty if there is no such CSIDriver.
	thirdParty string
	// olmRemoval is the progress of the removal of OLM's operator. removingOLM is true while that removal is not complete. olmErr is the error of that
	// removal.
	olmRemoval  olm.State
	removingOLM bool
	olmErr      error
	// removal is the progress of a driver's removal.
	removal removal
	// driver and deployment are the newest versions of these objects. They are nil if absent.
	driver     *operatorv1.ClusterCSIDriver
	deployment *appsv1.Deployment
	// again is the delay until the next reconcile if no event comes earlier; 0 means never.
	again time.Duration
}

// held reports whether OLM's operator, or a CSIDriver of another owner, blocks the driver.
func (r *result) held() bool { return r.thirdParty != "" || r.removingOLM }

// reconcileEntry acts on the decision about one catalogue entry. An error affects only this entry.
func (r *Reconciler) reconcileEntry(ctx context.Context, w *seen, chosen choice) result {
	done := result{choice: chosen, driver: w.drivers[chosen.entry.Name], deployment: w.deployments[chosen.entry.Operator]}
	managed := w.managementState() == operatorv1.Managed
	switch {
	case !managed || chosen.decision == kept:
	case chosen.decision == unwanted:
		r.remove(ctx, w, &done)
	default:
		delete(r.volumes, chosen.entry.Name)
		r.start(ctx, w, &done)
	}
	done.changes.Log(ctx)
	return done
}

// start runs the operator of a catalogue entry, unless OLM's operator or a CSIDriver of another owner blocks the driver.
func (r *Reconciler) start(ctx context.Context, w *seen, done *result) {
	if !r.settled(ctx, done) {
		return
	}
	thirdParty, err := r.thirdParty(ctx, w, done)
	if err != nil || thirdParty != "" {
		done.err, done.thirdParty = err, thirdParty
		return
	}
	r.run(ctx, w, done, "")
}

// settled reports whether OLM's operator is completely removed.
func (r *Reconciler) settled(ctx context.Context, done *result) bool {
	found, err := r.predecessors.Remove(ctx, done.entry)
	if err == nil && found.Done {
		return true
	}
	done.removingOLM, done.olmRemoval, done.olmErr = true, found, err
	done.again = status.MinRequeue(done.again, found.Again)
	if err != nil {
		done.err = fmt.Errorf("remove the operator that OLM installed: %w", err)
	}
	return false
}

// thirdParty returns a message if the CSIDriver has another owner. This program must not disturb the driver of that owner. If the CSIDriver has no
// other owner, thirdParty returns an empty string.
func (r *Reconciler) thirdParty(ctx context.Context, w *seen, done *result) (string, error) {
	entry := done.entry
	if done.driver != nil || done.deployment != nil || !isThirdParty(w.csiDrivers[entry.Name], entry) {
		return "", nil
	}
	// The cache may lack a ClusterCSIDriver that an administrator has just created.
	err := r.Live.Get(ctx, client.ObjectKey{Name: entry.Name}, &operatorv1.ClusterCSIDriver{})
	switch {
	case err == nil:
		return "", nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("look for ClusterCSIDriver %s: %w", entry.Name, err)
	}
	return fmt.Sprintf("CSIDriver %s has another owner, so the cluster does not start its own driver. Either remove the other "+
		"driver. Or let the cluster manage the driver: when no pod uses its volumes, delete its Deployment and DaemonSet, and then run: %s",
		entry.Name, openshift.ManageCommand(entry.Name)), nil
}

// isThirdParty reports whether a CSIDriver exists that the cluster's operator neither created nor may adopt.
func isThirdParty(driver *storagev1.CSIDriver, entry catalogue.Entry) bool {
	return driver != nil && !openshift.Manages(driver, entry.Operator)
}

// run applies the operator's objects and the ClusterCSIDriver. reason says why the driver is no longer needed. It is empty if the driver is needed.
func (r *Reconciler) run(ctx context.Context, w *seen, done *result, reason string) {
	objects, err := done.entry.Render(r.Client.Scheme(), r.config(w))
	if err != nil {
		// Only another version of this program or another configuration can solve a render error.
		done.err = reconcile.TerminalError(err)
		return
	}
	applier := r.applierOf(done.entry)
	done.changes = applier.Set(ctx, objects)
	done.changes = append(done.changes, applier.Prune(ctx, objects)...)
	done.driver, err = r.ensure(ctx, done.entry, done.driver, reason)
	if err != nil {
		done.err = err
		return
	}
	done.applied = done.changes.Err() == nil
	if done.deployment, err = r.deployment(ctx, done.entry); err != nil {
		done.err = err
	}
}
