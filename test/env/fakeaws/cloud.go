package fakeaws

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/env"
)

// Where the stand-in for AWS keeps what tests make.
const (
	Region  = "us-east-1"
	Account = "123456789012"
)

// tries is how often a request is sent whose answer gets lost on the way.
const tries = 5

// Cloud is an empty AWS for one test. Programs use the proxy; the clients bypass it. Cloud creates each resource once, even if an answer is
// lost.
type Cloud struct {
	*Proxy
	// T is the test that fails if something can't be made.
	T   *testing.T
	EFS *efs.Client
	EC2 *ec2.Client
	// HTTP carries the requests of the clients. A test may disturb it.
	HTTP *http.Client
}

// NewCloud empties moto and puts a proxy in front of it.
func NewCloud(t *testing.T, moto string) *Cloud {
	t.Helper()
	c := &Cloud{Proxy: NewProxy(t, moto), T: t, HTTP: oneByOne()}
	again := retry.IsErrorRetryableFunc(func(err error) sdk.Ternary {
		if lost(err) {
			return sdk.TrueTernary
		}
		return sdk.UnknownTernary
	})
	settings := sdk.Config{
		Region: Region, BaseEndpoint: &moto, HTTPClient: c.HTTP,
		Credentials: Key(),
		Retryer: func() sdk.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff, o.RateLimiter = tries, 10*time.Millisecond, ratelimit.None
				o.Retryables = append([]retry.IsErrorRetryable{retry.NoRetryCanceledError{}, again}, o.Retryables...)
			})
		},
	}
	c.EFS, c.EC2 = efs.NewFromConfig(settings), ec2.NewFromConfig(settings)
	return c
}

// Key is what tests sign with.
func Key() sdk.CredentialsProvider {
	return sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		return sdk.Credentials{AccessKeyID: "testing", SecretAccessKey: "testing"}, nil
	})
}

// In returns the same Cloud for a subtest, so that failures are the subtest's.
func (c *Cloud) In(t *testing.T) *Cloud {
	same := *c
	same.T = t
	return &same
}

// lost is true for an error that is no answer of AWS. Of these, the SDK repeats nothing if an answer has no end.
func lost(err error) bool {
	var answer interface{ ErrorCode() string }
	return err != nil && !errors.As(err, &answer)
}

// once makes an object. If the answer gets lost, it looks for what was made, and tries again if nothing was. What AWS refuses is
// a mistake of the test.
func (c *Cloud) once(create, find func(context.Context) (string, error)) string {
	c.T.Helper()
	var problem error
	for range tries {
		id, err := create(c.T.Context())
		if lost(err) {
			problem = err
			id, err = find(c.T.Context())
		}
		env.Must(c.T, err)
		if id != "" {
			return id
		}
	}
	c.T.Fatal(problem)
	return ""
}

// Tags are those of an object in AWS.
type Tags map[string]string

// OwnedBy are the tags of what a cluster owns, and more of them, keys and values by turns.
func OwnedBy(infraID string, more ...string) Tags {
	all := Tags{"kubernetes.io/cluster/" + infraID: "owned"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func (t Tags) efs() []efstypes.Tag {
	var list []efstypes.Tag
	for _, key := range slices.Sorted(maps.Keys(t)) {
		list = append(list, efstypes.Tag{Key: sdk.String(key), Value: sdk.String(t[key])})
	}
	return list
}

func (t Tags) ec2(kind ec2types.ResourceType) []ec2types.TagSpecification {
	if len(t) == 0 {
		return nil
	}
	specification := ec2types.TagSpecification{ResourceType: kind}
	for _, tag := range t.efs() {
		specification.Tags = append(specification.Tags, ec2types.Tag{Key: tag.Key, Value: tag.Value})
	}
	return []ec2types.TagSpecification{specification}
}

// filters are those of EC2, names and values by turns.
func filters(pairs ...string) []ec2types.Filter {
	var list []ec2types.Filter
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, ec2types.Filter{Name: &pairs[i], Values: pairs[i+1 : i+2]})
	}
	return list
}

// onceEC2 and onceEFS send a request once.
func onceEC2(o *ec2.Options) { o.Retryer = sdk.NopRetryer{} }
func onceEFS(o *efs.Options) { o.Retryer = sdk.NopRetryer{} }

// VPC makes a network with a subnet in each of three zones.
func (c *Cloud) VPC(tags Tags) (vpc string, subnets []string) {
	c.T.Helper()
	// Nothing else identifies it.
	token, tagged := rand.Text(), maps.Clone(tags)
	if tagged == nil {
		tagged = Tags{}
	}
	tagged["token"] = token
	vpc = c.once(func(ctx context.Context) (string, error) {
		made, err := c.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{
			CidrBlock: sdk.String("10.0.0.0/16"), TagSpecifications: tagged.ec2(ec2types.ResourceTypeVpc),
		}, onceEC2)
		if err != nil {
			return "", err
		}
		return *made.Vpc.VpcId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: filters("tag:token", token)})
		if err != nil || len(found.Vpcs) == 0 {
			return "", err
		}
		return *found.Vpcs[0].VpcId, nil
	})
	for i, zone := range []string{"a", "b", "c"} {
		subnets = append(subnets, c.Subnet(vpc, zone, fmt.Sprintf("10.0.%d.0/24", i), tags))
	}
	return vpc, subnets
}

