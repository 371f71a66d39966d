package efshealth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

const (
	// askTimeout is how long the reconciliation of a SharedVolume waits for AWS. After this time, the reconciliation continues without an answer.
	askTimeout = 5 * time.Second
	// listMaxAge is the minimum time between two requests for the list of file systems. After an unknown ID, the next request waits until this time has
	// passed.
	listMaxAge = 10 * time.Second
	// failurePause is the pause after a failed request.
	failurePause = time.Minute
	// mostAbsent limits the stored answers about absent file systems and access points.
	mostAbsent = 10000
	// mostWoken limits the file systems whose SharedVolumes Shares wakes one by one. Above the limit, Shares wakes all SharedVolumes. mostChanges is the
	// size of the buffer of these events.
	mostWoken, mostChanges = 100, 1000
)

// Shares tells the SharedVolume controller what AWS reports about shares. It holds the mutex during a request, so that many SharedVolumes cause only
// one request.
type Shares struct {
	now func() time.Time
	// nodeZones returns the zones with nodes where users' pods can run.
	nodeZones func() []string
	changes   chan event.GenericEvent
	// first is closed after AWS's first answer, or when waiting for that answer makes no sense.
	first     chan struct{}
	firstOnce sync.Once
	// renewed is true if the client has changed and the SharedVolumes have not been requeued since.
	renewed bool

	mutex sync.Mutex
	// cloud is the client, and nil while the checks are off. decided is true once the reconciler has set cloud.
	cloud   Cloud
	decided bool
	// systems maps each file system to its zone, from the last list of AWS. Field "at" is the time of that list.
	systems map[string]string
	at      time.Time
	// failed is the time at which AWS last did not answer.
	failed time.Time
	// evaluated is false before the first evaluation. findings has the last evaluation's findings that matter to SharedVolumes, by file system. zones
	// are the zones with nodes at that evaluation.
	evaluated bool
	findings  map[string][]finding
	zones     []string
	// points has the access points of the last poll, by file system. lookups has AWS's answers since that poll.
	points  map[string]*points
	lookups lookups
}

// setClient sets the client, and reports whether the client has changed. A nil client turns the checks off, and drops all answers. After a change
// to another client, SharedVolumes ask again, unless they still wait for the first answer. Positive answers stay valid after such a change, because
// new credentials usually only renew the previous credentials.
func (k *Shares) setClient(cloud Cloud) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.decided = true
	if k.cloud == cloud {
		return false
	}
	k.cloud, k.failed = cloud, time.Time{}
	k.lookups.dropNegative()
	if cloud == nil {
		k.lookups = lookups{}
		k.systems, k.at, k.evaluated, k.findings, k.zones, k.points = nil, time.Time{}, false, nil, nil, nil
	}
	select {
	case <-k.first:
		k.renewed = true
	default:
	}
	return true
}

// recordFailure records a failed poll. For failurePause after the failure, no SharedVolume requests the list of file systems.
func (k *Shares) recordFailure(at time.Time) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if at.After(k.failed) {
		k.failed = at
	}
}

// clearFindings clears the findings. The reconciler calls it when no problem with file systems is known.
func (k *Shares) clearFindings() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.evaluated, k.findings, k.zones = true, nil, nil
}

// Locate returns what AWS reports about a share. While the checks are off, it returns a Placement with only Off set. It returns a zero Placement if
// AWS does not answer. If the last list lacks the file system, Locate requests a new list, at most once within listMaxAge. If the last poll did not
// see the access point, Locate requests the access point, too. Each request takes at most askTimeout.
func (k *Shares) Locate(ctx context.Context, fileSystem, accessPoint string) efs.Placement {
	k.awaitFirst(ctx)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	switch {
	case k.cloud == nil:
		return efs.Placement{Off: k.decided}
	case !efs.IsFileSystem(fileSystem) || !k.list(ctx, fileSystem, k.now()):
		return efs.Placement{}
	}
	found := k.placement(fileSystem, accessPoint, k.nodeZones())
	isSettled := found.Pending || found.Reason == efs.ReasonFileSystemNotFound || found.Reason == efs.ReasonAccessPointNotFound
	if polled := k.points[fileSystem]; isSettled || !efs.IsAccessPoint(accessPoint) || polled != nil && polled.ids[accessPoint] {
		return found
	}
	if k.lookups.lacks(ctx, k.cloud, share{fileSystem, accessPoint}, k.now()) {
		return withoutPoint(found, fileSystem, accessPoint)
	}
	return found
}

func withoutPoint(found efs.Placement, fileSystem, accessPoint string) efs.Placement {
	found.Reason = efs.ReasonAccessPointNotFound
	found.Message = fmt.Sprintf("file system %s has no access point %s: pods can't mount it; create another SharedVolume", fileSystem, accessPoint)
	return found
}

// awaitFirst waits for the first answer. After one caller's wait has timed out, the other callers do not wait.
func (k *Shares) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case <-k.first:
	case <-ctx.Done():
		k.stopWaiting()
	}
}

