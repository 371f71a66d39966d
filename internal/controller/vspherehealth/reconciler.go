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
	"github.com/csi-operators/csi-operators/internal/kube/follow"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// outdatedPause is how long to wait for the vCenters to be asked about what has changed in the cluster.
const outdatedPause = 30 * time.Second

// Source is what asks the vCenters.
type Source interface {
	// Snapshot is the last answer.
	Snapshot() vsphere.Snapshot
	// Changed has an event whenever Snapshot says something else. Nobody else reads it.
	Changed() <-chan event.GenericEvent
	// Again makes the vCenters be asked soon.
	Again()
}

// Reconciler checks what vCenters have of the cluster, and says what is wrong. It asks nobody itself. Cmd sets the exported fields.
type Reconciler struct {
	// Client reads from the cache, and writes the conditions.
	Client   client.Client
	Recorder events.EventRecorder
	Driver   driver.Driver
	// Namespace is where the driver runs.
	Namespace string
	Source    Source
	// Config is the configuration of the cloud as it was parsed last; empty while there is none.
	Config func() cloudconfig.Config
	// Wake, if set, is called when Facts say something else. It must not block.
	Wake func()
	Now  func() time.Time

	nodes    *follow.Objects[node]
	volumes  *follow.Objects[volume]
	csiNodes *follow.Objects[string]
	metrics  *metrics
	writer   *status.Writer

	mutex sync.Mutex
	facts driver.CloudFacts
	// asked is what the vCenters were asked about last, and since when.
	asked struct {
		hash  string
		since time.Time
	}
}

// Facts are what the driver's installation depends on. StoragePolicy is not among them. They stay as they are while a vCenter does not answer.
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
		// Its event comes.
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	again, err := r.look(ctx, cr)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return status.Requeue(again, err)
}

// look is the trip: read, evaluate, report.
func (r *Reconciler) look(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (time.Duration, error) {
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
		// What was said before the operator started stays until it knows better.
		return 0, nil
	}
	in, err := r.read(ctx, cr)
	if err != nil {
		return 0, err
	}
	in.snapshot = snapshot
	var again time.Duration
	if in.outdated = r.isOutdated(in, snapshot.Taken); in.outdated {
		// An answer that says the same as the last one has no event.
		again = outdatedPause
		r.Source.Again()
	}
	before := remembered(cr.Status.Conditions)
	found := evaluate(in, before)
	r.metrics.observe(in, found)
	if in.seesAll() {
		r.publish(driver.CloudFacts{Known: true, Refused: refused(in, found), ManyVolumes: in.manyVolumes(), DatastoreURL: in.defaultURL()})
	}
	wait, err := r.write(ctx, cr, conditions(found))
	if err == nil && wait == 0 {
		r.emit(cr, before, found)
	}
	return status.MinRequeue(next(in), again, wait), err
}

// stop is for as long as nobody wants the driver.
func (r *Reconciler) stop() {
	r.metrics.reset()
	r.publish(driver.CloudFacts{})
}

// write applies our conditions, and only those, if they differ from what the ClusterCSIDriver has.
func (r *Reconciler) write(ctx context.Context, cr *operatorv1.ClusterCSIDriver, wanted []operatorv1.OperatorCondition) (time.Duration, error) {
	return r.writer.WriteConditions(ctx, apply.Target(openshift.ClusterCSIDriverKind(), cr), cr.Status.Conditions, wanted, types())
}

// emit records an event for what has begun, and for what has gone. Those of one check are one event.
func (r *Reconciler) emit(cr *operatorv1.ClusterCSIDriver, before, now []finding) {
	begun, healed := news(before, now)
	tell := func(found []finding, kind, end string) {
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
	tell(begun, corev1.EventTypeWarning, "")
	for i := range healed {
		healed[i].message = "resolved: " + healed[i].message
	}
	tell(healed, corev1.EventTypeNormal, "Mended")
}

// publish keeps the facts, and says so if they are news.
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

// next is when something will be found that no event tells: a vCenter has not answered for long enough, or a node is no new one any more.
func next(in input) time.Duration {
	var waits []time.Duration
	for _, vc := range in.snapshot.VCenters {
		if left := vc.FailingSince.Add(status.FailureWindow).Sub(in.now); vc.Err != nil && left > 0 {
			waits = append(waits, left)
		}
	}
	for _, one := range in.cluster.nodes {
		if left := one.created.Add(initializing).Sub(in.now); one.uuid == "" && one.elsewhere == "" && left > 0 {
			waits = append(waits, left)
		}
	}
	return status.MinRequeue(waits...)
}
