package efshealth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// young is the age up to which a volume is not looked for: AWS may not list what was made just before.
const young = time.Minute

// snapshot is what AWS had of the file systems that the cluster uses.
type snapshot struct {
	at time.Time
	// fingerprint is that of the uses that AWS was asked about.
	fingerprint string
	// systems are the zones of all file systems of the account in the region, empty for those that are not One Zone; nil if they could
	// not be read.
	systems map[string]string
	// targets are the zones in which a file system has a mount target, by file system; points its access points. What could
	// not be read is not there.
	targets map[string][]string
	points  map[string]*points
	// asked are the file systems and access points that were used when AWS was asked.
	asked map[string]bool
	// complete says that the access points of all file systems that are used were read.
	complete bool
}

// points are the access points of a file system.
type points struct {
	ids map[string]bool
	// owned are the tags of the access points that this cluster has made.
	owned map[string]aws.Tags
}

// ask asks AWS about the file systems that are used. What the credentials may not read is left out, and added to denied.
func (w wants) ask(ctx context.Context, at time.Time, denied denials) (*snapshot, error) {
	cloud, used := w.cloud, w.used
	found := &snapshot{
		at: at, fingerprint: used.fingerprint(), targets: map[string][]string{}, points: map[string]*points{}, asked: map[string]bool{},
	}
	for _, one := range used.volumes {
		if found.at.Sub(one.created) >= young {
			found.asked[one.fileSystem], found.asked[one.accessPoint] = true, true
		}
	}
	for _, one := range used.classes {
		found.asked[one.fileSystem] = true
	}
	systems, err := listSystems(ctx, cloud)
	if err != nil {
		return found, denied.add(err)
	}
	found.systems = systems
	for _, id := range used.fileSystems() {
		if _, exists := systems[id]; !exists {
			continue
		}
		err := found.readTargets(ctx, cloud, id, denied)
		if err == nil {
			err = found.readPoints(ctx, cloud, id, w.ownerTag, denied)
		}
		if aws.IsNotFound(err) {
			// It has gone meanwhile.
			delete(systems, id)
		} else if err != nil {
			return found, err
		}
	}
	found.complete = denied["elasticfilesystem:DescribeAccessPoints"] == ""
	if slices.ContainsFunc(used.volumes, found.lacks) {
		// What it needs may only be too new for AWS to list it: that is looked for once more, soon.
		found.fingerprint = ""
	}
	return found, nil
}

// lacks reports whether a volume that was too young to be looked for needs what AWS does not list.
func (s *snapshot) lacks(one volume) bool {
	_, exists := s.systems[one.fileSystem]
	points := s.points[one.fileSystem]
	return !exists && !s.asked[one.fileSystem] ||
		one.accessPoint != "" && points != nil && !points.ids[one.accessPoint] && !s.asked[one.accessPoint]
}

func listSystems(ctx context.Context, cloud Cloud) (map[string]string, error) {
	list, err := cloud.FileSystems(ctx)
	if err != nil {
		return nil, fmt.Errorf("check AWS: %w", err)
	}
	systems := make(map[string]string, len(list))
	for _, system := range list {
		systems[system.ID] = system.Zone
	}
	return systems, nil
}

func (s *snapshot) readTargets(ctx context.Context, cloud Cloud, id string, denied denials) error {
	if denied["elasticfilesystem:DescribeMountTargets"] != "" {
		return nil
	}
	targets, err := cloud.MountTargets(ctx, id)
	if err != nil {
		return denied.add(err)
	}
	zones := []string{}
	for _, target := range targets {
		if target.State == aws.StateAvailable || target.State == aws.StateCreating || target.State == "updating" {
			zones = append(zones, target.Zone)
		}
	}
	slices.Sort(zones)
	s.targets[id] = zones
	return nil
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

// tagged remembers which tags an access point has got and lost.
func (s *snapshot) tagged(id string, set aws.Tags, off []string) {
	for _, points := range s.points {
		if has, found := points.owned[id]; found {
			maps.Copy(has, set)
			maps.DeleteFunc(has, func(key, _ string) bool { return slices.Contains(off, key) })
		}
	}
}

// gone remembers that an access point is no more.
func (s *snapshot) gone(id string) {
	for _, points := range s.points {
		delete(points.owned, id)
		delete(points.ids, id)
	}
}

// denials are the IAM actions that the credentials lack, with what AWS says.
type denials map[string]string

// add takes an error for a denial, if it is one, and else returns it.
func (d denials) add(err error) error {
	action, denied := aws.IsAccessDenied(err)
	if !denied {
		return err
	}
	d[action] = err.Error()
	return nil
}
