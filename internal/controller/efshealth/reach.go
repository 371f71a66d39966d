package efshealth

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// portNFS is the port of mount targets, also for encrypted mounts.
const portNFS = 2049

// network has the data that decides which nodes reach which mount targets.
type network struct {
	targets []target
	// groups has the security groups of the mount targets, by ID. It lacks security groups that AWS did not return.
	groups map[string]aws.SecurityGroup
	// interfaces has the primary network interfaces of nodes, by the ID of the instance.
	interfaces map[string]aws.NetworkInterface
	// lists has the CIDRs of prefix lists. It lacks prefix lists that AWS did not return.
	lists map[string][]string
}

// target is a mount target in use.
type target struct {
	id, fileSystem, zone string
	// addresses are the IPv4 address, the IPv6 address, or both.
	addresses []string
	groups    []string
}

// access says whether a node reaches a mount target.
type access int

const (
	// accessUnknown means that AWS did not return all data that decides the access.
	accessUnknown access = iota
	accessClosed
	accessOpen
)

// access evaluates the inbound rules of all security groups of a mount target. A mount target has at least one security group. The function evaluates
// neither outbound rules of nodes nor network ACLs.
func (n *network) access(to target, from aws.NetworkInterface) access {
	result := accessClosed
	for _, id := range to.groups {
		group, known := n.groups[id]
		if !known {
			result = accessUnknown
		}
		for _, rule := range group.Rules {
			switch n.accessBy(rule, to, from) {
			case accessOpen:
				return accessOpen
			case accessUnknown:
				result = accessUnknown
			case accessClosed:
			}
		}
	}
	return result
}

func (n *network) accessBy(rule aws.Rule, to target, from aws.NetworkInterface) access {
	isMember := slices.ContainsFunc(rule.Groups, func(group string) bool { return slices.Contains(from.Groups, group) })
	switch {
	case !isForNFS(rule):
		return accessClosed
	case isMember, isAmong(rule.CIDRs, to, from):
		return accessOpen
	}
	result := accessClosed
	for _, id := range rule.PrefixLists {
		cidrs, known := n.lists[id]
		switch {
		case !known:
			result = accessUnknown
		case isAmong(cidrs, to, from):
			return accessOpen
		}
	}
	return result
}

// isForNFS reports whether a rule is for TCP port 2049. AWS writes protocols as names or numbers, and all protocols as -1.
func isForNFS(rule aws.Rule) bool {
	switch rule.Protocol {
	case "-1":
		return true
	case "tcp", "6":
		return rule.From <= portNFS && portNFS <= rule.To
	default:
		return false
	}
}

// isAmong reports whether CIDRs contain an address with which a node can reach a mount target. The address counts only if the mount target has an
// address of the same family, IPv4 or IPv6.
func isAmong(cidrs []string, to target, from aws.NetworkInterface) bool {
	for _, text := range cidrs {
		block, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		for _, text := range from.Addresses {
			address, err := netip.ParseAddr(text)
			if err == nil && block.Contains(address) && to.has(address.Is4()) {
				return true
			}
		}
	}
	return false
}

// has reports whether the mount target has an address of this family: IPv4, or IPv6 if ipv4 is false.
func (t target) has(ipv4 bool) bool {
	return slices.ContainsFunc(t.addresses, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && address.Is4() == ipv4
	})
}

// prefixLists returns the prefix lists in rules for NFS.
func prefixLists(groups map[string]aws.SecurityGroup) []string {
	lists := map[string]bool{}
	for _, group := range groups {
		for _, rule := range group.Rules {
			for _, id := range rule.PrefixLists {
				lists[id] = lists[id] || isForNFS(rule)
			}
		}
	}
	maps.DeleteFunc(lists, func(_ string, isNeeded bool) bool { return !isNeeded })
	return slices.Sorted(maps.Keys(lists))
}

// evaluateReach finds the mount targets that nodes of their zone can't reach.
func evaluateReach(used uses, seen *snapshot) []finding {
	if seen.network == nil {
		return nil
	}
	var found []finding
	for _, one := range seen.network.targets {
		var names []string
		var closed []aws.NetworkInterface
		for _, node := range used.nodes {
			from, known := seen.network.interfaces[node.instance]
			if node.zone == one.zone && known && seen.network.access(one, from) == accessClosed {
				names, closed = append(names, node.name), append(closed, from)
			}
		}
		if len(closed) == 0 {
			continue
		}
		found = append(found, finding{
			problem: mountTargetClosed, fileSystem: one.fileSystem, object: one.id, message: fmt.Sprintf(
				"mount target %s of file system %s in %s refuses TCP port %d from nodes in %s: %s: pods there can't mount the file system; add an inbound "+
					"rule for TCP port %d from %s to security group %s", one.id, one.fileSystem, one.zone, portNFS, subnets(closed), status.Shorten(names),
				portNFS, strings.Join(sources(closed), " and "), one.groups[0]),
		})
	}
	return found
}

func subnets(of []aws.NetworkInterface) string {
	ids := map[string]bool{}
	for _, one := range of {
		ids[one.Subnet] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
}

// sources returns the sources for a rule that admits these network interfaces: a few security groups, so that each network interface is in at least
// one of them. It returns addresses only for network interfaces without a security group, because a rule for a security group also admits new nodes.
func sources(closed []aws.NetworkInterface) []string {
	var chosen []string
	for left := slices.Clone(closed); len(left) > 0; {
		counts := map[string]int{}
		for _, one := range left {
			for _, group := range one.Groups {
				counts[group]++
			}
		}
		if len(counts) == 0 {
			return append(chosen, "the addresses of these nodes")
		}
		best := slices.MinFunc(slices.Collect(maps.Keys(counts)), func(a, b string) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		chosen = append(chosen, "security group "+best)
		left = slices.DeleteFunc(left, func(one aws.NetworkInterface) bool { return slices.Contains(one.Groups, best) })
	}
	return chosen
}
