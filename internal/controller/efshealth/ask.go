package efshealth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// minAge is how old a volume must be before the operator expects AWS to list the volume's file system and access point. AWS lists a new file system
// or access point only after a while.
const minAge = time.Minute

// snapshot is the answer of AWS about the file systems that the cluster uses.
type snapshot struct {
	at time.Time
	// fingerprint identifies the uses that the poll covered (see method fingerprint of uses). It is empty if the next poll must come soon.
	fingerprint string
	// systems maps the account's file systems in the region to their zones. The zone of a regional file system is empty. systems is nil if AWS did not
	// list the file systems.
	systems map[string]string
	// bytes are the sizes of the account's file systems.
	bytes map[string]int64
	// targets has the zones with a mount target, by file system. points has the access points, by file system. Neither map has a file system that the
	// credentials could not read.
	targets map[string][]string
	points  map[string]*points
	// network is nil if the poll could not read the whole network. networkFailed is true if a request about the network failed for another reason than a
	// missing permission.
	network       *network
	networkFailed bool
	// asked has the IDs of the file systems and access points in use. It omits an ID that only volumes younger than minAge use, because AWS may not
	// list this ID yet.
	asked map[string]bool
	// complete is true if the poll read the access points of all file systems in use.
	complete bool
}

// points are the access points of a file system.
type points struct {
	ids map[string]bool
	// owned has the tags of the access points that this cluster created, by the ID of the access point.
	owned map[string]aws.Tags
}

// ask asks AWS about the file systems in use. If AWS denies a request, ask omits the data, and adds the missing IAM action to argument "denied".
func (w subject) ask(ctx context.Context, at time.Time, denied denials) (*snapshot, error) {
	cloud, used := w.cloud, w.used
	found := &snapshot{
		at: at, fingerprint: used.fingerprint(), targets: map[string][]string{}, points: map[string]*points{}, asked: map[string]bool{},
	}
	for _, one := range used.volumes {
		if found.at.Sub(one.created) >= minAge {
			found.asked[one.fileSystem], found.asked[one.accessPoint] = true, true
		}
	}
	for _, one := range used.classes {
		found.asked[one.fileSystem] = true
	}
	systems, sizes, err := listSystems(ctx, cloud)
	if err != nil {
		return found, denied.add(err)
	}
	found.systems, found.bytes = systems, sizes
	var mountable []aws.MountTarget
	for _, id := range used.fileSystems() {
		if _, exists := systems[id]; !exists {
			continue
		}
		targets, err := found.readTargets(ctx, cloud, id, denied)
		mountable = append(mountable, targets...)
		if err == nil {
			err = found.readPoints(ctx, cloud, id, w.ownerTag, denied)
		}
		if aws.IsNotFound(err) {
			// Someone deleted the file system after AWS listed it.
			delete(systems, id)
			delete(sizes, id)
		} else if err != nil {
			return found, err
		}
	}
	if denied["elasticfilesystem:DescribeMountTargets"] == "" {
		found.network, found.networkFailed = readNetwork(ctx, cloud, used.nodes, mountable, denied)
	}
	found.complete = denied["elasticfilesystem:DescribeAccessPoints"] == ""
	if found.networkFailed || slices.ContainsFunc(used.volumes, found.lacks) {
		// A retry may soon read the network, or find a file system or access point that was too new for AWS to list. An empty fingerprint makes the next
		// poll come soon.
		found.fingerprint = ""
	}
	return found, nil
}

// lacks reports whether a volume is new, and AWS does not list its file system or access point yet.
func (s *snapshot) lacks(one volume) bool {
	_, exists := s.systems[one.fileSystem]
	points := s.points[one.fileSystem]
	return !exists && !s.asked[one.fileSystem] ||
		one.accessPoint != "" && points != nil && !points.ids[one.accessPoint] && !s.asked[one.accessPoint]
}

func listSystems(ctx context.Context, cloud Cloud) (systems map[string]string, sizes map[string]int64, err error) {
	list, err := cloud.FileSystems(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("check AWS: %w", err)
	}
	systems, sizes = make(map[string]string, len(list)), make(map[string]int64, len(list))
	for _, system := range list {
		systems[system.ID], sizes[system.ID] = system.Zone, system.Bytes
	}
	return systems, sizes, nil
}

// readTargets stores the zones in which the file system has a mount target. It returns the mount targets that are available.
func (s *snapshot) readTargets(ctx context.Context, cloud Cloud, id string, denied denials) (available []aws.MountTarget, err error) {
	if denied["elasticfilesystem:DescribeMountTargets"] != "" {
		return nil, nil
	}
	targets, err := cloud.MountTargets(ctx, id)
	if err != nil {
		return nil, denied.add(err)
	}
	zones := []string{}
	for _, target := range targets {
		if target.State == aws.StateAvailable {
			available = append(available, target)
		}
		if target.State == aws.StateAvailable || target.State == aws.StateCreating || target.State == "updating" {
			zones = append(zones, target.Zone)
		}
	}
	slices.Sort(zones)
	s.targets[id] = zones
	return available, nil
}

func (s *snapshot) readPoints(ctx context.Context, cloud Cloud, id, ownerTag string, denied denials) error {
	if denied["elasticfilesystem:DescribeAccessPoints"] != "" {
		return nil
	}
	list, err := cloud.AccessPoints(ctx, id)
	if err != nil {
		return denied.add(err)
	}
	found := &points{ids: make(map[string]bool, len(list)), owned: map[string]aws.Tags{}}
	for _, point := range list {
		if point.State == aws.StateDeleting || point.State == aws.StateDeleted {
			continue
		}
		found.ids[point.ID] = true
		if ownerTag != "" && point.Tags[ownerTag] == "owned" {
			found.owned[point.ID] = point.Tags
		}
	}
	s.points[id] = found
	return nil
}

// updateTags changes the recorded tags of an access point, after the operator has changed the tags in AWS.
func (s *snapshot) updateTags(id string, set aws.Tags, off []string) {
	for _, points := range s.points {
		if has, found := points.owned[id]; found {
			maps.Copy(has, set)
			maps.DeleteFunc(has, func(key, _ string) bool { return slices.Contains(off, key) })
		}
	}
}

func (s *snapshot) removePoint(id string) {
	for _, points := range s.points {
		delete(points.owned, id)
		delete(points.ids, id)
	}
}

// denials maps each IAM action that the credentials lack to the error message of AWS.
type denials map[string]string

// add records an error if AWS denied the request, and then returns nil. It returns any other error unchanged.
func (d denials) add(err error) error {
	action, denied := aws.IsAccessDenied(err)
	if !denied {
		return err
	}
	d[action] = err.Error()
	return nil
}
