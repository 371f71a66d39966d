package vspherehealth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// outdatedPause is the time until the next check if the last poll does not cover a change in the cluster.
const outdatedPause = 30 * time.Second

// Source polls the vCenters.
type Source interface {
	// Snapshot returns the last answer.
	Snapshot() vsphere.Snapshot
	// Changed returns a channel that receives an event after each change of Snapshot. Only this controller reads from the channel.
	Changed() <-chan event.GenericEvent
	// PollSoon requests a poll soon.
	PollSoon()
}

// Reconciler runs the checks on the answers of Source, and reports the findings. Package cmd sets the exported fields.
type Reconciler struct {
	// Client reads from the cache, and writes the conditions.
	Client   client.Client
	Recorder events.EventRecorder
	Driver   driver.Driver
	// Namespace is the namespace of the driver.
	Namespace string
	Source    Source
	// Config returns the cloud configuration that was parsed last. The result is empty if nothing has been parsed.
	Config func() cloudconfig.Config
	// The Reconciler calls Wake, if set, after each change of Facts. Wake must not block.
	Wake func()
	Now  func() time.Time

	nodes    *informer.Objects[node]
	volumes  *informer.Objects[volume]
	csiNodes *informer.Objects[informer.Registered]
	metrics  *metrics
	writer   *status.Writer

	mutex sync.Mutex
	facts driver.CloudFacts
	// asked has the hash of what the last poll asked for, and the time at which this hash last changed.
	asked struct {
		hash  string
		since time.Time
	}
}

// Facts returns the facts that the installation of the driver needs, without StoragePolicy. The facts stay the same while a vCenter does not answer.
func (r *Reconciler) Facts() driver.CloudFacts {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.facts
}

// Reconcile checks the last answer of the vCenters.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cr := &operatorv1.ClusterCSIDriver{}
	err := r.Client.Get(ctx, request.NamespacedName, cr)
	if apierrors.IsNotFound(err) {
		r.stop()
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read ClusterCSIDriver %s: %w", request.Name, err)
	}
	if wait := r.writer.Behind(cr); wait > 0 {
		// The cache lacks our last write. The event of that write follows.
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	again, err := r.check(ctx, cr)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return status.Requeue(again, err)
}

func (r *Reconciler) check(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (time.Duration, error) {
	switch {
	case cr.DeletionTimestamp != nil:
		r.stop()
		return 0, nil
	case cr.Spec.ManagementState == operatorv1.Removed:
		r.stop()
		return r.write(ctx, cr, nil)
	}
	snapshot := r.Source.Snapshot()
	if snapshot.Taken.IsZero() {
		// No poll has ended since the operator started, so the conditions stay unchanged.
		return 0, nil
	}
	in, err := r.read(ctx, cr)
	if err != nil {
		return 0, err
	}
	in.snapshot = snapshot
	var again time.Duration
	if in.outdated = r.isOutdated(in, snapshot.Taken); in.outdated {
		// The controller requeues itself, because a poll whose answer does not change causes no event.
		again = outdatedPause
		r.Source.PollSoon()
	}
	before := findingsIn(cr.Status.Conditions)
	found := evaluate(in, before)
	r.metrics.observe(in, found)
	if in.canCheckAll() {
		r.publish(driver.CloudFacts{Known: true, Refused: refused(in, found), ManyVolumes: in.manyVolumes(), DatastoreURL: in.defaultURL()})
	}
	wait, err := r.write(ctx, cr, conditions(found))
	if err == nil && wait == 0 {
		r.emit(cr, before, found)
	}
	return status.MinRequeue(next(in), again, wait), err
}

// stop clears the metrics and the facts. The controller calls stop when the cluster does not want the driver.
func (r *Reconciler) stop() {
	r.metrics.reset()
	r.publish(driver.CloudFacts{})
}

// write writes our conditions if they have changed.
func (r *Reconciler) write(ctx context.Context, cr *operatorv1.ClusterCSIDriver, wanted []operatorv1.OperatorCondition) (time.Duration, error) {
	return r.writer.WriteConditions(ctx, apply.Target(openshift.ClusterCSIDriverKind(), cr), cr.Status.Conditions, wanted, types())
}

// emit records one event for each check with new findings, and one for each check with resolved findings.
func (r *Reconciler) emit(cr *operatorv1.ClusterCSIDriver, before, now []finding) {
	started, resolved := changes(before, now)
	record := func(found []finding, kind, end string) {
		messages := map[problem][]string{}
		for _, one := range found {
			messages[one.check] = append(messages[one.check], one.message)
		}
		for _, check := range checks() {
			if lines := messages[check.name]; len(lines) > 0 {
				slices.Sort(lines)
				r.Recorder.Eventf(cr, nil, kind, string(check.name)+end, "CheckVSphere", "%s", status.Clip(strings.Join(lines, "; ")))
			}
		}
	}
	record(started, corev1.EventTypeWarning, "")
	for i := range resolved {
		resolved[i].message = "resolved: " + resolved[i].message
	}
	record(resolved, corev1.EventTypeNormal, "Mended")
}

// publish stores the facts. It calls Wake if the facts have changed.
func (r *Reconciler) publish(facts driver.CloudFacts) {
	r.mutex.Lock()
	changed := !equal(r.facts, facts)
	r.facts = facts
	r.mutex.Unlock()
	if changed && r.Wake != nil {
		r.Wake()
	}
}

func equal(a, b driver.CloudFacts) bool {
	return a.Known == b.Known && a.Refused == b.Refused && a.ManyVolumes == b.ManyVolumes && a.DatastoreURL == b.DatastoreURL
}

// next returns the time until a finding can appear without an event. That happens when a vCenter has failed for two minutes, or when a node is no
// longer new.
func next(in input) time.Duration {
	var waits []time.Duration
	for _, vc := range in.snapshot.VCenters {
		if left := vc.FailingSince.Add(status.FailureWindow).Sub(in.now); vc.Err != nil && left > 0 {
			waits = append(waits, left)
		}
	}
	for _, one := range in.cluster.nodes {
		if left := one.created.Add(initializing).Sub(in.now); one.uuid == "" && one.platform == "" && left > 0 {
			waits = append(waits, left)
		}
	}
	return status.MinRequeue(waits...)
}
