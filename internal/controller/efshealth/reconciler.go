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
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/follow"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Cloud is what is asked of AWS.
type Cloud interface {
	aws.Tagger
	FileSystems(ctx context.Context) ([]aws.FileSystem, error)
	AccessPoints(ctx context.Context, fileSystem string) ([]aws.AccessPoint, error)
	AccessPoint(ctx context.Context, id string) (aws.AccessPoint, error)
	MountTargets(ctx context.Context, fileSystem string) ([]aws.MountTarget, error)
	// Requests is how many requests were sent.
	Requests() int
}

// OldOperator looks after the same driver.
type OldOperator interface {
	// Running names its Deployment; empty if it does not run.
	Running(ctx context.Context) (string, error)
	// Events are those of its Deployment.
	Events(handle handler.EventHandler) source.Source
}

// Reconciler checks AWS. All fields but the unexported ones are set by cmd.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster; Live reads the Secret, of which the caches hold hashes.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	Driver   driver.Driver
	// Namespace is where the operator runs, and the Secrets are.
	Namespace string
	// Controller and Node are the credentials of the driver's pods; Secrets has a cache for each, by name.
	Controller, Node driver.Credentials
	Secrets          map[string]cache.Cache
	// HasInfrastructure reports whether the cluster serves that kind.
	HasInfrastructure bool
	// Region is used where no Infrastructure names one.
	Region string
	// Limit is how many access points a file system can have.
	Limit int
	// Off keeps the operator from looking at AWS, as without credentials.
	Off bool
	// Connect makes a client for AWS. It sends nothing.
	Connect func(ctx context.Context, options aws.Options) (Cloud, error)
	// Tags are to be on the access points of this cluster, without the one that says whose they are.
	Tags func(infraID string, wanted []configv1.AWSResourceTag) map[string]string
	// OwnerTag is the key of the tag that says which cluster has made an access point.
	OwnerTag func(infraID string) string
	// DriverTag is the key of the tag that the driver puts on what it makes; its value is "true".
	DriverTag string
	// Predecessors are operators that this one never works beside.
	Predecessors []OldOperator
	Now          func() time.Time

	// Classes has StorageClasses.
	Classes cache.Cache
	volumes *follow.Objects[volume]
	nodes   *follow.Objects[nodePlace]

	// Shares say what SharedVolumes learn.
	Shares *Shares

	metrics *metrics
	poller  *poller
	// polled has an event after each poll.
	polled chan event.GenericEvent
	// connection is how AWS is reached at present. facts are what the poller knows of AWS.
	connection connection
	facts
	// tags is how bringing tags goes.
	tags   tagger
	writer *status.Writer
	// emitted are the findings that had an event.
	emitted map[finding]bool
}

// Reconcile says what is wrong with what the poller has found in AWS.
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
			// Its event comes.
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	again, err := r.look(ctx, cr)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return status.Requeue(again, err)
}

