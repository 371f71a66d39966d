package efshealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// problem is a kind of finding. The driver's prefix and the problem together are the type of a condition. The problem alone is the reason of an event
// and the label of a metric.
type problem string

const (
	oneZoneStorageClass       problem = "OneZoneStorageClass"
	mountTargetMissing        problem = "MountTargetMissing"
	mountTargetClosed         problem = "MountTargetClosed"
	fileSystemMissing         problem = "FileSystemMissing"
	accessPointMissing        problem = "AccessPointMissing"
	permissionMissing         problem = "PermissionMissing"
	optionalPermissionMissing problem = "OptionalPermissionMissing"
	accessPointsNearLimit     problem = "AccessPointsNearLimit"
	accessPointsUnused        problem = "AccessPointsUnused"
	accessPointTagsOutdated   problem = "AccessPointTagsOutdated"
	cloudUnreachable          problem = "CloudUnreachable"
)

// mountsStalled is the problem that mounts on nodes hang. The nodes report this problem (see package reports). AWS does not know of it.
const mountsStalled = "MountsStalled"

// problems maps each problem with AWS to true if its events are warnings.
func problems() map[problem]bool {
	return map[problem]bool{
		oneZoneStorageClass: true, mountTargetMissing: true, mountTargetClosed: true, fileSystemMissing: true, accessPointMissing: true,
		permissionMissing:         true,
		optionalPermissionMissing: false, accessPointsNearLimit: true, accessPointsUnused: false, accessPointTagsOutdated: false,
		cloudUnreachable: false,
	}
}

// nearLimit is a percentage of the maximum number of access points. From this percentage on, the operator reports accessPointsNearLimit.
const nearLimit = 80

// finding is one instance of a problem.
type finding struct {
	problem problem
	// fileSystem and object are labels of the metric. The object is a StorageClass, zone, mount target, volume, access point or IAM action.
	fileSystem, object string
	message            string
	// alone is true if the file system has no mount target in any zone that has nodes.
	alone bool
	// minor is true if only SharedVolumes cause the finding. Any developer can create SharedVolumes, so minor findings come last.
	minor bool
}

// circumstances are the inputs of an evaluation besides the uses and the snapshot.
type circumstances struct {
	region string
	// limit is the maximum number of access points of a file system.
	limit int
	// secret is the name of the Secret with the controller's credentials.
	secret string
	denied denials
}

// evaluate returns the findings. It returns no finding about resources that the poll did not cover.
func evaluate(used uses, seen *snapshot, about circumstances) []finding {
	found := about.deniedFindings()
	if seen == nil || seen.systems == nil {
		return found
	}
	found = append(found, missing(used, seen, about)...)
	for _, id := range used.fileSystems() {
		if _, exists := seen.systems[id]; !exists {
			continue
		}
		found = append(found, evaluateZones(used, seen, id, about)...)
		found = append(found, evaluatePoints(used, seen, id, about)...)
	}
	found = append(found, evaluateReach(used, seen)...)
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.message, b.message))
	})
	return found
}

// rank sorts minor findings last.
func rank(one finding) int {
	if one.minor {
		return 1
	}
	return 0
}

// key identifies a finding without the message, because numbers in the message change.
func (f finding) key() finding {
	return finding{problem: f.problem, fileSystem: f.fileSystem, object: f.object}
}

// missing finds file systems and access points that AWS does not have although volumes or StorageClasses use them.
func missing(used uses, seen *snapshot, about circumstances) []finding {
	found, users := missingPoints(used, seen), map[string][]string{}
	matters := map[string]bool{}
	for _, one := range used.classes {
		users[one.fileSystem], matters[one.fileSystem] = append(users[one.fileSystem], "StorageClass/"+one.name), true
	}
	for _, one := range slices.Concat(used.of(false), used.of(true)) {
		if !one.remote {
			users[one.fileSystem] = append(users[one.fileSystem], "PersistentVolume/"+one.name)
			matters[one.fileSystem] = matters[one.fileSystem] || !one.shared
		}
	}
	for _, id := range used.fileSystems() {
		if _, exists := seen.systems[id]; exists || !seen.asked[id] {
			continue
		}
		found = append(found, finding{
			problem: fileSystemMissing, fileSystem: id, object: users[id][0], minor: !matters[id],
			message: fmt.Sprintf("file system %s does not exist in %s: pods can't mount it; correct the ID, or delete the objects that use it: %s",
				id, about.place(), status.Shorten(users[id])),
		})
	}
	return found
}

