// Package aws tests what works on AWS itself against moto, an independent stand-in for AWS, over HTTP.
package aws

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	infra = "dev-x7k2p"
	// other is a cluster whose ID begins with that of infra, short one with which that of infra begins.
	other   = "dev-x7k2p-2"
	short   = "dev-x7k"
	account = "123456789012"
	region  = "us-east-1"
)

// moto is the endpoint of the stand-in, which all tests use one after the other.
var moto string

func TestMain(m *testing.M) {
	for _, variable := range env.AWSVariables() {
		key, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(key, value)
	}
	for _, variable := range os.Environ() {
		if key, _, _ := strings.Cut(variable, "="); strings.HasPrefix(key, "AWS_") && !slices.Contains(env.AWSVariables(), variable) {
			_ = os.Unsetenv(key)
		}
	}
	endpoint, stop, err := env.ServeAWS()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	moto = endpoint
	code := m.Run()
	stop()
	os.Exit(code)
}

// cloud is an empty AWS for one test: the proxy is what the programs see, the clients see all as it is.
type cloud struct {
	*env.AWSProxy
	t   *testing.T
	efs *efs.Client
	ec2 *ec2.Client
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	proxy := env.NewAWSProxy(t, moto)
	settings, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(region), config.WithBaseEndpoint(moto), config.WithRetryMaxAttempts(1))
	env.Must(t, err)
	t.Setenv("AWS_ENDPOINT_URL", proxy.URL)
	return &cloud{AWSProxy: proxy, t: t, efs: efs.NewFromConfig(settings), ec2: ec2.NewFromConfig(settings)}
}

type tags map[string]string

