package efshealth

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	targetID, nodeGroup, otherGroup, targetGroup = "fsmt-1", "sg-node", "sg-other", "sg-target"
	prefixList                                   = "pl-1"
)

func node4() aws.NetworkInterface {
	return aws.NetworkInterface{Instance: "i-1", Subnet: "subnet-1", Groups: []string{nodeGroup}, Addresses: []string{"10.0.1.5", "fd00::5"}}
}

func TestRulesDecideWhichNodeReachesAMountTarget(t *testing.T) {
	tcp := func(change func(*aws.Rule)) aws.Rule {
		rule := aws.Rule{Protocol: "tcp", From: 2049, To: 2049}
		change(&rule)
		return rule
	}
	from := func(cidrs ...string) aws.Rule { return tcp(func(r *aws.Rule) { r.CIDRs = cidrs }) }
	ports := func(protocol string, first, last int32) aws.Rule {
		return aws.Rule{Protocol: protocol, From: first, To: last, CIDRs: []string{"10.0.0.0/16"}}
	}
	byGroup, byList := tcp(func(r *aws.Rule) { r.Groups = []string{otherGroup, nodeGroup} }), tcp(func(r *aws.Rule) { r.PrefixLists = []string{prefixList} })
	const v4, v6 = "10.0.1.9", "fd00::9"
	for name, tc := range map[string]struct {
		rules   []aws.Rule
		lists   map[string][]string
		address []string
		want    access
	}{
		"no rule":                             {nil, nil, []string{v4}, accessClosed},
		"the CIDR of the node":                {[]aws.Rule{from("10.0.1.0/24")}, nil, []string{v4}, accessOpen},
		"everybody":                           {[]aws.Rule{from("0.0.0.0/0")}, nil, []string{v4}, accessOpen},
		"one address":                         {[]aws.Rule{from("10.0.1.5/32")}, nil, []string{v4}, accessOpen},
		"the CIDR of another subnet":          {[]aws.Rule{from("10.0.2.0/24")}, nil, []string{v4}, accessClosed},
		"a CIDR that nobody can read":         {[]aws.Rule{from("10.0.1.0")}, nil, []string{v4}, accessClosed},
		"the second rule":                     {[]aws.Rule{from("10.0.2.0/24"), from("10.0.1.0/24")}, nil, []string{v4}, accessOpen},
		"all protocols":                       {[]aws.Rule{ports("-1", 0, 0)}, nil, []string{v4}, accessOpen},
		"TCP by its number":                   {[]aws.Rule{ports("6", 0, 65535)}, nil, []string{v4}, accessOpen},
		"UDP":                                 {[]aws.Rule{ports("udp", 2049, 2049)}, nil, []string{v4}, accessClosed},
		"ports that end with NFS":             {[]aws.Rule{ports("tcp", 111, 2049)}, nil, []string{v4}, accessOpen},
		"ports that begin with NFS":           {[]aws.Rule{ports("tcp", 2049, 3000)}, nil, []string{v4}, accessOpen},
		"ports below NFS":                     {[]aws.Rule{ports("tcp", 0, 2048)}, nil, []string{v4}, accessClosed},
		"ports above NFS":                     {[]aws.Rule{ports("tcp", 2050, 65535)}, nil, []string{v4}, accessClosed},
		"a group of the node":                 {[]aws.Rule{byGroup}, nil, []string{v4}, accessOpen},
		"another group":                       {[]aws.Rule{tcp(func(r *aws.Rule) { r.Groups = []string{otherGroup} })}, nil, []string{v4}, accessClosed},
		"a group of the node, for SSH":        {[]aws.Rule{{Protocol: "tcp", From: 22, To: 22, Groups: []string{nodeGroup}}}, nil, []string{v4}, accessClosed},
		"a prefix list":                       {[]aws.Rule{byList}, map[string][]string{prefixList: {"10.9.0.0/16", "10.0.0.0/16"}}, []string{v4}, accessOpen},
		"a prefix list of others":             {[]aws.Rule{byList}, map[string][]string{prefixList: {"10.9.0.0/16"}}, []string{v4}, accessClosed},
		"a prefix list that AWS lacks":        {[]aws.Rule{byList}, nil, []string{v4}, accessUnknown},
		"the same beside a rule that lets":    {[]aws.Rule{byList, from("10.0.0.0/8")}, nil, []string{v4}, accessOpen},
		"IPv6 to an IPv4 mount target":        {[]aws.Rule{from("::/0")}, nil, []string{v4, ""}, accessClosed},
		"IPv6 to a dual-stack mount target":   {[]aws.Rule{from("fd00::/64")}, nil, []string{v4, v6}, accessOpen},
		"another IPv6 block":                  {[]aws.Rule{from("fd01::/64")}, nil, []string{v4, v6}, accessClosed},
		"IPv4 to an IPv6 mount target":        {[]aws.Rule{from("0.0.0.0/0")}, nil, []string{"", v6}, accessClosed},
		"IPv4 to a mount target of both":      {[]aws.Rule{from("0.0.0.0/0")}, nil, []string{v4, v6}, accessOpen},
		"a prefix list with IPv6, to both":    {[]aws.Rule{byList}, map[string][]string{prefixList: {"fd00::/16"}}, []string{v4, v6}, accessOpen},
		"a prefix list with IPv6, to IPv4":    {[]aws.Rule{byList}, map[string][]string{prefixList: {"fd00::/16"}}, []string{v4}, accessClosed},
		"a list that AWS lacks, only for UDP": {[]aws.Rule{{Protocol: "udp", PrefixLists: []string{prefixList}}}, nil, []string{v4}, accessClosed},
	} {
		t.Run(name, func(t *testing.T) {
			network := &network{groups: map[string]aws.SecurityGroup{targetGroup: {ID: targetGroup, Rules: tc.rules}}, lists: tc.lists}
			to := target{id: targetID, addresses: tc.address, groups: []string{targetGroup}}
			if got := network.access(to, node4()); got != tc.want {
				t.Errorf("access %d, want %d", got, tc.want)
			}
			// A security group that AWS does not return may let the node in.
			to.groups = append(to.groups, "sg-hidden")
			if got := network.access(to, node4()); (got == accessOpen) != (tc.want == accessOpen) || got == accessClosed {
				t.Errorf("access %d with a hidden group, want open or unknown", got)
			}
		})
	}
}

