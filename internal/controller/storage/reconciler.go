package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Reconciler reconciles the storage of a cluster. Package cmd sets the exported fields.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads objects that this program does not watch.
	Client client.Client
	Live   client.Reader
	// Conflicts reads the ConfigMap about SELinux labels, from the cache that NewConflicts returns.
	Conflicts client.Reader
	// Catalogue has the drivers of all platforms. Scope has the drivers that this cluster may need.
	Catalogue []catalogue.Entry
	Scope     Scope
	Namespace string
	Events    events.EventRecorder
	// Images maps environment variables to images.
	Images map[string]string
	// Version is the release's version.
	Version string
	// SetLogLevel sets how much this program logs.
	SetLogLevel func(operatorv1.LogLevel)
	// Restart logs the reason "why", and ends the process. Kubernetes then restarts the process.
	Restart func(why string)
	Now     func() time.Time

	applier  *apply.Applier
	reporter *reporter
	// volumes has the PersistentVolumes of unwanted drivers, as this program last listed them.
	volumes map[string]volumes
	// predecessors removes the operators that OLM installed.
	predecessors *olm.Operators
	busy         status.Watchdog
}

// Reconcile makes the cluster's storage match its configuration.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	defer r.busy.Begin(r.Now())()
	r.applier.Mutations.EvictStale(r.Now())
	found, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.SetLogLevel(found.logLevel())
	if found.managementState() == operatorv1.Unmanaged {
		again, err := r.reporter.unmanaged(ctx, found)
		return r.finish(ctx, nil, again, err)
	}
	choices := choose(r.Catalogue, found.facts(r.Catalogue))
	for _, one := range choices {
		if one.decision != absent && !r.Scope.has(one.entry) {
			// The caches do not cover this driver, because its platform is not the platform that the cluster had when this program started.
			r.Restart(fmt.Sprintf("driver %s is now %s: the operator restarts to watch its objects", one.entry.Name, one.decision))
			return ctrl.Result{}, nil
		}
	}
	results := make([]result, 0, len(choices))
	for _, one := range choices {
		if one.decision != absent {
			results = append(results, r.reconcileEntry(ctx, found, one))
		}
	}
	again, err := r.reporter.report(ctx, found, choices, results)
	return r.finish(ctx, results, again, err)
}

// finish decides about the requeue.
func (r *Reconciler) finish(ctx context.Context, results []result, again time.Duration, reportErr error) (ctrl.Result, error) {
	if r.applier.Mutations.Pending() {
		again = status.MinRequeue(again, apply.StaleAfter)
	}
	var lasting, passing []error
	for i := range results {
		again = status.MinRequeue(again, results[i].again)
		err := errors.Join(results[i].err, results[i].changes.With(apply.Failed).Err())
		switch {
		case err == nil:
		case status.OnlyConflicts(err):
			// After a conflict, this program only retries.
			again = status.MinRequeue(again, time.Second)
		case status.Terminal(err):
			lasting = append(lasting, fmt.Errorf("%s: %w", results[i].entry.Title, err))
		default:
			passing = append(passing, fmt.Errorf("%s: %w", results[i].entry.Title, err))
		}
	}
	switch {
	case reportErr != nil && !apierrors.IsConflict(reportErr):
		passing = append(passing, reportErr)
	case reportErr != nil:
		again = status.MinRequeue(again, time.Second)
	}
	switch {
	case len(passing) > 0:
		// The terminal error of one driver must not prevent the retry for another driver.
		return ctrl.Result{}, errors.Join(passing...)
	case len(lasting) > 0 && again == 0:
		return ctrl.Result{}, reconcile.TerminalError(errors.Join(lasting...)) //nolint:wrapcheck // It marks what is reported already.
	case len(lasting) > 0:
		// An error would replace the requeue that other work needs, so the reconcile only logs the terminal errors.
		ctrl.LoggerFrom(ctx).Error(errors.Join(lasting...), "not retried until something changes")
		return ctrl.Result{RequeueAfter: again}, nil
	default:
		return ctrl.Result{RequeueAfter: again}, nil
	}
}

// Alive returns an error if a reconcile hangs, so that the liveness probe fails.
func (r *Reconciler) Alive(*http.Request) error { return r.busy.Check("the Storage", r.Now()) }