// of are the tags of what a cluster owns.
func of(infraID string, more ...string) tags {
	all := tags{"kubernetes.io/cluster/" + infraID: "owned"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func (t tags) efs() []efstypes.Tag {
	var list []efstypes.Tag
	for _, key := range slices.Sorted(maps.Keys(t)) {
		list = append(list, efstypes.Tag{Key: sdk.String(key), Value: sdk.String(t[key])})
	}
	return list
}

func (t tags) ec2(kind ec2types.ResourceType) []ec2types.TagSpecification {
	if len(t) == 0 {
		return nil
	}
	specification := ec2types.TagSpecification{ResourceType: kind}
	for _, tag := range t.efs() {
		specification.Tags = append(specification.Tags, ec2types.Tag{Key: tag.Key, Value: tag.Value})
	}
	return []ec2types.TagSpecification{specification}
}

// vpc makes a network with a subnet in each of three zones.
func (c *cloud) vpc(tagged tags) (vpc string, subnets []string) {
	c.t.Helper()
	made, err := c.ec2.CreateVpc(c.t.Context(), &ec2.CreateVpcInput{
		CidrBlock: sdk.String("10.0.0.0/16"), TagSpecifications: tagged.ec2(ec2types.ResourceTypeVpc),
	})
	env.Must(c.t, err)
	vpc = *made.Vpc.VpcId
	for i, zone := range []string{"a", "b", "c"} {
		subnets = append(subnets, c.subnet(vpc, zone, fmt.Sprintf("10.0.%d.0/24", i), tagged))
	}
	return vpc, subnets
}

func (c *cloud) subnet(vpc, zone, block string, tagged tags) string {
	c.t.Helper()
	made, err := c.ec2.CreateSubnet(c.t.Context(), &ec2.CreateSubnetInput{
		VpcId: &vpc, CidrBlock: &block, AvailabilityZone: sdk.String(region + zone), TagSpecifications: tagged.ec2(ec2types.ResourceTypeSubnet),
	})
	env.Must(c.t, err)
	return *made.Subnet.SubnetId
}

func (c *cloud) securityGroup(vpc, name string, tagged tags) string {
	c.t.Helper()
	made, err := c.ec2.CreateSecurityGroup(c.t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: &name, Description: &name, VpcId: &vpc, TagSpecifications: tagged.ec2(ec2types.ResourceTypeSecurityGroup),
	})
	env.Must(c.t, err)
	return *made.GroupId
}

// fileSystem makes one, regional unless a zone is given.
func (c *cloud) fileSystem(tagged tags, zone string) string {
	c.t.Helper()
	input := &efs.CreateFileSystemInput{CreationToken: sdk.String(fmt.Sprint(time.Now().UnixNano())), Tags: tagged.efs(), Encrypted: sdk.Bool(true)}
	if zone != "" {
		input.AvailabilityZoneName = &zone
	}
	made, err := c.efs.CreateFileSystem(c.t.Context(), input)
	env.Must(c.t, err)
	return *made.FileSystemId
}

func (c *cloud) accessPoint(fileSystem string, tagged tags) string {
	c.t.Helper()
	made, err := c.efs.CreateAccessPoint(c.t.Context(), &efs.CreateAccessPointInput{
		ClientToken: sdk.String(fmt.Sprint(time.Now().UnixNano())), FileSystemId: &fileSystem, Tags: tagged.efs(),
	})
	env.Must(c.t, err)
	return *made.AccessPointId
}

func (c *cloud) target(fileSystem, subnet string, groups ...string) string {
	c.t.Helper()
	made, err := c.efs.CreateMountTarget(c.t.Context(), &efs.CreateMountTargetInput{
		FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: groups,
	})
	env.Must(c.t, err)
	return *made.MountTargetId
}

// retag changes the tags of an object of EFS; an empty value takes the tag away.
func (c *cloud) retag(id, key, value string) {
	c.t.Helper()
	// moto takes an ID for a tag, and an ARN to take one away.
	if value != "" {
		_, err := c.efs.TagResource(c.t.Context(), &efs.TagResourceInput{ResourceId: &id, Tags: tags{key: value}.efs()})
		env.Must(c.t, err)
		return
	}
	_, err := c.efs.UntagResource(c.t.Context(), &efs.UntagResourceInput{ResourceId: &id, TagKeys: []string{key}})
	env.Must(c.t, err)
}

// all lists what there is, as IDs; of security groups, no default ones.
func (c *cloud) all() []string {
	c.t.Helper()
	found := []string{}
	systems := efs.NewDescribeFileSystemsPaginator(c.efs, &efs.DescribeFileSystemsInput{})
	for systems.HasMorePages() {
		page, err := systems.NextPage(context.WithoutCancel(c.t.Context()))
		env.Must(c.t, err)
		for _, system := range page.FileSystems {
			found = append(found, *system.FileSystemId)
			targets, err := c.efs.DescribeMountTargets(c.t.Context(), &efs.DescribeMountTargetsInput{FileSystemId: system.FileSystemId})
			env.Must(c.t, err)
			for _, target := range targets.MountTargets {
				found = append(found, *target.MountTargetId)
			}
		}
	}
	points, err := c.efs.DescribeAccessPoints(c.t.Context(), &efs.DescribeAccessPointsInput{})
	env.Must(c.t, err)
	for _, point := range points.AccessPoints {
		found = append(found, *point.AccessPointId)
	}
	groups, err := c.ec2.DescribeSecurityGroups(c.t.Context(), &ec2.DescribeSecurityGroupsInput{})
	env.Must(c.t, err)
	for _, group := range groups.SecurityGroups {
		if *group.GroupName != "default" {
			found = append(found, *group.GroupId)
		}
	}
	slices.Sort(found)
	return found
}

// wantLeft fails unless exactly these objects are left.
func (c *cloud) wantLeft(ids ...string) {
	c.t.Helper()
	slices.Sort(ids)
	if diff := cmp.Diff(append([]string{}, ids...), c.all()); diff != "" {
		c.t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// options are those of a cleanup that neither pauses nor has to hurry.
func options(more ...func(*efscleanup.Options)) efscleanup.Options {
	o := efscleanup.Options{
		InfraID: infra, Account: account, Region: region, Yes: true, Wait: true, Poll: time.Millisecond, Patience: time.Minute,
		MaxBackoff: time.Millisecond, RequestsPerMinute: 1e8, RequestTimeout: 10 * time.Second,
	}
	for _, change := range more {
		change(&o)
	}
	return o
}

// cleanup runs a cleanup that must not fail as a whole.
func (c *cloud) cleanup(more ...func(*efscleanup.Options)) efscleanup.Report {
	c.t.Helper()
	report, err := efscleanup.Run(c.t.Context(), options(more...))
	env.Must(c.t, err)
	return report
}

func want(t *testing.T, report efscleanup.Report, outcome efscleanup.Outcome) {
	t.Helper()
	if report.Outcome() != outcome {
		t.Errorf("the outcome is %d, want %d: %+v", report.Outcome(), outcome, report.Objects)
	}
}

// reason is why an object is in its state.
func reason(report efscleanup.Report, id string) string {
	for _, object := range report.Objects {
		if object.ID == id {
			return string(object.State) + ": " + object.Reason
		}
	}
	return "not in the report"
}

func dryRun(o *efscleanup.Options) { o.Yes, o.Wait = false, false }

func once(o *efscleanup.Options) { o.Wait = false }

func withOwnerTag(o *efscleanup.Options) { o.OwnerTag = true }