// closedNetwork has nodes of two groups and subnets, and a mount target in their zone.
func closedNetwork() (uses, *snapshot) {
	used, seen := healthy()
	used.nodes = []nodePlace{
		{name: "a", zone: "us-east-1a", instance: "i-1"}, {name: "b", zone: "us-east-1a", instance: "i-2"}, {name: "c", zone: "us-east-1a", instance: "i-3"},
		{name: "elsewhere", zone: "us-east-1b", instance: "i-4"}, {name: "unknown", zone: "us-east-1a", instance: "i-5"},
	}
	one, two, three, four := node4(), node4(), node4(), node4()
	two.Instance, three.Instance, three.Subnet, three.Groups, four.Instance = "i-2", "i-3", "subnet-2", []string{otherGroup}, "i-4"
	seen.network = &network{
		targets:    []target{{id: targetID, fileSystem: regional, zone: "us-east-1a", addresses: []string{"10.0.1.9"}, groups: []string{targetGroup, "sg-z"}}},
		groups:     map[string]aws.SecurityGroup{targetGroup: {ID: targetGroup}, "sg-z": {ID: "sg-z"}},
		interfaces: map[string]aws.NetworkInterface{"i-1": one, "i-2": two, "i-3": three, "i-4": four},
	}
	return used, seen
}

