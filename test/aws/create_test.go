package aws

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// shareOptions are those of a creation that neither pauses nor has to hurry.
func shareOptions(more ...func(*create.Options)) create.Options {
	o := create.Options{
		InfraID: infra, Account: account, Region: region, Name: "ci", Poll: time.Millisecond, Patience: 10 * time.Minute,
		MaxBackoff: time.Millisecond, RequestsPerMinute: 1e8, RequestTimeout: 10 * time.Second,
	}
	for _, change := range more {
		change(&o)
	}
	return o
}

// create makes a share, or fails the test.
func (c *cloud) create(more ...func(*create.Options)) create.Share {
	c.T.Helper()
	share, err := create.Run(c.T.Context(), shareOptions(more...))
	env.Must(c.T, err)
	return share
}

func all(share create.Share) []string {
	return append([]string{share.FileSystem, share.SecurityGroup}, share.MountTargets...)
}

func ofShare(name string) func(*efscleanup.Options) {
	return func(o *efscleanup.Options) { o.Share = name }
}

func TestCreateMakesARegionalShareThatTheClusterCanReach(t *testing.T) {
	c := newCloud(t)
	c.Slow = 2
	vpc, _ := c.VPC(of(infra))
	c.VPC(of(other))
	share := c.create()
	c.WantLeft(all(share)...)
	if share.VPC != vpc || len(share.MountTargets) != 3 || share.Zone != "" {
		t.Errorf("the share is %+v", share)
	}
	systems, err := c.EFS.DescribeFileSystems(t.Context(), &efs.DescribeFileSystemsInput{})
	env.Must(t, err)
	got := systems.FileSystems[0]
	if !*got.Encrypted || *got.CreationToken != infra+"/ci" || *got.Name != "efs-"+infra+"-ci" {
		t.Errorf("the file system is %+v", got)
	}
	targets, err := c.EFS.DescribeMountTargets(t.Context(), &efs.DescribeMountTargetsInput{FileSystemId: &share.FileSystem})
	env.Must(t, err)
	zones := []string{}
	for _, target := range targets.MountTargets {
		zones = append(zones, *target.AvailabilityZoneName)
		groups, err := c.EFS.DescribeMountTargetSecurityGroups(t.Context(), &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: target.MountTargetId})
		env.Must(t, err)
		if diff := cmp.Diff([]string{share.SecurityGroup}, groups.SecurityGroups); diff != "" {
			t.Errorf("groups of a mount target (-want +got):\n%s", diff)
		}
	}
	slices.Sort(zones)
	if diff := cmp.Diff([]string{region + "a", region + "b", region + "c"}, zones); diff != "" {
		t.Errorf("zones of the mount targets (-want +got):\n%s", diff)
	}
	c.wantRule(share.SecurityGroup)
}

// wantRule fails unless a group lets in NFS from the VPC, and nothing else.
func (c *cloud) wantRule(group string) {
	c.T.Helper()
	groups, err := c.EC2.DescribeSecurityGroups(c.T.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{group}})
	env.Must(c.T, err)
	rules := groups.SecurityGroups[0].IpPermissions
	if len(rules) != 1 || *rules[0].IpProtocol != "tcp" || *rules[0].FromPort != 2049 || *rules[0].ToPort != 2049 ||
		len(rules[0].IpRanges) != 1 || *rules[0].IpRanges[0].CidrIp != "10.0.0.0/16" {
		c.T.Errorf("the rules of the group are %+v", rules)
	}
}

func TestCreateMakesAOneZoneShareWithOneMountTarget(t *testing.T) {
	c := newCloud(t)
	_, subnets := c.VPC(of(infra))
	share := c.create(func(o *create.Options) { o.Zone = region + "b" })
	if share.Zone != region+"b" || len(share.MountTargets) != 1 {
		t.Errorf("the share is %+v", share)
	}
	targets, err := c.EFS.DescribeMountTargets(t.Context(), &efs.DescribeMountTargetsInput{FileSystemId: &share.FileSystem})
	env.Must(t, err)
	if len(targets.MountTargets) != 1 || *targets.MountTargets[0].SubnetId != subnets[1] {
		t.Errorf("mount targets: %+v", targets.MountTargets)
	}
	c.WantLeft(all(share)...)
}

