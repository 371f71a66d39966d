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

// result is what was done for one entry, and what was found. The conditions follow from it.
type result struct {
	choice
	// applied says that everything was rendered and applied.
	applied bool
	changes apply.ChangeSet
	// err is what went wrong outside of the changes.
	err error
	// thirdParty says that a CSIDriver of somebody else is in the way.
	thirdParty string
	// olmRemoval is how far the removal of an operator that OLM installed is, retiring that there is one, and olmErr what went wrong.
	olmRemoval  olm.State
	removingOLM bool
	olmErr      error
	// removal is how far the removal of the driver is.
	removal removal
	// driver and deployment are the newest, nil if absent.
	driver     *operatorv1.ClusterCSIDriver
	deployment *appsv1.Deployment
	// again is when to look once more although no event may come.
	again time.Duration
}

// held says that the driver is not started, for a reason in another condition than its operator's.
func (r *result) held() bool { return r.thirdParty != "" || r.removingOLM }

// follow does for one entry what was chosen. Whatever goes wrong stays with it.
func (r *Reconciler) follow(ctx context.Context, w *seen, chosen choice) result {
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

// start runs the operator of an entry.
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

// settled reports whether nothing of the operator that OLM installed is left.
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

// thirdParty says that the CSIDriver belongs to somebody else, who must not be disturbed; nothing if it does not.
func (r *Reconciler) thirdParty(ctx context.Context, w *seen, done *result) (string, error) {
	entry := done.entry
	if done.driver != nil || done.deployment != nil || !isThirdParty(w.csiDrivers[entry.Name], entry) {
		return "", nil
	}
	// The cache may lag behind a ClusterCSIDriver that has just been made.
	err := r.Live.Get(ctx, client.ObjectKey{Name: entry.Name}, &operatorv1.ClusterCSIDriver{})
	switch {
	case err == nil:
		return "", nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("look for ClusterCSIDriver %s: %w", entry.Name, err)
	}
	return fmt.Sprintf("CSIDriver %s was made by somebody else, so that the driver of the cluster is not started: remove that driver, or let "+
		"the cluster take over: remove its Deployment and DaemonSet when no pod uses its volumes, and then: %s",
		entry.Name, openshift.ManageCommand(entry.Name)), nil
}

// isThirdParty reports whether a CSIDriver that exists is neither of an operator of the cluster nor to be adopted by one.
func isThirdParty(driver *storagev1.CSIDriver, entry catalogue.Entry) bool {
	return driver != nil && !openshift.Manages(driver, entry.Operator)
}

// run applies what the operator needs, and its ClusterCSIDriver. Reason is why the driver is not wanted any more, if it is not.
func (r *Reconciler) run(ctx context.Context, w *seen, done *result, reason string) {
	objects, err := done.entry.Render(r.Client.Scheme(), r.config(w))
	if err != nil {
		// It stays until the program or the configuration is changed.
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
