package aws

import (
	"testing"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// cluster is what a cluster owns in an account.
type cluster struct {
	vpc               string
	subnets           []string
	regional, oneZone string
	points, targets   []string
	group, otherGroup string
}

// furnish makes a regional and a One Zone file system with access points, mount targets and a group that "efs create" would make,
// and a group of the cluster's nodes.
func (c *cloud) furnish(infraID string) cluster {
	c.T.Helper()
	made := cluster{}
	made.vpc, made.subnets = c.VPC(of(infraID))
	made.group = c.SecurityGroup(made.vpc, "efs/"+infraID+"/ci", of(infraID, efscleanup.MarkerTag, "ci"))
	made.otherGroup = c.SecurityGroup(made.vpc, infraID+"-node", of(infraID))
	made.regional = c.FileSystem(of(infraID, "Name", "data", efscleanup.MarkerTag, "ci"), "")
	made.oneZone = c.FileSystem(of(infraID), region+"b")
	for _, fileSystem := range []string{made.regional, made.regional, made.oneZone} {
		made.points = append(made.points, c.AccessPoint(fileSystem, of(infraID, "efs.csi.aws.com/cluster", "true")))
	}
	for _, subnet := range made.subnets {
		made.targets = append(made.targets, c.MountTarget(made.regional, subnet, made.group))
	}
	made.targets = append(made.targets, c.MountTarget(made.oneZone, made.subnets[1]))
	return made
}

// all are its objects that are no network.
func (c cluster) all() []string {
	return append(append([]string{c.regional, c.oneZone, c.group, c.otherGroup}, c.points...), c.targets...)
}

func TestCleanupDeletesWhatTheClusterOwnsAndNothingElse(t *testing.T) {
	c := newCloud(t)
	c.Slow = 3
	mine := c.furnish(infra)
	theirs, shorter := c.furnish(other), c.furnish(short)
	plain := c.FileSystem(tags{"Name": infra}, "")
	untagged := c.AccessPoint(plain, tags{})
	shared := c.FileSystem(tags{"kubernetes.io/cluster/" + infra: "shared"}, "")
	others := append(append(theirs.all(), shorter.all()...), plain, untagged, shared, mine.otherGroup)
	c.Set(nil)
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	c.WantLeft(others...)
	if got := report.Count(efscleanup.Deleted); got != 3+4+2+1 || len(report.Objects) != got {
		t.Errorf("%d of %d objects are deleted, want 10: %+v", got, len(report.Objects), report.Objects)
	}
	// The lists before and after, two requests for each access point and group, three for each mount target and file system, and a look
	// every now and then while AWS is at work.
	if calls := len(c.Calls()); calls > 70 || calls != report.Requests {
		t.Errorf("%d calls, and the report says %d", calls, report.Requests)
	}
	t.Logf("%d calls", len(c.Calls()))
}

func TestManyAccessPointsArePaged(t *testing.T) {
	// There are four pages of access points. A page of AWS has 100.
	const many, size = 31, 10
	c := newCloud(t)
	mine, theirs := c.FileSystem(of(infra), ""), c.FileSystem(of(other), "")
	left := []string{theirs}
	for i := range many {
		c.AccessPoint(mine, of(infra))
		if i%size == 0 {
			left = append(left, c.AccessPoint(theirs, of(other)))
		}
	}
	// More than a page of file systems.
	for range size + 1 {
		left = append(left, c.FileSystem(of(other), ""))
	}
	c.FileSystem(of(infra), "")
	c.Set(nil)
	c.Page = size
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	c.WantLeft(left...)
	if got := c.Count("elasticfilesystem:DeleteAccessPoint"); got != many {
		t.Errorf("%d deletions of access points, want %d", got, many)
	}
	// Each is read once more; there are 4 pages before, 1 after, and the guards of the file systems look twice.
	if got := c.Count("elasticfilesystem:DescribeAccessPoints"); got > many+4+1+4 {
		t.Errorf("access points were read %d times", got)
	}
	if got := len(c.Calls()); got > 2*many+35 {
		t.Errorf("%d calls for %d access points", got, many)
	}
	t.Logf("%d calls", len(c.Calls()))
}

func TestADryRunChangesNothing(t *testing.T) {
	c := newCloud(t)
	mine := c.furnish(infra)
	c.Set(nil)
	report := c.cleanup(dryRun)
	for _, call := range c.Calls() {
		if call.Writes() {
			t.Errorf("a dry run calls %s", call.Action)
		}
	}
	c.WantLeft(mine.all()...)
	want(t, report, efscleanup.StillThere)
	if got := report.Count(efscleanup.Planned); got != 10 || !report.DryRun {
		t.Errorf("%d planned deletions, want 10: %+v", got, report)
	}
}

func TestASecondRunFindsNothingToDo(t *testing.T) {
	c := newCloud(t)
	c.furnish(infra)
	c.cleanup()
	c.Set(nil)
	report := c.cleanup()
	want(t, report, efscleanup.Clean)
	// Whose credentials; and before and after, file systems, access points and groups.
	if got := len(c.Calls()); got != 7 {
		t.Errorf("%d calls, want 7: %v", got, c.Calls())
	}
}

func TestWithoutWaitingARunDoesWhatItCanAndTheNextGoesOn(t *testing.T) {
	c := newCloud(t)
	c.Slow = 6
	mine := c.furnish(infra)
	report := c.cleanup(once)
	want(t, report, efscleanup.StillThere)
	if got := reason(report, mine.regional); got != "waiting: 3 of its mount targets still exist" {
		t.Errorf("the file system is %s", got)
	}
	runs := 1
	for ; report.Outcome() == efscleanup.StillThere && runs < 20; runs++ {
		report = c.cleanup(once)
	}
	want(t, report, efscleanup.Clean)
	c.WantLeft(mine.otherGroup)
	if runs < 3 {
		t.Errorf("all was gone after %d runs, though AWS takes its time", runs)
	}
}

func TestOurAccessPointGoesFromAFileSystemOfAnotherCluster(t *testing.T) {
	c := newCloud(t)
	theirs := c.FileSystem(of(other), "")
	c.AccessPoint(theirs, of(infra))
	point := c.AccessPoint(theirs, of(other))
	want(t, c.cleanup(), efscleanup.Clean)
	c.WantLeft(theirs, point)
}

func TestAFileSystemThatHoldsWhatIsNotOursStays(t *testing.T) {
	for name, test := range map[string]struct {
		fileSystem, point tags
		why               string
	}{
		"another cluster's access point": {of(infra), of(other), "another cluster"},
		"an access point of nobody":      {of(infra), tags{}, "does not have the tag"},
		"one that the cluster shares":    {of(infra), tags{"kubernetes.io/cluster/" + infra: "shared"}, "does not have the tag"},
		"one of a shorter ID":            {of(infra), of(short), "another cluster"},
		"one of both clusters":           {of(infra), of(infra, "kubernetes.io/cluster/"+other, "owned"), "another cluster"},
		"a tag of another cluster":       {of(infra, "kubernetes.io/cluster/"+other, "shared"), of(infra), "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			vpc, subnets := c.VPC(of(infra))
			test.fileSystem[efscleanup.MarkerTag] = "ci"
			group := c.SecurityGroup(vpc, "efs/"+infra+"/ci", of(infra, efscleanup.MarkerTag, "ci"))
			fileSystem := c.FileSystem(test.fileSystem, "")
			target := c.MountTarget(fileSystem, subnets[0], group)
			c.AccessPoint(fileSystem, of(infra))
			point := c.AccessPoint(fileSystem, test.point)
			c.Set(nil)
			report := c.cleanup()
			want(t, report, efscleanup.LeftAlone)
			left := []string{fileSystem, target, group}
			if test.point["kubernetes.io/cluster/"+infra] != "owned" || len(test.point) > 1 {
				left = append(left, point)
			}
			c.WantLeft(left...)
			wantIn(t, reason(report, fileSystem), "refused: ", test.why)
			wantIn(t, reason(report, group), "refused: ", fileSystem)
			if count := c.Count("elasticfilesystem:DeleteMountTarget"); count > 0 {
				t.Errorf("%d mount targets were to be deleted", count)
			}
		})
	}
}