func TestCreateTwiceMakesOne(t *testing.T) {
	c := newCloud(t)
	c.VPC(of(infra))
	first := c.create()
	c.Set(nil)
	if diff := cmp.Diff(first, c.create()); diff != "" {
		t.Errorf("the second share differs (-first +second):\n%s", diff)
	}
	c.WantLeft(all(first)...)
	for _, call := range c.Calls() {
		// The rule of the group is written again, in case an earlier run has not come so far.
		if call.Writes() && call.Action != "ec2:AuthorizeSecurityGroupIngress" {
			t.Errorf("the second run calls %s", call.Action)
		}
	}
	c.wantRule(first.SecurityGroup)
	_, err := create.Run(t.Context(), shareOptions(func(o *create.Options) { o.Zone = region + "a" }))
	if err == nil {
		t.Fatal("a regional share is taken for one in a zone")
	}
	wantIn(t, err.Error(), first.FileSystem, "is regional, not One Zone in us-east-1a")
}

func TestDeletingAShareLeavesNothingOfItAndAllElse(t *testing.T) {
	c := newCloud(t)
	c.Slow = 2
	c.VPC(of(infra))
	c.VPC(of(other))
	stays := c.create(func(o *create.Options) { o.Name = "ci-2" })
	theirs := c.create(func(o *create.Options) { o.InfraID = other })
	admins := c.FileSystem(of(infra), "")
	point := c.AccessPoint(admins, of(infra))
	share := c.create()
	c.AccessPoint(share.FileSystem, of(infra))
	report := c.cleanup(ofShare("ci"))
	want(t, report, efscleanup.Clean)
	c.WantLeft(slices.Concat(all(stays), all(theirs), []string{admins, point})...)
	// A second time there is nothing to do.
	want(t, c.cleanup(ofShare("ci")), efscleanup.Clean)
	// A cleanup of the whole cluster takes the rest.
	want(t, c.cleanup(), efscleanup.Clean)
	c.WantLeft(all(theirs)...)
}

// People copy the tags of a file system to others. Only the token and the name, which AWS never changes, say what "efs create" has created.
func TestDeletingAShareLeavesWhatHasOnlyItsTags(t *testing.T) {
	c := newCloud(t)
	vpc, subnets := c.VPC(of(infra))
	c.create()
	copied := of(infra, "Name", "efs-"+infra+"-ci", efscleanup.MarkerTag, "ci")
	fileSystem, group := c.FileSystem(copied, ""), c.SecurityGroup(vpc, "copied", copied)
	left := []string{fileSystem, group, c.AccessPoint(fileSystem, of(infra)), c.MountTarget(fileSystem, subnets[0])}
	report := c.cleanup(func(o *efscleanup.Options) { o.Share = "ci" })
	want(t, report, efscleanup.Clean)
	c.WantLeft(left...)
	if len(report.Objects) != 5 {
		t.Errorf("the report is not only about the share: %+v", report.Objects)
	}
}

func TestCreateFindsTheNetworkOrSaysWhatIsMissing(t *testing.T) {
	named := func(vpc string, subnets ...string) func(*create.Options) {
		return func(o *create.Options) { o.VPC, o.Subnets = vpc, subnets }
	}
	c := newCloud(t)
	plain, plainSubnets := c.VPC(tags{})
	shared, _ := c.VPC(tags{})
	c.Subnet(shared, "a", "10.0.10.0/24", tags{"kubernetes.io/cluster/" + other: "shared"})
	public := c.Subnet(shared, "b", "10.0.11.0/24", tags{"kubernetes.io/cluster/" + other: "shared"})
	internal := c.Subnet(shared, "b", "10.0.12.0/24", tags{"kubernetes.io/cluster/" + other: "shared", "kubernetes.io/role/internal-elb": "1"})
	number := 0
	for name, test := range map[string]struct {
		change  func(*create.Options)
		targets int
		says    string
	}{
		"by the tag of the subnets, in a VPC of the administrator": {func(o *create.Options) { o.InfraID = other }, 2, ""},
		"a VPC and subnets that are named":                         {named(plain, plainSubnets[0], plainSubnets[2]), 2, ""},
		"subnets that are named":                                   {named("", plainSubnets[1]), 1, ""},
		"nothing has the tag":                                      {named(""), 0, "no VPC and no subnet in region us-east-1 has the tag kubernetes.io/cluster/" + infra},
		"a VPC without tagged subnets":                             {named(plain), 0, "has no subnet with the tag"},
		"a VPC that does not exist":                                {named("vpc-00000000000000000"), 0, "InvalidVpcID.NotFound"},
		"a subnet that does not exist":                             {named("", "subnet-00000000000000000"), 0, "InvalidSubnetID.NotFound"},
		"a subnet of another VPC":                                  {named(plain, internal), 0, "not all of subnets"},
		"two subnets of one zone":                                  {named("", internal, public), 0, "are both in zone us-east-1b"},
		"no subnet in the zone": {func(o *create.Options) { o.InfraID, o.Zone = other, region+"c" }, 0,
			"no subnet is in zone us-east-1c; subnets are in us-east-1a, us-east-1b"},
		"a zone of another region": {func(o *create.Options) { o.Zone = "eu-west-1a" }, 0, "must look like us-east-1a in this region"},
		"an ID that is none":       {named("vpc-1,2"), 0, "must look like vpc-"},
		"a name that is none":      {func(o *create.Options) { o.Name = "A/b" }, 0, "must have at most 30 lower-case letters"},
		"another account":          {func(o *create.Options) { o.Account = "210987654321" }, 0, "nothing was changed"},
	} {
		number++
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			before := c.All()
			share, err := create.Run(t.Context(), shareOptions(func(o *create.Options) { o.Name = fmt.Sprint("n", number) }, test.change))
			switch {
			case test.says == "":
				env.Must(t, err)
				if len(share.MountTargets) != test.targets {
					t.Errorf("%d mount targets, want %d", len(share.MountTargets), test.targets)
				}
			case err == nil:
				t.Error("it is accepted")
			default:
				wantIn(t, err.Error(), test.says)
				c.WantLeft(before...)
			}
		})
	}
	targets, err := c.EC2.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{})
	env.Must(t, err)
	found := false
	for _, target := range targets.NetworkInterfaces {
		found = found || *target.SubnetId == internal
	}
	if !found {
		t.Error("of two subnets in a zone, not the internal one was taken")
	}
}

