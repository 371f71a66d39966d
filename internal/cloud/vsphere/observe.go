package vsphere

import (
	"context"
	"errors"
	"time"
)

// observe reads everything from one vCenter. If the session has expired, observe logs in again once. The error is an *Error. After an error, observe
// returns no partial answer.
func (c *client) observe(ctx context.Context, want Want, now time.Time) (VCenter, error) {
	for fresh := false; ; fresh = true {
		if c.session == nil {
			if err := c.connect(ctx); err != nil {
				return VCenter{}, err
			}
			fresh = true
		}
		seen, err := c.read(ctx, want, now)
		if err == nil {
			return seen, nil
		}
		var failure *Error
		if !errors.As(err, &failure) || !failure.Expired {
			return VCenter{}, err
		}
		if fresh {
			// The reason is not LoginRefused, because the login succeeded. After LoginRefused, the poller would wait long before the next poll.
			const why = "the vCenter does not recognize the session of a login a moment ago: " + adviceWait
			return VCenter{}, c.fail(failure.What, &Error{Reason: InvalidAnswer, Why: why})
		}
		c.disconnect(ctx)
	}
}

// read sends all queries. For 200 hosts and 2,000 VMs, the vCenter returns two pages of the inventory, and two pages of VMs.
func (c *client) read(ctx context.Context, want Want, now time.Time) (seen VCenter, err error) {
	about := c.session.vim.ServiceContent.About
	seen = VCenter{
		Server: c.config.Server, Insecure: c.config.Insecure, Answered: now,
		Version: about.Version, Build: about.Build, APIVersion: about.ApiVersion, User: c.session.user, Login: c.login.User,
	}
	all, err := c.readAll(ctx)
	if err != nil {
		return seen, err
	}
	of := &survey{inventory: newInventory(all), config: c.config, domains: want.of(c.config.Server), want: want}
	if of.machines, err = c.readEach(ctx, "read the VMs of the nodes", of.nodes(), machineProps()...); err != nil {
		return seen, err
	}
	seen.VMs = of.vms()
	seen.Datacenters, seen.Clusters = of.datacenters(), of.clusters(seen.VMs)
	seen.Hosts, seen.Datastores = of.hosts(seen.VMs, seen.Clusters), of.datastores()
	seen.Folders, seen.Pools = of.folders(), of.pools(seen.VMs)
	groups, err := c.readEach(ctx, "read the groups of hosts", of.grouped(), propGroups)
	if err != nil {
		return seen, err
	}
	addGroups(seen.Clusters, groups)
	if seen.Privileges, err = c.readPrivileges(ctx, seen); err != nil {
		return seen, err
	}
	if seen.CanReadTasks, err = c.canReadTasks(ctx); err != nil {
		return seen, err
	}
	names := []string{RegionCategory, ZoneCategory, OwnCategory(want.InfrastructureID)}
	if err := c.readTags(ctx, names, now, &seen); err != nil {
		return seen, err
	}
	seen.Policies, err = c.readPolicies(ctx)
	return seen, err
}