// missingPoints finds access points that AWS does not have although volumes use them.
func missingPoints(used uses, seen *snapshot) []finding {
	var found []finding
	listed := map[string]bool{}
	// Volumes of SharedVolumes come last. So the finding is not minor if another volume uses the same access point.
	for _, one := range slices.Concat(used.of(false), used.of(true)) {
		points := seen.points[one.fileSystem]
		if one.remote || one.accessPoint == "" || points == nil || points.ids[one.accessPoint] || !seen.asked[one.accessPoint] || listed[one.accessPoint] {
			continue
		}
		listed[one.accessPoint] = true
		found = append(found, finding{
			problem: accessPointMissing, fileSystem: one.fileSystem, object: one.accessPoint, minor: one.shared,
			message: fmt.Sprintf("PersistentVolume/%s needs access point %s, which file system %s does not have: pods can't mount the volume; its data "+
				"may still exist: create another access point with the same path, and a PersistentVolume that uses the new access point",
				one.name, one.accessPoint, one.fileSystem),
		})
	}
	return found
}

// place returns a text with the region and the account of the poll.
func (c circumstances) place() string {
	return "region " + c.region + " of the account of Secret " + c.secret
}

// evaluateZones compares the mount targets of a file system with the zones of the nodes.
func evaluateZones(used uses, seen *snapshot, id string, about circumstances) []finding {
	var found []finding
	needed := used.zones
	if zone := seen.systems[id]; zone != "" {
		needed = []string{zone}
		found = evaluateOneZone(used, id, zone)
	}
	targets, known := seen.targets[id]
	if !known {
		return found
	}
	needed = slices.DeleteFunc(slices.Clone(needed), func(zone string) bool {
		return !isZone(zone, about.region) || !slices.Contains(used.zones, zone)
	})
	alone := !slices.ContainsFunc(needed, func(zone string) bool { return slices.Contains(targets, zone) })
	for _, zone := range needed {
		if slices.Contains(targets, zone) {
			continue
		}
		found = append(found, finding{
			problem: mountTargetMissing, fileSystem: id, object: zone, alone: alone,
			message: fmt.Sprintf("file system %s has no mount target in %s, where the cluster has nodes: pods there fail to mount it, or use a mount target "+
				"of another zone; create one in a subnet of that zone, with a security group that allows inbound TCP port 2049", id, zone),
		})
	}
	return found
}

// evaluateOneZone finds mistakes that let pods run in other zones than their One Zone file system. It checks StorageClasses and volumes.
func evaluateOneZone(used uses, id, home string) []finding {
	if len(used.zones) == 0 || slices.Equal(used.zones, []string{home}) {
		return nil
	}
	var found []finding
	for _, one := range used.classes {
		if one.fileSystem == id && !one.placed {
			found = append(found, finding{problem: oneZoneStorageClass, fileSystem: id, object: one.name, message: fmt.Sprintf(
				"StorageClass %s uses file system %s, which is One "+
					"Zone in %s, but the cluster has nodes in %s: pods in other zones fail to mount its volumes; create a class with parameter "+
					"enforceZoneAffinity: \"true\", or use a regional file system", one.name, id, home, strings.Join(used.zones, ", "))})
		}
	}
	var loose []string
	for _, one := range used.volumes {
		if one.fileSystem == id && !one.placed && !one.remote {
			loose = append(loose, one.name)
		}
	}
	if len(loose) > 0 && !used.nodeRole {
		found = append(found, finding{problem: permissionMissing, fileSystem: id, object: "elasticfilesystem:DescribeMountTargets", message: fmt.Sprintf(
			"volumes of file system %s, which is "+
				"One Zone in %s, have no node affinity: %s. Node pods in other zones can't find its mount target, because they lack "+
				"elasticfilesystem:DescribeMountTargets. Give the volumes a node affinity. Or, to mount the volumes across zones, "+
				"set NODE_ROLEARN for the operator, and mount option az=%s on the volumes", id, home, status.Shorten(loose), home)})
	}
	return found
}

