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
	// lookTimeout is how long a SharedVolume waits for AWS; it is made without what AWS would say.
	lookTimeout = 5 * time.Second
	// fresh is how old a list of file systems may be that is to have a new one. It bounds what many unknown IDs can cost.
	fresh = 10 * time.Second
	// silence is how long AWS is not asked after it has not answered.
	silence = time.Minute
	// mostAbsent bounds how many IDs are remembered that AWS does not know.
	mostAbsent = 10000
	// mostWoken is for how many file systems SharedVolumes are woken one by one, mostChanges how many of these events can wait.
	mostWoken, mostChanges = 100, 1000
)

// Shares say what SharedVolumes learn of AWS. The mutex is held while AWS is asked, so that many ask once.
type Shares struct {
	now func() time.Time
	// nodeZones are the zones with nodes for the pods of users.
	nodeZones func() []string
	changes   chan event.GenericEvent
	// first is closed when it is known what AWS says, or that it says nothing.
	first     chan struct{}
	firstOnce sync.Once
	// renewed is true until SharedVolumes have got the change of how AWS is reached.
	renewed bool

	mutex sync.Mutex
	// cloud is nil while nobody checks AWS, decided true once somebody has found out whether.
	cloud   Cloud
	decided bool
	// systems are the zones of the file systems as they were listed at.
	systems map[string]string
	at      time.Time
	// failed is when AWS did not answer.
	failed time.Time
	// evaluated is false before the first evaluation. findings are those of the last one that matter to SharedVolumes, by file system,
	// zones those of the nodes then.
	evaluated bool
	findings  map[string][]finding
	zones     []string
	// points are the access points that the last poll has seen, by file system; looked is what was asked for since.
	points map[string]*points
	looked looked
}

// use changes how AWS is reached, nil for not at all, and reports whether that is new. SharedVolumes then ask again, unless they still wait for the
// first answer. Other credentials are mostly a renewal: what was known stays in effect.
func (k *Shares) use(cloud Cloud) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.decided = true
	if k.cloud == cloud {
		return false
	}
	k.cloud, k.failed = cloud, time.Time{}
	k.looked.renew()
	if cloud == nil {
		k.looked = looked{}
		k.systems, k.at, k.evaluated, k.findings, k.zones, k.points = nil, time.Time{}, false, nil, nil, nil
	}
	select {
	case <-k.first:
		k.renewed = true
	default:
	}
	return true
}

// fail says that AWS has not answered: the next call need not try at once.
func (k *Shares) fail(at time.Time) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if at.After(k.failed) {
		k.failed = at
	}
}

// settle says that nothing is used in AWS, so that nothing is wrong.
func (k *Shares) settle() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.evaluated, k.findings, k.zones = true, nil, nil
}

// Look says what AWS has of a share, and nothing if nobody knows. Look asks AWS if the file system is not in the last list, which is made anew
// at most every few seconds, or if the last poll has not seen the access point. It takes a few seconds at most.
func (k *Shares) Look(ctx context.Context, fileSystem, accessPoint string) efs.Placement {
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
	if k.looked.lacks(ctx, k.cloud, share{fileSystem, accessPoint}, k.now()) {
		return withoutPoint(found, fileSystem, accessPoint)
	}
	return found
}

func withoutPoint(found efs.Placement, fileSystem, accessPoint string) efs.Placement {
	found.Reason = efs.ReasonAccessPointNotFound
	found.Message = fmt.Sprintf("file system %s has no access point %s: pods can't mount it; create another SharedVolume", fileSystem, accessPoint)
	return found
}

// awaitFirst waits for the first answer; not for long, and then nobody does any more.
func (k *Shares) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case <-k.first:
	case <-ctx.Done():
		k.stopWaiting()
	}
}

func (k *Shares) stopWaiting() { k.firstOnce.Do(func() { close(k.first) }) }

// list makes sure that there is a list that would have the file system. It is false if nobody knows.
func (k *Shares) list(ctx context.Context, fileSystem string, now time.Time) bool {
	if _, found := k.systems[fileSystem]; found {
		return true
	}
	one := share{fileSystem: fileSystem}
	switch {
	case k.systems != nil && k.looked.answers[one].isOld(now):
		return true
	case now.Sub(k.failed) < silence:
		return false
	case k.systems == nil || now.Sub(k.at) >= fresh:
		// Who waits may leave, the answer is for all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer cancel()
		systems, err := listSystems(ctx, k.cloud)
		if err != nil {
			k.failed = now
			ctrl.LoggerFrom(ctx).Info("could not check the file system of a SharedVolume", "fileSystem", fileSystem, "reason", err.Error())
			return false
		}
		k.systems, k.at = systems, now
	}
	if _, found := k.systems[fileSystem]; !found {
		k.looked.remember(one, false, now)
	}
	return true
}

// placement is what is known of a share.
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
		found.Message = fmt.Sprintf("file system %s is One Zone in %s, where the cluster has no node: its pods stay Pending; "+
			"ask a cluster administrator for nodes in this zone", fileSystem, zone)
	}
	return found
}

// publish gives SharedVolumes what was found, and wakes those up for whose file system it is new.
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
	// Since the look, the list may have been made anew for a share.
	newer := seen.at.After(k.at)
	var news []string
	for _, id := range used.fileSystems() {
		if !k.evaluated || newer && k.moved(id, seen) || !slices.Equal(k.findings[id], matters[id]) || !slices.Equal(k.zones, used.zones) {
			news = append(news, id)
		}
	}
	k.evaluated, k.findings, k.zones, k.points = true, matters, used.zones, seen.points
	if newer {
		k.systems, k.at, k.looked.answers = seen.systems, seen.at, nil
	}
	k.mutex.Unlock()
	k.wake(news...)
}

// moved reports whether a newer look may say something else about shares of a file system than what they were told.
func (k *Shares) moved(id string, seen *snapshot) bool {
	before, existed := k.systems[id]
	now, exists := seen.systems[id]
	return before != now || existed != exists || k.looked.absent(id)
}

// renew lets all SharedVolumes ask again after AWS is reached otherwise than before, or no longer.
func (k *Shares) renew() {
	if k.renewed {
		k.renewed = false
		k.wake("")
	}
}

// wake wakes up SharedVolumes by the ID of their file system; empty for all, as well as many.
func (k *Shares) wake(ids ...string) {
	if len(ids) > mostWoken {
		ids = []string{""}
	}
	for _, id := range ids {
		select {
		case k.changes <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: id}}}:
		default:
			// Nobody listens, or not yet; who begins to, looks at all.
			return
		}
	}
}

// Events say what is new. The name of the object is the ID of a file system, empty for all.
func (k *Shares) Events(handle handler.EventHandler) source.Source {
	return source.Channel(k.changes, handle)
}