func TestAClosedMountTargetIsNamedWithTheRuleToAdd(t *testing.T) {
	let := func(seen *snapshot, rule aws.Rule) {
		seen.network.groups["sg-z"] = aws.SecurityGroup{ID: "sg-z", Rules: []aws.Rule{rule}}
	}
	const begin, end = "mount target fsmt-1 of file system fs-11111111 in us-east-1a refuses TCP port 2049 from nodes in ",
		": pods there can't mount the file system; add an inbound rule for TCP port 2049 from "
	for name, tc := range map[string]struct {
		change func(*uses, *snapshot)
		want   string
	}{
		"two groups of nodes": {
			func(*uses, *snapshot) {},
			begin + "subnet-1, subnet-2: a, b, c" + end + "security group sg-node and security group sg-other to security group sg-target",
		},
		"one subnet": {
			func(_ *uses, seen *snapshot) { let(seen, aws.Rule{Protocol: "-1", Groups: []string{nodeGroup}}) },
			begin + "subnet-2: c" + end + "security group sg-other to security group sg-target",
		},
		"a group that all nodes have": {
			func(_ *uses, seen *snapshot) {
				for id, one := range seen.network.interfaces {
					one.Groups = append([]string{"sg-all"}, one.Groups...)
					seen.network.interfaces[id] = one
				}
			},
			begin + "subnet-1, subnet-2: a, b, c" + end + "security group sg-all to security group sg-target",
		},
		"all are let in":           {func(_ *uses, seen *snapshot) { let(seen, aws.Rule{Protocol: "-1", CIDRs: []string{"10.0.0.0/8"}}) }, ""},
		"no node in the zone":      {func(used *uses, _ *snapshot) { used.nodes = used.nodes[3:4] }, ""},
		"the network is not known": {func(_ *uses, seen *snapshot) { seen.network = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			used, seen := closedNetwork()
			tc.change(&used, seen)
			got := ""
			for _, one := range evaluate(used, seen, circumstances{region: "us-east-1", limit: 1000}) {
				if one.problem != mountTargetClosed || one.fileSystem != regional || one.object != targetID {
					t.Errorf("%+v", one)
				}
				got += one.message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The network costs a request for all nodes, one for each mount target of a zone with nodes, one for all security groups, and one for each prefix list.
func TestTheNetworkIsReadWithFewRequests(t *testing.T) {
	read := func() *scripted {
		cloud := account()
		cloud.targets = map[string][]aws.MountTarget{regional: {
			{ID: "fsmt-1", FileSystem: regional, Zone: "us-east-1a", State: aws.StateAvailable, Address: "10.0.1.9", IPv6: "fd00::9"},
			{ID: "fsmt-2", FileSystem: regional, Zone: "us-east-1b", State: aws.StateAvailable},
			{ID: "fsmt-3", FileSystem: regional, Zone: "us-east-1a", State: aws.StateCreating},
		}}
		cloud.groups, cloud.nodes = map[string][]string{"fsmt-1": {"sg-2", "sg-1"}}, []aws.NetworkInterface{node4()}
		cloud.rules = map[string][]aws.Rule{"sg-1": {
			{Protocol: "tcp", From: 2049, To: 2049, PrefixLists: []string{"pl-1", "pl-2"}}, {Protocol: "udp", PrefixLists: []string{"pl-3"}},
		}}
		cloud.lists = map[string][]string{"pl-1": {"10.0.0.0/8"}, "pl-2": nil}
		return cloud
	}
	used := inUse()
	// Because of a new volume, the poller would ask again soon in any case.
	used.volumes = used.volumes[:1]
	used.nodes = []nodePlace{
		{name: "a", zone: "us-east-1a", instance: "i-1"}, {name: "b", zone: "us-east-1c", instance: "i-2"}, {name: "c", zone: "us-east-1a"},
	}
	ask := func(cloud *scripted, denied denials) *snapshot {
		seen, err := subject{cloud: cloud, used: used}.ask(t.Context(), at, denied)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	const unread = "list;targets fs-11111111;points fs-11111111;targets fs-22222222;points fs-22222222"
	requests := []string{"interfaces i-1", "groups of fsmt-1", "rules sg-1 sg-2", "prefixes pl-1", "prefixes pl-2"}
	cloud := read()
	seen := ask(cloud, denials{})
	if diff := cmp.Diff(requests, cloud.asked[5:]); diff != "" {
		t.Errorf("requests after %s (-want +got):\n%s", unread, diff)
	}
	want := &network{
		targets: []target{{
			id: "fsmt-1", fileSystem: regional, zone: "us-east-1a", addresses: []string{"10.0.1.9", "fd00::9"}, groups: []string{"sg-1", "sg-2"},
		}},
		groups:     map[string]aws.SecurityGroup{"sg-1": {ID: "sg-1", Rules: cloud.rules["sg-1"]}},
		interfaces: map[string]aws.NetworkInterface{"i-1": node4()}, lists: map[string][]string{"pl-1": {"10.0.0.0/8"}, "pl-2": nil},
	}
	if diff := cmp.Diff(want, seen.network, cmp.AllowUnexported(network{}, target{})); diff != "" {
		t.Errorf("network (-want +got):\n%s", diff)
	}
	// Whatever fails, the rest of the poll counts, and the next request is not sent.
	for i, request := range requests {
		cloud, denied := read(), denials{}
		cloud.fails = map[string]error{request: &aws.Error{Action: networkActions()[0], Err: answer("UnauthorizedOperation")}}
		seen := ask(cloud, denied)
		if seen.network != nil || !seen.complete || seen.networkFailed || seen.fingerprint == "" || denied[networkActions()[0]] == "" || len(cloud.asked) != 6+i {
			t.Errorf("%s is refused: %+v, denied %v, after %v", request, seen, denied, cloud.asked)
		}
		cloud.asked, cloud.fails = nil, map[string]error{request: errors.New("connection refused")}
		if seen := ask(cloud, denied); seen.network != nil || !seen.complete || !seen.networkFailed || seen.fingerprint != "" {
			t.Errorf("%s fails: %+v", request, seen)
		}
		cloud.asked, cloud.fails = nil, map[string]error{request: answer("MountTargetNotFound")}
		if seen := ask(cloud, denials{}); i != 0 && i != 2 && seen.network == nil {
			t.Errorf("%s is about an object that is gone: %+v", request, seen)
		}
	}
}

// Without the permissions, the network is unknown. The other findings stay, and AWS is not asked more often.
func TestAMissingPermissionForTheNetworkIsNamedOnce(t *testing.T) {
	used, seen := closedNetwork()
	seen.network = nil
	found := evaluate(used, seen, circumstances{limit: 1000, secret: "here/secret", denied: denials{networkActions()[3]: "no"}})
	want := []finding{{problem: optionalPermissionMissing, object: networkActions()[3], message: "the credentials of Secret here/secret lack permission " +
		"elasticfilesystem:DescribeMountTargetSecurityGroups, so it is unknown whether security groups let nodes reach the mount targets: add " +
		"ec2:DescribeNetworkInterfaces, ec2:DescribeSecurityGroups, ec2:GetManagedPrefixListEntries, " +
		"elasticfilesystem:DescribeMountTargetSecurityGroups to their IAM policy, which \"oc storage iam policy controller\" prints"}}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(finding{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if isMendedInAWS(found[0]) {
		t.Error("AWS is asked often because of a permission that an administrator may withhold")
	}
	r := &Reconciler{facts: facts{seen: seen}}
	if r.evaluated(mountTargetClosed) || !r.evaluated(mountTargetMissing) {
		t.Error("what is unknown is reported as no problem, or the other way round")
	}
}