// evaluatePoints compares the number of access points with the limit. It also finds unused access points that this cluster created.
func evaluatePoints(used uses, seen *snapshot, id string, about circumstances) []finding {
	points := seen.points[id]
	if points == nil {
		return nil
	}
	var found []finding
	if count := len(points.ids); count*100 >= about.limit*nearLimit {
		found = append(found, finding{problem: accessPointsNearLimit, fileSystem: id, message: fmt.Sprintf(
			"file system %s has %d of at most %d access points: provisioning fails "+
				"at the limit; delete unused access points, ask AWS for a higher limit, or use another file system", id, count, about.limit)})
	}
	if idle := unused(used, points, id); len(idle) > 0 {
		found = append(found, finding{problem: accessPointsUnused, fileSystem: id, message: fmt.Sprintf(
			"file system %[2]s has %[1]d access points that this cluster created and "+
				"no volume uses: %[3]s; the operator keeps them, because their data may be needed", len(idle), id, status.Shorten(idle))})
	}
	return found
}

// unused returns the access points that this cluster created and no volume uses. A volume counts as a user even if nodes mount it by address or from
// another account.
func unused(used uses, points *points, id string) []string {
	if len(points.owned) == 0 {
		return nil
	}
	idle := maps.Clone(points.owned)
	for _, one := range used.volumes {
		if one.fileSystem == id {
			delete(idle, one.accessPoint)
		}
	}
	return slices.Sorted(maps.Keys(idle))
}

// deniedFindings reports the actions that the credentials lack. The driver itself needs the Describe actions of EFS and TagResource. So findings
// about these actions have problem permissionMissing instead of optionalPermissionMissing.
func (c circumstances) deniedFindings() []finding {
	var found []finding
	for _, action := range slices.Sorted(maps.Keys(c.denied)) {
		one := finding{problem: optionalPermissionMissing, object: action}
		switch {
		case action == "sts:AssumeRoleWithWebIdentity":
			one.message = fmt.Sprintf("the operator can't check AWS, because the IAM role in Secret %s does not trust the operator: add the "+
				"operator's ServiceAccount to the role's trust policy, which \"oc storage iam trust-policy controller\" prints", c.secret)
		case slices.Contains(networkActions(), action):
			one.message = fmt.Sprintf("the credentials of Secret %s lack permission %s, so it is unknown whether security groups let nodes reach the mount "+
				"targets: add %s to their IAM policy, which \"oc storage iam policy controller\" prints", c.secret, action, strings.Join(networkActions(), ", "))
		case strings.HasPrefix(action, "elasticfilesystem:Describe"), action == "elasticfilesystem:TagResource":
			one.problem = permissionMissing
			fallthrough
		default:
			one.message = fmt.Sprintf("the credentials of Secret %s lack permission %s: add it to their IAM policy, which \"oc storage iam policy "+
				"controller\" prints", c.secret, action)
		}
		found = append(found, one)
	}
	return found
}

// oneZoneVolumes counts the volumes of each One Zone file system.
func oneZoneVolumes(used uses, seen *snapshot) map[string]int {
	counts := map[string]int{}
	for _, one := range used.volumes {
		if seen.systems[one.fileSystem] != "" {
			counts[one.fileSystem]++
		}
	}
	return counts
}
