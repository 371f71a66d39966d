package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
)

// parseVCenter reads HOSTS/VMS; nil if it is 0.
func parseVCenter(text string) (*report.VCenterSize, error) {
	if text == "0" {
		return nil, nil
	}
	hosts, vms, _ := strings.Cut(text, "/")
	size := &report.VCenterSize{}
	for _, one := range []struct {
		text string
		to   *int
	}{{hosts, &size.Hosts}, {vms, &size.VMs}} {
		number, err := strconv.Atoi(one.text)
		if err != nil || number < 1 {
			return nil, fmt.Errorf("-vcenter %q: give HOSTS/VMS, such as 200/2000, or 0", text)
		}
		*one.to = number
	}
	return size, nil
}

// askVCenter measures what it costs to ask a vCenter of a size in which every VM is a node of the cluster. Who asks is in this process.
func askVCenter(ctx context.Context, size report.VCenterSize) (*report.VCenterCost, error) {
	vCenter, err := fakevsphere.Start(fakevsphere.Options{Datacenters: fakevsphere.Large(size.Hosts, size.VMs)})
	if err != nil {
		return nil, fmt.Errorf("vCenter to measure with: %w", err)
	}
	defer vCenter.Close()
	now := time.Now()
	poller, err := pollerOf(vCenter, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	cost := &report.VCenterCost{VCenterSize: size}
	poll := func() (requests int, duration time.Duration, err error) {
		vCenter.Reset()
		begun := time.Now()
		poller.Tick(ctx)
		duration = time.Since(begun)
		for _, one := range poller.Snapshot().VCenters {
			if one.Err != nil {
				return 0, 0, fmt.Errorf("ask a vCenter: %w", one.Err)
			}
			if len(one.Hosts) != size.Hosts || len(one.VMs) != size.VMs {
				return 0, 0, fmt.Errorf("ask a vCenter of %d hosts and %d VMs: %d and %d were found", size.Hosts, size.VMs, len(one.Hosts), len(one.VMs))
			}
		}
		return len(vCenter.Requests()), duration, nil
	}
	if cost.FirstRequests, _, err = poll(); err != nil {
		return nil, err
	}
	now = now.Add(2 * vsphere.Interval)
	var took time.Duration
	if cost.Requests, took, err = poll(); err != nil {
		return nil, err
	}
	cost.Seconds = took.Seconds()
	now = now.Add(vsphere.Interval / 2)
	if cost.IdleRequests, _, err = poll(); err != nil {
		return nil, err
	}
	with := heap()
	runtime.KeepAlive(poller)
	poller = nil
	cost.KeptKibibytes = int(max(0, with-heap()) / 1024)
	return cost, nil
}

// heap is what is in use, in bytes.
func heap() int64 {
	// What the first one frees may have finalizers.
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

// pollerOf asks a vCenter as the operator of the driver does.
func pollerOf(vCenter *fakevsphere.VCenter, now func() time.Time) (*vsphere.Poller, error) {
	config, err := cloudconfig.Parse([]byte(fakevsphere.INI(false, vCenter)))
	if err != nil {
		return nil, err
	}
	logins, err := cloudconfig.Logins(config, fakevsphere.SecretData(vCenter))
	if err != nil {
		return nil, err
	}
	want := vsphere.Want{InfrastructureID: "bench", FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{
		Name: "domain", Region: "region", Zone: "zone", Server: vCenter.Server, Topology: configv1.VSpherePlatformTopology{
			Datacenter: "dc1", ComputeCluster: "/dc1/host/cluster1", Datastore: "/dc1/datastore/ds1", Folder: "/dc1/vm/infra-x1",
			ResourcePool: "/dc1/host/cluster1/Resources",
		},
	}}}
	for _, id := range vCenter.ProviderIDs() {
		want.UUIDs = append(want.UUIDs, strings.TrimPrefix(id, "vsphere://"))
	}
	slices.Sort(want.UUIDs)
	poller := &vsphere.Poller{
		Now: now, Wake: func() {}, Want: func(context.Context) (vsphere.Want, error) { return want, nil },
		Source: func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
			return config, logins, fakevsphere.Roots(vCenter), nil
		},
	}
	poller.SetInputs("bench")
	return poller, nil
}
