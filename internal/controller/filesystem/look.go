package filesystem

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

	"github.com/csi-operators/csi-operators/internal/aws"
)

const (
	// lookTimeout is how long a SharedVolume waits for AWS; it is made without what AWS would say.
	lookTimeout = 5 * time.Second
	// fresh is how old a list of file systems may be that is to have a new one. It bounds what many unknown IDs can cost.
	fresh = 10 * time.Second
	// silence is how long AWS is not asked after it has not answered.
	silence = time.Minute
)

// known is what SharedVolumes are told. Its mutex is held while AWS is asked, so that many ask once.
type known struct {
	mutex sync.Mutex
	cloud Cloud
	// systems are the zones of the file systems as they were listed at.
	systems map[string]string
	at      time.Time
	// failed is when AWS did not answer.
	failed time.Time
	// findings are those of the last look, by file system, and zones those of the nodes then.
	findings map[string][]finding
	zones    []string
}

// forget drops what the last look has found.
func (k *known) forget() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.findings, k.zones = nil, nil
}

func (k *known) use(cloud Cloud) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.cloud, k.systems, k.findings, k.at, k.failed = cloud, nil, nil, time.Time{}, time.Time{}
}

// Look tells what AWS has of a share, and nothing if nobody knows. It asks AWS if the file system is not in the last list, which is
// made anew at most every few seconds, and takes a few seconds at most.
func (r *Reconciler) Look(ctx context.Context, fileSystem, accessPoint string) aws.Placement {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case <-r.first:
	case <-ctx.Done():
		// The others need not wait as well.
		r.firstOnce.Do(func() { close(r.first) })
		return aws.Placement{}
	}
	zones, err := r.zones(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "look for a share")
		return aws.Placement{}
	}
	k := &r.known
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !isID("fs-", fileSystem) || !k.list(ctx, fileSystem, r.Now) {
		return aws.Placement{}
	}
	return k.placement(fileSystem, accessPoint, zones)
}

// list makes sure that there is a list that would have the file system. It is false if nobody knows.
func (k *known) list(ctx context.Context, fileSystem string, now func() time.Time) bool {
	if _, found := k.systems[fileSystem]; found || k.cloud == nil {
		return found
	}
	if k.systems != nil && now().Sub(k.at) < fresh {
		return true
	}
	if now().Sub(k.failed) < silence {
		return false
	}
	systems, err := listSystems(ctx, k.cloud)
	if err != nil {
		k.failed = now()
		ctrl.LoggerFrom(ctx).Info("a share is used without what AWS knows of it", "fileSystem", fileSystem, "reason", err.Error())
		return false
	}
	k.systems, k.at = systems, now()
	return true
}

// placement is what is known of a share.
func (k *known) placement(fileSystem, accessPoint string, zones []string) aws.Placement {
	zone, exists := k.systems[fileSystem]
	found := aws.Placement{Known: true, Zone: zone}
	if !exists {
		found.Reason = aws.ReasonFileSystemNotFound
		found.Message = fmt.Sprintf("AWS knows no file system %s in the region and account of this cluster: pods can't mount it; make another "+
			"SharedVolume if the ID is wrong", fileSystem)
		return found
	}
	for _, one := range k.findings[fileSystem] {
		switch {
		case one.problem == accessPointMissing && one.object == accessPoint:
			found.Reason = aws.ReasonAccessPointNotFound
			found.Message = fmt.Sprintf("file system %s has no access point %s: pods can't mount it; make another SharedVolume", fileSystem, accessPoint)
			return found
		case one.problem == mountTargetMissing && (zone != "" || !hasAnyTarget(k.findings[fileSystem], zones)):
			found.Reason, found.Message = aws.ReasonMountTargetMissing, one.message
		}
	}
	if zone != "" && len(zones) > 0 && !slices.Contains(zones, zone) {
		found.Reason = aws.ReasonNoNodeInZone
		found.Message = fmt.Sprintf("file system %s is One Zone in %s, where the cluster has no node: its pods stay Pending until there is one; "+
			"ask an administrator of the cluster for nodes there", fileSystem, zone)
	}
	return found
}

// hasAnyTarget tells whether a file system can be mounted in any of the zones.
func hasAnyTarget(findings []finding, zones []string) bool {
	missing := 0
	for _, one := range findings {
		if one.problem == mountTargetMissing {
			missing++
		}
	}
	return missing < len(zones)
}

// publish gives SharedVolumes what was found, and wakes those up for whose file system it is new.
func (r *Reconciler) publish(used uses, seen *snapshot, findings []finding) {
	if seen == nil || seen.systems == nil {
		return
	}
	sorted := map[string][]finding{}
	for _, one := range findings {
		sorted[one.fileSystem] = append(sorted[one.fileSystem], one)
	}
	k := &r.known
	k.mutex.Lock()
	// Since the look, the list may have been made anew for a share.
	newer := seen.at.After(k.at)
	var news []string
	for _, id := range used.fileSystems() {
		moved := newer && k.systems[id] != seen.systems[id]
		if moved || !slices.Equal(k.findings[id], sorted[id]) || !slices.Equal(k.zones, used.zones) {
			news = append(news, id)
		}
	}
	k.findings, k.zones = sorted, used.zones
	if newer {
		k.systems, k.at = seen.systems, seen.at
	}
	k.mutex.Unlock()
	for _, id := range news {
		select {
		case r.changes <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: id}}}:
		default:
			// Nobody listens, or not yet; who begins to, looks at all.
			return
		}
	}
}

// Events tell of what is new. The name of the object is the ID of a file system.
func (r *Reconciler) Events(handle handler.EventHandler) source.Source {
	return source.Channel(r.changes, handle)
}