// look is the trip: what the cluster has, what the poller knows of AWS, and what follows. It asks AWS nothing, but brings tags. SharedVolumes hear
// of it after the poll, if one is due: else each would ask AWS itself.
func (r *Reconciler) look(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (time.Duration, error) {
	isDue := false
	defer func() {
		if !isDue {
			r.Shares.renew()
			r.Shares.stopWaiting()
		}
	}()
	busy, err := r.besideAnother(ctx)
	if err != nil {
		return 0, err
	}
	place, err := r.place(ctx)
	if err != nil {
		return 0, err
	}
	cloud, err := r.connect(ctx, place)
	switch {
	case err != nil:
		return 0, err
	case busy:
		// It writes the same object, and would undo what is written there.
		r.stop()
		return 0, nil
	case cr == nil || cr.DeletionTimestamp != nil:
		r.stop()
		return 0, nil
	case cr.Spec.ManagementState == operatorv1.Removed:
		r.stop()
		return r.writeConditions(ctx, cr, nil)
	case cloud == nil:
		r.stop()
		return r.report(ctx, cr, r.stateFindings(tagging{}))
	}
	r.Shares.use(cloud)
	used, err := r.uses(ctx)
	if err != nil {
		return 0, err
	}
	if len(used.fileSystems()) == 0 {
		r.forget()
		r.Shares.settle()
		return r.writeConditions(ctx, cr, nil)
	}
	isDue = r.hear(cloud, used, place)
	return r.act(ctx, cr, used, place)
}

// hear takes what the poller knows, and tells SharedVolumes how asking AWS goes. It reports whether a poll is due or under way.
func (r *Reconciler) hear(cloud Cloud, used uses, place place) (isDue bool) {
	wanted := wants{cloud: cloud, used: used}
	if place.infraID != "" {
		wanted.ownerTag = r.OwnerTag(place.infraID)
	}
	r.facts, isDue = r.poller.follow(wanted)
	switch {
	case r.failures > 0 && r.silent:
		r.Shares.fail(r.tried)
	case r.failures == 0 && r.seen == nil && !isDue:
		// It was asked just before, for somebody who wanted it otherwise. Until it is asked again, nothing is known to be wrong.
		r.Shares.settle()
	}
	return isDue
}

// act does what follows from the last poll: tags, conditions, events, metrics, what SharedVolumes learn, and when to ask again.
func (r *Reconciler) act(ctx context.Context, cr *operatorv1.ClusterCSIDriver, used uses, place place) (time.Duration, error) {
	var tags tagging
	var tagErr error
	denied := denials{}
	maps.Copy(denied, r.denied)
	if isManaged(cr) && r.seen != nil && place.infraID != "" {
		tags, tagErr = r.bringTags(ctx, cr, r.connection.cloud, r.Tags(place.infraID, place.tags))
		maps.Copy(denied, r.tags.denied)
	}
	found := evaluate(used, r.seen, circumstances{
		region: place.region, limit: r.Limit, secret: r.Namespace + "/" + r.Controller.Secret, denied: denied,
	})
	r.poller.plan(slices.ContainsFunc(found, func(one finding) bool { return isMendedInAWS(one.problem) }))
	r.Shares.publish(used, r.seen, found)
	found = append(found, r.stateFindings(tags)...)
	r.metrics.observe(used, r.seen, found, tags, r.Limit)
	wait, err := r.report(ctx, cr, found)
	return status.MinRequeue(tags.again, wait), errors.Join(tagErr, err)
}

// besideAnother reports whether an operator runs that this one does not work beside.
func (r *Reconciler) besideAnother(ctx context.Context) (bool, error) {
	for _, predecessor := range r.Predecessors {
		if running, err := predecessor.Running(ctx); err != nil || running != "" {
			return running != "", err
		}
	}
	return false, nil
}

// stop is for as long as nobody checks AWS. SharedVolumes learn that.
func (r *Reconciler) stop() {
	r.forget()
	r.Shares.use(nil)
}

// forget drops what is known of AWS.
func (r *Reconciler) forget() {
	r.facts, _ = r.poller.follow(wants{})
	r.emitted = map[finding]bool{}
	r.tags = tagger{failed: map[string]bool{}, denied: denials{}}
	r.metrics.reset()
}

// wake makes the trip see what a poll has found.
func (r *Reconciler) wake(answered bool) {
	if answered {
		r.metrics.polls.Inc()
	}
	select {
	case r.polled <- event.GenericEvent{Object: &operatorv1.ClusterCSIDriver{}}:
	default:
	}
}

// stateFindings say how the look itself goes.
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

func isManaged(cr *operatorv1.ClusterCSIDriver) bool {
	return cr.Spec.ManagementState == operatorv1.Managed || cr.Spec.ManagementState == ""
}

// isMendedInAWS reports whether what mends a problem happens where the operator gets no event.
func isMendedInAWS(one problem) bool {
	return !slices.Contains([]problem{oneZoneStorageClass, accessPointsUnused}, one)
}
