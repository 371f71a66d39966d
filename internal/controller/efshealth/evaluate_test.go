package efshealth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	regional = "fs-11111111"
	oneZone  = "fs-22222222"
	absent   = "fs-33333333"
	point    = "fsap-11111111"
	other    = "fsap-22222222"
)

// healthy is a cluster with nodes in two zones that AWS has everything for.
func healthy() (uses, *snapshot) {
	used := uses{
		zones:    []string{"us-east-1a", "us-east-1b"},
		volumes:  []volume{{name: "pv-1", fileSystem: regional, accessPoint: point}, {name: "pv-2", fileSystem: oneZone, placed: true}},
		classes:  []class{{name: "regional", fileSystem: regional}, {name: "placed", fileSystem: oneZone, placed: true}},
		nodeRole: false,
	}
	seen := &snapshot{
		systems: map[string]string{regional: "", oneZone: "us-east-1a"},
		targets: map[string][]string{regional: {"us-east-1a", "us-east-1b"}, oneZone: {"us-east-1a"}},
		points:  map[string]*points{regional: {ids: map[string]bool{point: true}, owned: map[string]aws.Tags{point: {}}}, oneZone: {}},
		asked:   map[string]bool{regional: true, oneZone: true, absent: true, point: true, other: true},
	}
	return used, seen
}

func TestEachThingThatIsWrongIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(used *uses, seen *snapshot, about *circumstances)
		want   []string
	}{
		"nothing": {func(*uses, *snapshot, *circumstances) {}, nil},
		"a class of a One Zone file system": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.classes[1].placed = false
		}, []string{"OneZoneStorageClass fs-22222222 placed"}},
		"the same in a cluster of that zone": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.classes[1].placed, used.zones = false, []string{"us-east-1a"}
		}, nil},
		"the same where nodes have no zones": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.classes[1].placed, used.zones = false, nil
		}, nil},
		"a zone with nodes and without a mount target": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.zones = append(used.zones, "us-east-1c")
		}, []string{"MountTargetMissing fs-11111111 us-east-1c"}},
		"a Local Zone, which can't have one": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.zones = append(used.zones, "us-east-1-bos-1a")
		}, nil},
		"a One Zone file system without its mount target": {func(_ *uses, seen *snapshot, _ *circumstances) {
			seen.targets[oneZone] = []string{}
		}, []string{"MountTargetMissing fs-22222222 us-east-1a"}},
		"the same where no node is": {func(used *uses, seen *snapshot, _ *circumstances) {
			used.zones, seen.targets[oneZone] = []string{"us-east-1b"}, []string{}
		}, nil},
		"mount targets that could not be read": {func(_ *uses, seen *snapshot, _ *circumstances) {
			delete(seen.targets, regional)
		}, nil},
		"a file system that is not there": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes[0].fileSystem, used.classes[0].fileSystem = absent, absent
		}, []string{"FileSystemMissing fs-33333333 StorageClass/regional"}},
		"one that AWS was not asked about": {func(used *uses, seen *snapshot, _ *circumstances) {
			used.classes[0].fileSystem = absent
			delete(seen.asked, absent)
		}, nil},
		"an access point that is not there": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes[0].accessPoint = other
			used.volumes = append(used.volumes, volume{name: "pv-3", fileSystem: regional, accessPoint: other})
		}, []string{"AccessPointMissing fs-11111111 fsap-22222222", "AccessPointsUnused fs-11111111 "}},
		"one that AWS was not asked about, perhaps because it is new": {func(used *uses, seen *snapshot, _ *circumstances) {
			used.volumes = append(used.volumes, volume{name: "pv-3", fileSystem: regional, accessPoint: other})
			delete(seen.asked, other)
		}, nil},
		"an access point that no volume uses": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes = used.volumes[1:]
		}, []string{"AccessPointsUnused fs-11111111 "}},
		"one that is mounted by its address": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes[0].remote = true
		}, nil},
		"a volume of another account": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes = append(used.volumes, volume{name: "pv-3", fileSystem: absent, accessPoint: other, remote: true})
		}, nil},
		"somebody else's": {func(used *uses, seen *snapshot, _ *circumstances) {
			used.volumes, seen.points[regional].owned = used.volumes[1:], nil
		}, nil},
		"volumes that any zone may mount, without a role for the nodes": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes[1].placed = false
		}, []string{"PermissionMissing fs-22222222 elasticfilesystem:DescribeMountTargets"}},
		"the same with a role": {func(used *uses, _ *snapshot, _ *circumstances) {
			used.volumes[1].placed, used.nodeRole = false, true
		}, nil},
		"few access points left": {func(_ *uses, _ *snapshot, about *circumstances) {
			about.limit = 1
		}, []string{"AccessPointsNearLimit fs-11111111 "}},
		"no right to read": {func(_ *uses, seen *snapshot, about *circumstances) {
			seen.systems = nil
			about.denied = denials{"elasticfilesystem:DescribeFileSystems": "no"}
		}, []string{"PermissionMissing  elasticfilesystem:DescribeFileSystems"}},
		"rights that only the operator needs": {func(_ *uses, _ *snapshot, about *circumstances) {
			about.denied = denials{"elasticfilesystem:UntagResource": "no", "sts:AssumeRoleWithWebIdentity": "no"}
		}, []string{"OptionalPermissionMissing  elasticfilesystem:UntagResource", "OptionalPermissionMissing  sts:AssumeRoleWithWebIdentity"}},
	} {
		t.Run(name, func(t *testing.T) {
			used, seen := healthy()
			about := circumstances{region: "us-east-1", limit: 1000, secret: "namespace/secret"}
			test.change(&used, seen, &about)
			var got []string
			for _, one := range evaluate(used, seen, about) {
				got = append(got, string(one.problem)+" "+one.fileSystem+" "+one.object)
				if !strings.Contains(one.message, one.fileSystem) || !strings.Contains(one.message, strings.TrimPrefix(one.object, "sts:AssumeRole")) &&
					!strings.Contains(one.message, "trust policy") && one.problem != permissionMissing {
					t.Errorf("%q does not name %s and %s", one.message, one.fileSystem, one.object)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsSaidBeforeAWSHasAnswered(t *testing.T) {
	used, _ := healthy()
	if found := evaluate(used, nil, circumstances{}); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
