package efshealth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/efshealth/reports"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Cloud has the requests that the operator sends to AWS.
type Cloud interface {
	aws.Tagger
	FileSystems(ctx context.Context) ([]aws.FileSystem, error)
	AccessPoints(ctx context.Context, fileSystem string) ([]aws.AccessPoint, error)
	AccessPoint(ctx context.Context, id string) (aws.AccessPoint, error)
	MountTargets(ctx context.Context, fileSystem string) ([]aws.MountTarget, error)
	MountTargetSecurityGroups(ctx context.Context, mountTarget string) ([]string, error)
	SecurityGroupsOf(ctx context.Context, ids []string) ([]aws.SecurityGroup, error)
	NetworkInterfaces(ctx context.Context, instances []string) ([]aws.NetworkInterface, error)
	PrefixList(ctx context.Context, id string) ([]string, error)
	// Requests returns how many requests the client has sent.
	Requests() int
}

// Predecessor is another operator that manages the same driver.
type Predecessor interface {
	// Running returns the Deployment of the predecessor. It returns an empty string if the predecessor does not run.
	Running(ctx context.Context) (string, error)
	// Events returns the events of the predecessor's Deployment.
	Events(handle handler.EventHandler) source.Source
}

// Reconciler checks AWS. Package cmd sets the exported fields.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads the Secret from the cluster, because the caches hold only hashes.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	Driver   driver.Driver
	// Namespace is the namespace of the operator and the Secrets.
	Namespace string
	// Controller and Node are the credentials of the driver's pods. Secrets has a cache for each of their Secrets, by name.
	Controller, Node driver.Credentials
	Secrets          map[string]cache.Cache
	// HasInfrastructure is true if the cluster serves kind Infrastructure.
	HasInfrastructure bool
	// Region is the region if no Infrastructure names a region.
	Region string
	// Limit is the maximum number of access points of a file system.
	Limit int
	// Off is true if the operator must not check AWS. The operator then behaves as if it had no credentials.
	Off bool
	// Connect creates a client for AWS. It sends no request.
	Connect func(ctx context.Context, options aws.Options) (Cloud, error)
	// Tags returns the tags for the access points of this cluster, without the owner tag.
	Tags func(infraID string, wanted []configv1.AWSResourceTag) map[string]string
	// OwnerTag returns the key of the tag that names the cluster that created an access point.
	OwnerTag func(infraID string) string
	// DriverTag is the key of the tag that the driver sets on its access points. The value of the tag is "true".
	DriverTag string
	// Reports asks Prometheus for the nodes' reports about their mounts. It is nil if the nodes do not report.
	Reports *reports.Watch
	// Predecessors are conflicting operators. While one of them runs, the Reconciler does nothing.
	Predecessors []Predecessor
	Now          func() time.Time

	// Classes caches StorageClasses.
	Classes cache.Cache
	volumes *informer.Objects[volume]
	nodes   *informer.Objects[nodePlace]

	// Shares answers SharedVolumes.
	Shares *Shares

	metrics *metrics
	poller  *poller
	// polled receives an event after each poll.
	polled chan event.GenericEvent
	// connection is the present client. facts has the poller's last answer.
	connection connection
	facts
	// tags is the state of the tag updates.
	tags   tagger
	writer *status.Writer
	// emitted has the findings for which the operator has sent an event.
	emitted map[finding]bool
}