func TestACreationThatIsEndedAtAnyRequestCanBeRunAgain(t *testing.T) {
	c, dice := newCloud(t), env.Dice(t)
	c.Slow = 1
	c.VPC(of(infra))
	c.Set(nil)
	c.create()
	for _, number := range some(t, dice, len(c.Calls())) {
		c.Reset(t)
		c.VPC(of(infra))
		arrives := dice.IntN(2) == 0
		ctx, end := context.WithCancel(t.Context())
		c.Set(endAt(number, arrives, end))
		if _, err := create.Run(ctx, shareOptions()); err == nil {
			t.Errorf("ended at request %d, it says that all is done", number)
		}
		if dice.IntN(2) == 0 {
			// A program that gives up leaves nothing behind.
			c.Set(nil)
			want(t, c.cleanup(ofShare("ci")), efscleanup.Clean)
			c.WantLeft()
		}
		c.Set(nil)
		share := c.create()
		c.WantLeft(all(share)...)
		c.wantRule(share.SecurityGroup)
		end()
		if t.Failed() {
			t.Fatalf("ended at request %d, which arrived: %t", number, arrives)
		}
	}
}

func TestBadWeatherOnlyDelaysACreation(t *testing.T) {
	c, dice := newCloud(t), env.Dice(t)
	c.Slow = 1
	for range env.Rounds(t) / 4 {
		c.Reset(t)
		c.VPC(of(infra))
		c.Set(weather(dice, 0.3))
		share := c.create()
		if calls := len(c.Calls()); calls > 100 {
			t.Errorf("%d calls", calls)
		}
		c.Set(nil)
		c.WantLeft(all(share)...)
		c.wantRule(share.SecurityGroup)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// A request whose answer is lost is sent again, and finds what it has made itself.
func TestCreateMakesOneThoughAllAnswersAreLostOnce(t *testing.T) {
	c := newCloud(t)
	c.VPC(of(infra))
	lost := map[string]bool{}
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if !call.Writes() || lost[call.Action] {
			return nil
		}
		lost[call.Action] = true
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			send()
			return nil
		}
	})
	share := c.create()
	c.WantLeft(all(share)...)
	c.wantRule(share.SecurityGroup)
	if len(lost) != 4 {
		t.Errorf("answers were lost of %v", lost)
	}
}

func TestAZoneThatEFSDoesNotSupportIsLeftOut(t *testing.T) {
	c := newCloud(t)
	_, subnets := c.VPC(of(infra))
	refused := false
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if refused || call.Action != "elasticfilesystem:CreateMountTarget" {
			return nil
		}
		refused = true
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, 400, "UnsupportedAvailabilityZone", "not in "+subnets[0])
		}
	})
	if share := c.create(); len(share.MountTargets) != 2 {
		t.Errorf("mount targets: %v", share.MountTargets)
	}
}