func TestTheOwnerTagCountsOnlyIfAskedForAndWithTheWholeID(t *testing.T) {
	for name, test := range map[string]struct {
		tags    tags
		asked   bool
		deleted bool
	}{
		"not asked for":                  {tags{"owner": infra}, false, false},
		"asked for":                      {tags{"owner": infra}, true, true},
		"another ID":                     {tags{"owner": other}, true, false},
		"the beginning of the ID":        {tags{"owner": short}, true, false},
		"another spelling of the key":    {tags{"Owner": infra}, true, false},
		"shared by the cluster's tag":    {tags{"owner": infra, "kubernetes.io/cluster/" + infra: "shared"}, true, false},
		"and another cluster's tag":      {tags{"owner": infra, "kubernetes.io/cluster/" + other: "owned"}, true, false},
		"somebody's, and the cluster's":  {of(infra, "owner", "storage-team"), true, true},
		"the name of somebody else only": {tags{"owner": "storage-team"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			fileSystem := c.FileSystem(test.tags, "")
			point := c.AccessPoint(fileSystem, test.tags)
			c.cleanup(func(o *efscleanup.Options) { o.OwnerTag = test.asked })
			if test.deleted {
				c.WantLeft()
			} else {
				c.WantLeft(fileSystem, point)
			}
		})
	}
}

func TestOnlyGroupsOfEFSCreateGo(t *testing.T) {
	c := newCloud(t)
	vpc, _ := c.VPC(of(infra))
	c.SecurityGroup(vpc, "efs/"+infra+"/ci", of(infra, efscleanup.MarkerTag, "ci"))
	left := []string{
		c.SecurityGroup(vpc, "nodes", of(infra)),
		c.SecurityGroup(vpc, "theirs", of(other, efscleanup.MarkerTag, "ci")),
		c.SecurityGroup(vpc, "nobody's", tags{efscleanup.MarkerTag: "ci"}),
		c.SecurityGroup(vpc, "with copied tags", of(infra, efscleanup.MarkerTag, "ci")),
	}
	both := c.SecurityGroup(vpc, "efs/"+infra+"/both", of(infra, efscleanup.MarkerTag, "both", "kubernetes.io/cluster/"+other, "owned"))
	report := c.cleanup()
	want(t, report, efscleanup.LeftAlone)
	c.WantLeft(append(left, both)...)
	wantIn(t, reason(report, both), "refused: ", other)
}