// Subnet makes one in a zone, such as a.
func (c *Cloud) Subnet(vpc, zone, block string, tags Tags) string {
	c.T.Helper()
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: &vpc, CidrBlock: &block, AvailabilityZone: sdk.String(Region + zone), TagSpecifications: tags.ec2(ec2types.ResourceTypeSubnet),
		}, onceEC2)
		if err != nil {
			return "", err
		}
		return *made.Subnet.SubnetId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filters("vpc-id", vpc, "cidr-block", block)})
		if err != nil || len(found.Subnets) == 0 {
			return "", err
		}
		return *found.Subnets[0].SubnetId, nil
	})
}

// SecurityGroup makes one without rules.
func (c *Cloud) SecurityGroup(vpc, name string, tags Tags) string {
	c.T.Helper()
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName: &name, Description: &name, VpcId: &vpc, TagSpecifications: tags.ec2(ec2types.ResourceTypeSecurityGroup),
		}, onceEC2)
		if err != nil {
			return "", err
		}
		return *made.GroupId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters("vpc-id", vpc, "group-name", name)})
		if err != nil || len(found.SecurityGroups) == 0 {
			return "", err
		}
		return *found.SecurityGroups[0].GroupId, nil
	})
}

// FileSystem makes one, regional unless a zone is given, such as us-east-1a.
func (c *Cloud) FileSystem(tags Tags, zone string) string {
	c.T.Helper()
	token := rand.Text()
	input := &efs.CreateFileSystemInput{CreationToken: &token, Tags: tags.efs(), Encrypted: sdk.Bool(true)}
	if zone != "" {
		input.AvailabilityZoneName = &zone
	}
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EFS.CreateFileSystem(ctx, input, onceEFS)
		if err != nil {
			return "", err
		}
		return *made.FileSystemId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{CreationToken: &token})
		if err != nil || len(found.FileSystems) == 0 {
			return "", err
		}
		return *found.FileSystems[0].FileSystemId, nil
	})
}

// AccessPoint makes one of a file system.
func (c *Cloud) AccessPoint(fileSystem string, tags Tags) string {
	c.T.Helper()
	token := rand.Text()
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EFS.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
			ClientToken: &token, FileSystemId: &fileSystem, Tags: tags.efs(),
		}, onceEFS)
		if err != nil {
			return "", err
		}
		return *made.AccessPointId, nil
	}, func(ctx context.Context) (string, error) {
		points, err := c.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{FileSystemId: &fileSystem})
		if err != nil {
			return "", err
		}
		for _, point := range points.AccessPoints {
			if *point.ClientToken == token {
				return *point.AccessPointId, nil
			}
		}
		return "", nil
	})
}

// MountTarget makes one of a file system in a subnet.
func (c *Cloud) MountTarget(fileSystem, subnet string, groups ...string) string {
	c.T.Helper()
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EFS.CreateMountTarget(ctx, &efs.CreateMountTargetInput{
			FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: groups,
		}, onceEFS)
		if err != nil {
			return "", err
		}
		return *made.MountTargetId, nil
	}, func(ctx context.Context) (string, error) {
		targets, err := c.EFS.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem})
		if err != nil {
			return "", err
		}
		for _, target := range targets.MountTargets {
			if *target.SubnetId == subnet {
				return *target.MountTargetId, nil
			}
		}
		return "", nil
	})
}

// Retag changes a tag of an object of EFS; an empty value removes the tag.
func (c *Cloud) Retag(id, key, value string) {
	c.T.Helper()
	if value != "" {
		_, err := c.EFS.TagResource(c.T.Context(), &efs.TagResourceInput{ResourceId: &id, Tags: Tags{key: value}.efs()})
		env.Must(c.T, err)
		return
	}
	_, err := c.EFS.UntagResource(c.T.Context(), &efs.UntagResourceInput{ResourceId: &id, TagKeys: []string{key}})
	env.Must(c.T, err)
}

// All lists what there is, as IDs; of networks, only security groups, and no default ones.
func (c *Cloud) All() []string {
	c.T.Helper()
	found := []string{}
	systems := efs.NewDescribeFileSystemsPaginator(c.EFS, &efs.DescribeFileSystemsInput{})
	for systems.HasMorePages() {
		page, err := systems.NextPage(c.T.Context())
		env.Must(c.T, err)
		for _, system := range page.FileSystems {
			found = append(found, *system.FileSystemId)
			targets, err := c.EFS.DescribeMountTargets(c.T.Context(), &efs.DescribeMountTargetsInput{FileSystemId: system.FileSystemId})
			env.Must(c.T, err)
			for _, target := range targets.MountTargets {
				found = append(found, *target.MountTargetId)
			}
		}
	}
	points, err := c.EFS.DescribeAccessPoints(c.T.Context(), &efs.DescribeAccessPointsInput{})
	env.Must(c.T, err)
	for _, point := range points.AccessPoints {
		found = append(found, *point.AccessPointId)
	}
	groups, err := c.EC2.DescribeSecurityGroups(c.T.Context(), &ec2.DescribeSecurityGroupsInput{})
	env.Must(c.T, err)
	for _, group := range groups.SecurityGroups {
		if *group.GroupName != "default" {
			found = append(found, *group.GroupId)
		}
	}
	slices.Sort(found)
	return found
}

// WantLeft fails unless exactly these objects are left.
func (c *Cloud) WantLeft(ids ...string) {
	c.T.Helper()
	want := slices.Sorted(slices.Values(ids))
	if diff := cmp.Diff(append([]string{}, want...), c.All()); diff != "" {
		c.T.Errorf("what is left (-want +got):\n%s", diff)
	}
}
