package vsphere

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func TestNamesOfServersAreTheSameInUpperCase(t *testing.T) {
	want := Want{FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{Server: "VC1.example.com"}, {Server: "vc2.example.com"}}}
	if found := want.of("vc1.Example.com"); len(found) != 1 || found[0].Server != "VC1.example.com" {
		t.Errorf("%+v", found)
	}
	seen := Snapshot{VCenters: []VCenter{{Server: "vc2.example.com"}, {Server: "vc1.example.com"}}}
	if found, is := seen.Of("VC1.example.com"); !is || found.Server != "vc1.example.com" {
		t.Errorf("%+v", found)
	}
	config := cloudconfig.Config{
		VCenters:  []cloudconfig.VCenterConfig{{Server: "vc1.example.com", Datacenters: []string{"dc"}}},
		Workspace: cloudconfig.Workspace{Server: "VC1.example.com", Datastore: "ds"},
	}
	if found := (Want{}).WithDefault(config).FailureDomains; len(found) != 1 || found[0].Topology.Datacenter != "dc" {
		t.Errorf("%+v", found)
	}
}

func TestOnlyOnePlainSetOfRulesByTagIsReadAsSuch(t *testing.T) {
	yes, one := true, []PolicyTags{{Category: "c", Names: []string{"a", "b"}}}
	for name, tc := range map[string]struct {
		change func(*pbmtypes.PbmCapabilitySubProfileConstraints)
		tags   []PolicyTags
		other  bool
	}{
		"plain": {change: func(*pbmtypes.PbmCapabilitySubProfileConstraints) {}, tags: one},
		"two sets": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			c.SubProfiles = append(c.SubProfiles, c.SubProfiles[0])
		}, other: true},
		"no set":  {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) { c.SubProfiles = nil }, other: true},
		"no rule": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) { c.SubProfiles[0].Capability = nil }, other: true},
		"forced":  {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) { c.SubProfiles[0].ForceProvision = &yes }, tags: one, other: true},
		"another too": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			more := pbmtypes.PbmCapabilityInstance{Id: pbmtypes.PbmCapabilityMetadataUniqueId{Namespace: "VSAN", Id: "replicaPreference"}}
			c.SubProfiles[0].Capability = append(c.SubProfiles[0].Capability, more)
		}, tags: one, other: true},
		"negated": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			c.SubProfiles[0].Capability[0].Constraint[0].PropertyInstance[0].Operator = "NOT"
		}, other: true},
		"another property": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			c.SubProfiles[0].Capability[0].Constraint[0].PropertyInstance[0].Id = "x"
		}, other: true},
		"no set of values": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			c.SubProfiles[0].Capability[0].Constraint[0].PropertyInstance[0].Value = "a"
		}, other: true},
		"values of another type": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			c.SubProfiles[0].Capability[0].Constraint[0].PropertyInstance[0].Value = pbmtypes.PbmCapabilityDiscreteSet{Values: []types.AnyType{int32(1)}}
		}, other: true},
		"alternatives": {change: func(c *pbmtypes.PbmCapabilitySubProfileConstraints) {
			rule := &c.SubProfiles[0].Capability[0]
			rule.Constraint = append(rule.Constraint, rule.Constraint[0])
		}, other: true},
	} {
		constraints := rulesOf(one)
		tc.change(constraints)
		tags, other := readRules(constraints)
		if diff := cmp.Diff(tc.tags, tags); other != tc.other || diff != "" {
			t.Errorf("%s: other is %t: %s", name, other, diff)
		}
	}
	if _, other := readRules(&pbmtypes.PbmCapabilityConstraints{}); !other {
		t.Error("constraints of another type are no rules by tag")
	}
}

// chain builds an inventory in which each name is a child of the previous one.
func chain(pairs ...string) []object {
	var all []object
	var parent any
	for i := 0; i+1 < len(pairs); i += 2 {
		one := object{ref: Ref{Type: pairs[i], Value: pairs[i+1]}, props: map[string]any{propName: pairs[i+1]}}
		if parent != nil {
			one.props[propParent] = parent
		}
		parent = one.ref
		all = append(all, one)
	}
	return all
}

func TestAPoolOfAVAppIsTheOneAroundIt(t *testing.T) {
	all := chain(kindDatacenter, "dc", kindFolder, "host", kindCluster, "c", kindPool, "Resources", kindApp, "app", kindApp, "inner")
	s := &survey{inventory: newInventory(all)}
	if got := s.pool(Ref{Type: kindApp, Value: "inner"}); got.Value != "Resources" || s.path(got) != "/dc/host/c/Resources" {
		t.Errorf("%v at %s", got, s.path(got))
	}
}

func TestAnInventoryWithoutAnEndEnds(t *testing.T) {
	all := chain(kindFolder, "a", kindFolder, "b", kindApp, "app")
	all[0].props[propParent] = all[1].ref
	all[2].props[propParent] = all[2].ref
	s := &survey{inventory: newInventory(all)}
	if len(s.path(all[1].ref)) > 1000 || s.pool(all[2].ref) != all[2].ref || s.datacenter(all[1].ref) != (Ref{}) {
		t.Error(s.path(all[1].ref))
	}
}