func (k *Shares) stopWaiting() { k.firstOnce.Do(func() { close(k.first) }) }

// list makes sure that the stored list contains this file system, or that the list is recent. AWS does not have a file system that is missing in a
// recent list. The function returns false if AWS does not answer.
func (k *Shares) list(ctx context.Context, fileSystem string, now time.Time) bool {
	if _, found := k.systems[fileSystem]; found {
		return true
	}
	one := share{fileSystem: fileSystem}
	switch {
	case k.systems != nil && k.lookups.answers[one].isOld(now):
		return true
	case now.Sub(k.failed) < failurePause:
		return false
	case k.systems == nil || now.Sub(k.at) >= listMaxAge:
		// The request does not end with the caller's context, because other callers use its answer, too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		systems, _, err := listSystems(ctx, k.cloud)
		if err != nil {
			k.failed = now
			ctrl.LoggerFrom(ctx).Info("could not check the file system of a SharedVolume", "fileSystem", fileSystem, "reason", err.Error())
			return false
		}
		k.systems, k.at = systems, now
	}
	if _, found := k.systems[fileSystem]; !found {
		k.lookups.store(one, false, now)
	}
	return true
}

// placement returns the known facts about a share.
func (k *Shares) placement(fileSystem, accessPoint string, zones []string) efs.Placement {
	zone, exists := k.systems[fileSystem]
	found := efs.Placement{Known: true, Pending: !k.evaluated, Zone: zone}
	if !exists {
		found.Reason = efs.ReasonFileSystemNotFound
		found.Message = fmt.Sprintf("file system %s does not exist in the AWS region and account of this cluster: pods can't mount it; if the "+
			"ID is wrong, create another SharedVolume", fileSystem)
		return found
	}
	for _, one := range k.findings[fileSystem] {
		switch {
		case one.problem == accessPointMissing && one.object == accessPoint:
			return withoutPoint(found, fileSystem, accessPoint)
		case one.problem == mountTargetMissing && (zone != "" || one.alone):
			found.Reason, found.Message = efs.ReasonMountTargetMissing, one.message
		}
	}
	if zone != "" && len(zones) > 0 && !slices.Contains(zones, zone) {
		found.Reason = efs.ReasonNoNodeInZone
		found.Message = fmt.Sprintf("file system %s is One Zone in %s, where the cluster has no node: pods that use it stay Pending; "+
			"ask a cluster administrator for nodes in this zone", fileSystem, zone)
	}
	return found
}

// publish stores the result of an evaluation, and triggers a reconcile of the SharedVolumes whose file system has other findings than before.
func (k *Shares) publish(used uses, seen *snapshot, findings []finding) {
	if seen == nil || seen.systems == nil {
		return
	}
	matters := map[string][]finding{}
	for _, one := range findings {
		if one.problem == accessPointMissing || one.problem == mountTargetMissing {
			matters[one.fileSystem] = append(matters[one.fileSystem], one)
		}
	}
	k.mutex.Lock()
	// A SharedVolume may have requested a newer list since the poll. The newer list stays.
	newer := seen.at.After(k.at)
	var news []string
	for _, id := range used.fileSystems() {
		if !k.evaluated || newer && k.answerChanged(id, seen) || !slices.Equal(k.findings[id], matters[id]) || !slices.Equal(k.zones, used.zones) {
			news = append(news, id)
		}
	}
	k.evaluated, k.findings, k.zones, k.points = true, matters, used.zones, seen.points
	if newer {
		k.systems, k.at, k.lookups.answers = seen.systems, seen.at, nil
	}
	k.mutex.Unlock()
	k.wake(news...)
}

// answerChanged reports whether a poll changes what Locate returns for shares on a file system.
func (k *Shares) answerChanged(id string, seen *snapshot) bool {
	before, existed := k.systems[id]
	now, exists := seen.systems[id]
	return before != now || existed != exists || k.lookups.hasAbsent(id)
}

// wakeIfRenewed wakes all SharedVolumes after a change of the client.
func (k *Shares) wakeIfRenewed() {
	if k.renewed {
		k.renewed = false
		k.wake("")
	}
}

// wake wakes the SharedVolumes of these file systems, by ID. An empty ID, or many IDs, wake all SharedVolumes.
func (k *Shares) wake(ids ...string) {
	if len(ids) > mostWoken {
		ids = []string{""}
	}
	for _, id := range ids {
		select {
		case k.changes <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: id}}}:
		default:
			// The buffer is full, because the SharedVolume controller does not run. When that controller starts, it reconciles all SharedVolumes.
			return
		}
	}
}

// Events returns an event for each changed result of Locate. The name of the event's object is the ID of a file system, or empty for all file
// systems.
func (k *Shares) Events(handle handler.EventHandler) source.Source {
	return source.Channel(k.changes, handle)
}
