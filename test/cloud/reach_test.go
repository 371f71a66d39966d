package cloud

import (
	"context"
	"errors"
	"fmt"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/csi-operators/csi-operators/test/env"
)

// A mount target has one rule after the other, as AWS describes it, and the operator names the nodes that the rule does not let in. A unit test,
// TestRulesDecideWhichNodeReachesAMountTarget, has all rules.
func TestAMountTargetThatRefusesNodesIsNamedWithTheRuleToAdd(t *testing.T) {
	s := open(t, "closed")
	s.credentials()
	id := s.system("")
	subnet := s.shared.subnets["d"]
	nodes, others, group := s.SecurityGroup(s.shared.vpc, "nodes", nil), s.SecurityGroup(s.shared.vpc, "others", nil), s.SecurityGroup(s.shared.vpc, "efs", nil)
	target := s.MountTarget(id, subnet, group)
	env.Must(t, addNode(t.Context(), s.cluster, "closed-out", "us-east-1d", s.Instance(subnet, nodes)))
	t.Cleanup(func() { env.Must(t, removeNode(context.Background(), s.cluster, "closed-out")) })
	near, far := s.PrefixList("near", "192.0.2.0/24", "10.0.0.0/16"), s.PrefixList("far", "192.0.2.0/24")
	s.class("class", id)
	closed := fmt.Sprintf("mount target %s of file system %s in us-east-1d refuses TCP port 2049 from nodes in %s: closed-out: pods there can't mount the "+
		"file system; add an inbound rule for TCP port 2049 from security group %s to security group %s", target, id, subnet, nodes, group)
	polls := map[string]int{
		describeSystems: 1, describeTargets: 1, describePoints: 1, describeNodes: 1, describeGroups: 1, "ec2:DescribeSecurityGroups": 1,
	}
	for _, part := range []struct {
		name   string
		rule   ec2types.IpPermission
		isOpen bool
	}{
		{"another group, IPv6", tcp(ec2types.IpPermission{
			UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &others}}, Ipv6Ranges: []ec2types.Ipv6Range{{CidrIpv6: sdk.String("::/0")}},
		}), false},
		{"a prefix list of others", tcp(ec2types.IpPermission{PrefixListIds: []ec2types.PrefixListId{{PrefixListId: &far}}}), false},
		{"the group of the node", tcp(ec2types.IpPermission{UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &nodes}}}), true},
		{"a prefix list with the node", tcp(ec2types.IpPermission{PrefixListIds: []ec2types.PrefixListId{{PrefixListId: &near}}}), true},
	} {
		rule := []ec2types.IpPermission{part.rule}
		_, err := s.EC2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: rule})
		env.Must(t, err)
		s.Set(nil)
		s.start()
		s.until(part.name+": AWS has answered", s.polled)
		env.Quiet(t, s.shared.operator)
		if part.isOpen {
			s.until(part.name+": nothing is said", s.not("MountTargetClosed"), s.metric(problem("MountTargetClosed", id, target), 0))
		} else {
			s.until(part.name+": the rule is named", s.says("MountTargetClosed", closed), s.metric(problem("MountTargetClosed", id, target), 1))
		}
		want := polls
		if len(part.rule.PrefixListIds) > 0 {
			want = map[string]int{"ec2:GetManagedPrefixListEntries": 1}
			for action, count := range polls {
				want[action] = count
			}
		}
		// While the cluster starts, the client may change during a poll, which then repeats.
		polls := map[string]int{}
		for action, count := range want {
			polls[action] = count * s.Count(describeSystems)
		}
		s.sent(polls)
		_, err = s.EC2.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{GroupId: &group, IpPermissions: rule})
		env.Must(t, err)
	}
	s.Set(denied(describeGroups))
	s.start()
	s.until("the missing permission is named", s.says("OptionalPermissionMissing", describeGroups, "it is unknown whether security groups let nodes reach"),
		s.unknown("MountTargetClosed"))
	env.Quiet(t, s.shared.operator)
	s.sent(map[string]int{describeSystems: 1, describeTargets: 1, describePoints: 1, describeNodes: 1, describeGroups: 1})
}

// tcp is a rule for NFS.
func tcp(rule ec2types.IpPermission) ec2types.IpPermission {
	rule.IpProtocol, rule.FromPort, rule.ToPort = sdk.String("tcp"), sdk.Int32(2049), sdk.Int32(2049)
	return rule
}

// polled checks that AWS has answered a poll.
func (s *scene) polled() error {
	polls, err := s.shared.operator.Metric(s.t.Context(), "csi_operator_cloud_sweeps_total")
	if err == nil && polls == 0 {
		err = errors.New("AWS has not answered yet")
	}
	return err
}

// unknown checks that a condition is absent.
func (s *scene) unknown(problem string) func() error {
	return func() error {
		states, err := s.states()
		if state, found := states[problem]; err == nil && found {
			err = fmt.Errorf("condition %s is %s", problem, state)
		}
		return err
	}
}