func TestOfTwoVMsWithOneUUIDItIsAlwaysTheSame(t *testing.T) {
	one := object{ref: Ref{Type: kindMachine, Value: "vm-1"}, props: map[string]any{propUUID: "ABC"}}
	two := object{ref: Ref{Type: kindMachine, Value: "vm-2"}, props: map[string]any{propUUID: "abc"}}
	none := object{ref: Ref{Type: kindMachine, Value: "vm-3"}}
	for _, all := range [][]object{{one, two, none}, {none, two, one}} {
		if got := newInventory(all).machines; len(got) != 1 || got["abc"] != one.ref {
			t.Errorf("%v", got)
		}
	}
}

func TestANameThatSeveralHaveNamesNone(t *testing.T) {
	all := slices.Concat(chain(kindDatacenter, "dc", kindFolder, "datastore", kindDatastore, "ds"), chain(kindFolder, "top"))
	twin := object{ref: Ref{Type: kindDatastore, Value: "other"}, props: map[string]any{propName: "twin", propParent: Ref{Type: kindFolder, Value: "pod"}}}
	pod := object{ref: Ref{Type: kindFolder, Value: "pod"}, props: map[string]any{propName: "pod", propParent: all[1].ref}}
	again := object{ref: Ref{Type: kindDatastore, Value: "again"}, props: map[string]any{propName: "twin", propParent: Ref{Type: kindFolder, Value: "pod2"}}}
	pod2 := object{ref: Ref{Type: kindFolder, Value: "pod2"}, props: map[string]any{propName: "pod2", propParent: all[1].ref}}
	tree := newInventory(append(all, twin, pod))
	if got := tree.find("twin", "/dc/datastore", kindDatastore); got != twin.ref {
		t.Errorf("%v", got)
	}
	if got := tree.find("twin", "/dc2/datastore", kindDatastore); got != (Ref{}) {
		t.Errorf("of another datacenter: %v", got)
	}
	tree = newInventory(append(all, twin, pod, again, pod2))
	if got := tree.find("twin", "/dc/datastore", kindDatastore); got != (Ref{}) {
		t.Errorf("one of two: %v", got)
	}
	if got := tree.find("pod2/twin", "/dc/datastore", kindDatastore); got != again.ref {
		t.Errorf("by its path: %v", got)
	}
}

func TestOfTheCauseOnlyTheEndOfAContextCanBeReached(t *testing.T) {
	secret := errors.New("s3cret-p4ss")
	slow := &http.Response{StatusCode: http.StatusBadRequest, Body: io.NopCloser(iotest.ErrReader(context.DeadlineExceeded))}
	if err := failed("vc", "ask", readREST(slow, restCall{})); err.Reason != Timeout {
		t.Errorf("a refusal that does not arrive in time: %+v", err)
	}
	late := failed("vc", "ask", fmt.Errorf("x: %w", context.DeadlineExceeded))
	other := failed("vc", "ask", secret)
	if !errors.Is(late, context.DeadlineExceeded) || late.Reason != Timeout || errors.Is(other, secret) || errors.Is(other, context.Canceled) {
		t.Errorf("%v, %v", late, other)
	}
	if ReasonOf(secret) != InvalidAnswer || ReasonOf(fmt.Errorf("x: %w", late)) != Timeout {
		t.Error("the reasons are others")
	}
}

func TestTheSameIsSaidWhenOnlyTimeAndFreeSpaceDiffer(t *testing.T) {
	at := time.Unix(1000, 0)
	one := func() Snapshot {
		return Snapshot{Taken: at, VCenters: []VCenter{{
			Server: "vc", Answered: at, Datastores: []Datastore{{Capacity: 1000, Free: 510}},
			Err: &Error{Server: "vc", What: "ask", Reason: Timeout, Why: "late", Ended: context.DeadlineExceeded}, FailingSince: at,
		}}}
	}
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		same   bool
	}{
		"nothing":    {func(*Snapshot) {}, true},
		"the time":   {func(s *Snapshot) { s.Taken, s.VCenters[0].Answered = at.Add(1), at.Add(1) }, true},
		"free space": {func(s *Snapshot) { s.VCenters[0].Datastores[0].Free = 540 }, true},
		"the cause": {func(s *Snapshot) {
			s.VCenters[0].Err = &Error{Server: "vc", What: "ask", Reason: Timeout, Why: "late", Ended: context.Canceled}
		}, true},
		"much space": {func(s *Snapshot) { s.VCenters[0].Datastores[0].Free = 100 }, false},
		"never":      {func(s *Snapshot) { s.VCenters[0].Answered = time.Time{} }, false},
		"the reason": {func(s *Snapshot) {
			s.VCenters[0].Err = &Error{Server: "vc", What: "ask", Reason: NoConnection, Why: "late"}
		}, false},
		"no error":    {func(s *Snapshot) { s.VCenters[0].Err = nil }, false},
		"the version": {func(s *Snapshot) { s.VCenters[0].Version = "8.0.3" }, false},
		"a vCenter":   {func(s *Snapshot) { s.VCenters = append(s.VCenters, VCenter{Server: "another"}) }, false},
	} {
		other := one()
		tc.change(&other)
		if same(one(), other) != tc.same {
			t.Errorf("%s: want %t", name, tc.same)
		}
	}
	// The comparison does not change its arguments.
	if got := one(); got.VCenters[0].Datastores[0].Free != 510 {
		t.Error("free space is lost")
	}
}