// Reconcile reports problems in the poller's last answer.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cr := &operatorv1.ClusterCSIDriver{}
	err := r.Client.Get(ctx, request.NamespacedName, cr)
	if apierrors.IsNotFound(err) {
		cr, err = nil, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read ClusterCSIDriver %s: %w", request.Name, err)
	}
	if cr != nil {
		if wait := r.writer.Behind(cr); wait > 0 {
			// The cache lacks our last write. The write's event follows.
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	again, err := r.reconcile(ctx, cr)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return status.Requeue(again, err)
}

// reconcile reads the cluster and the poller's facts, evaluates them and reports. It sends no request to AWS, except to update tags. While a poll is
// due, it does not wake SharedVolumes, because each SharedVolume would ask AWS.
func (r *Reconciler) reconcile(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (time.Duration, error) {
	isDue := false
	defer func() {
		if !isDue {
			r.Shares.wakeIfRenewed()
			r.Shares.stopWaiting()
		}
	}()
	busy, err := r.predecessorRuns(ctx)
	if err != nil {
		return 0, err
	}
	// The nodes' reports matter until the end of a removal, because the operator still replaces node pods while the removal is blocked. The
	// ClusterCSIDriver keeps the operator's finalizers until the removal ends.
	r.watchReports(!busy && cr != nil && (!isUnwanted(cr) || slices.ContainsFunc(cr.Finalizers, r.isOurs)))
	place, err := r.place(ctx)
	if err != nil {
		return 0, err
	}
	cloud, err := r.connect(ctx, place)
	switch {
	case err != nil:
		return 0, err
	case busy:
		// The predecessor writes the same object, and would revert this operator's changes.
		r.stop()
		return 0, nil
	case cr == nil:
		r.stop()
		return 0, nil
	case isUnwanted(cr):
		// A removal can wait for weeks. Conditions about AWS would become outdated, because the operator does not ask AWS during a removal. The condition
		// about mounts stays, because the nodes still report.
		r.stop()
		return r.writeConditions(ctx, cr, nil)
	case cloud == nil:
		r.stop()
		return r.report(ctx, cr, r.stateFindings(tagging{}))
	}
	r.Shares.setClient(cloud)
	used, err := r.uses(ctx)
	if err != nil {
		return 0, err
	}
	if len(used.fileSystems()) == 0 {
		r.reset()
		r.Shares.clearFindings()
		return r.writeConditions(ctx, cr, nil)
	}
	isDue = r.readFacts(cloud, used, place)
	return r.act(ctx, cr, used, place)
}

// readFacts reads the poller's facts, and tells Shares about failures. It reports whether a poll is due or running.
func (r *Reconciler) readFacts(cloud Cloud, used uses, place place) (isDue bool) {
	wanted := subject{cloud: cloud, used: used}
	if place.infraID != "" {
		wanted.ownerTag = r.OwnerTag(place.infraID)
	}
	r.facts, isDue = r.poller.configure(wanted)
	switch {
	case r.failures > 0 && r.silent:
		r.Shares.recordFailure(r.tried)
	case r.failures == 0 && r.seen == nil && !isDue:
		// The last poll was for another configuration, and the next poll is not due yet. Until the next poll, there are no findings about file systems.
		r.Shares.clearFindings()
	}
	return isDue
}

// act updates tags, conditions, events, metrics, Shares and the schedule of polls. It uses the result of the last poll.
func (r *Reconciler) act(ctx context.Context, cr *operatorv1.ClusterCSIDriver, used uses, place place) (time.Duration, error) {
	var tags tagging
	var tagErr error
	denied := denials{}
	maps.Copy(denied, r.denied)
	if isManaged(cr) && r.seen != nil && place.infraID != "" {
		tags, tagErr = r.syncTags(ctx, cr, r.connection.cloud, r.Tags(place.infraID, place.tags))
		maps.Copy(denied, r.tags.denied)
	}
	found := evaluate(used, r.seen, circumstances{
		region: place.region, limit: r.Limit, secret: r.Namespace + "/" + r.Controller.Secret, denied: denied,
	})
	r.poller.plan(slices.ContainsFunc(found, isMendedInAWS))
	r.Shares.publish(used, r.seen, found)
	found = append(found, r.stateFindings(tags)...)
	r.metrics.observe(used, r.seen, found, tags, r.Limit)
	wait, err := r.report(ctx, cr, found)
	return status.MinRequeue(tags.again, wait), errors.Join(tagErr, err)
}

func (r *Reconciler) predecessorRuns(ctx context.Context) (bool, error) {
	for _, predecessor := range r.Predecessors {
		if running, err := predecessor.Running(ctx); err != nil || running != "" {
			return running != "", err
		}
	}
	return false, nil
}

// stop ends the checks of AWS, and lets Shares answer "unknown".
func (r *Reconciler) stop() {
	r.reset()
	r.Shares.setClient(nil)
}

// reset drops the facts and everything derived from them.
func (r *Reconciler) reset() {
	r.facts, _ = r.poller.configure(subject{})
	r.emitted = map[finding]bool{}
	r.tags = tagger{failed: map[string]bool{}, denied: denials{}}
	r.metrics.reset()
}

// wake triggers a reconcile after a poll, and counts the polls that got an answer.
func (r *Reconciler) wake(answered bool) {
	if answered {
		r.metrics.polls.Inc()
	}
	r.requestReconcile()
}

// requestReconcile triggers a reconcile. It does not block.
func (r *Reconciler) requestReconcile() {
	select {
	case r.polled <- event.GenericEvent{Object: &operatorv1.ClusterCSIDriver{}}:
	default:
	}
}

// stateFindings returns problems of the checks themselves, and of the tag updates.
func (r *Reconciler) stateFindings(tags tagging) []finding {
	var found []finding
	switch {
	case r.connection.problem != "":
		found = append(found, finding{problem: cloudUnreachable, message: "can't check AWS: " + r.connection.problem})
	case r.unreachable():
		found = append(found, finding{problem: cloudUnreachable, message: "can't check AWS, so earlier findings stay reported: " + r.problem})
	}
	if tags.outdated > 0 && tags.problem != "" {
		found = append(found, finding{problem: accessPointTagsOutdated, message: fmt.Sprintf("%d access points of this cluster do not have the "+
			"resource tags of the Infrastructure: %s", tags.outdated, tags.problem)})
	}
	return found
}

// watchReports tells Reports whether the nodes report about their mounts. These reports do not depend on AWS.
func (r *Reconciler) watchReports(active bool) {
	if r.Reports != nil {
		r.Reports.Configure(active)
	}
}

// isOurs reports whether a finalizer belongs to this operator or to a predecessor.
func (r *Reconciler) isOurs(finalizer string) bool {
	return finalizer == r.Driver.Finalizer() || r.Driver.IsLegacy(finalizer)
}

// isUnwanted reports whether the driver is to be removed.
func isUnwanted(cr *operatorv1.ClusterCSIDriver) bool {
	return cr.DeletionTimestamp != nil || cr.Spec.ManagementState == operatorv1.Removed
}

func isManaged(cr *operatorv1.ClusterCSIDriver) bool {
	return cr.Spec.ManagementState == operatorv1.Managed || cr.Spec.ManagementState == ""
}

// isMendedInAWS reports whether a change in AWS can solve a problem. AWS sends the operator no event about such a change, so the operator polls more
// often. Administrators may withhold the permissions for networks for good, so a denial of these permissions is no reason to poll often.
func isMendedInAWS(one finding) bool {
	return !slices.Contains([]problem{oneZoneStorageClass, accessPointsUnused}, one.problem) && !slices.Contains(networkActions(), one.object)
}
