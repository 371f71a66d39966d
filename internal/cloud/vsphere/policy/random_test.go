package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// hostile are unusual datastore names.
var hostile = []string{"ds1", `quo"te'd`, "a%2fb", "Größe-資料", "new\nline", "openshift-ci-7x2kq", "$(id)", strings.Repeat("x", 80)}

// trial is a random cluster with its vCenters.
type trial struct {
	*bench
	t      *testing.T
	random *rand.Rand
	linked bool
	// before has the objects of other owners.
	before others
	// tried are the failed writes since the last poll.
	tried map[string]bool
}

// others returns the objects of other owners, and those with the cluster's tag.
type others struct {
	Categories []vsphere.Category
	Tags       []vsphere.Tag
	Attached   []string
	Policies   []vsphere.Policy
}

func (c *trial) others() (found others) {
	for _, one := range c.all {
		for _, have := range one.tagging.categories {
			if !ownsCategory(have, infra) {
				found.Categories = append(found.Categories, have)
			}
		}
		for _, have := range one.tagging.tags {
			if have.Name != tagName {
				found.Tags = append(found.Tags, have)
			}
		}
		for _, have := range one.attached {
			if have.Object.Type != "Datastore" || strings.HasPrefix(have.TagID, "other") {
				// After a removal, the cluster's tag has another ID.
				found.Attached = append(found.Attached, fmt.Sprint(one.base.Server, strings.HasPrefix(have.TagID, "other"), have.Object))
			}
		}
		for _, have := range one.policies {
			if !ownsPolicy(have, infra) {
				found.Policies = append(found.Policies, have)
			}
		}
	}
	return found
}

func (c *trial) oneIn(n int) bool { return c.random.IntN(n) == 0 }

// newTrial creates vCenters with objects of an installer, a predecessor and others.
func newTrial(t *testing.T, seed uint64) *trial {
	c := &trial{t: t, random: rand.New(rand.NewPCG(seed, 22))}
	var shared *tagging
	if c.linked = c.oneIn(3); c.linked {
		shared = &tagging{}
	}
	var all []*standIn
	for i := range 1 + c.random.IntN(3) {
		server := fmt.Sprintf("vc%d.example.com", i+1)
		base := vcenter(server)
		base.Datastores = nil
		for j, at := range c.random.Perm(len(hostile))[:2+c.random.IntN(3)] {
			base.Datastores = append(base.Datastores, datastore(fmt.Sprintf("datastore-%d", j+1), hostile[at]))
		}
		one := newStandIn(base, shared)
		c.populate(one)
		all = append(all, one)
	}
	c.bench = newBench(vsphere.Want{InfrastructureID: infra}, all...)
	c.before = c.others()
	c.domains()
	return c
}

// populate adds objects that existed before the operator.
func (c *trial) populate(one *standIn) {
	one.tagging.categories = append(one.tagging.categories, vsphere.Category{ID: "other-" + one.base.Server, Name: "gold-" + one.base.Server})
	one.tagging.tags = append(one.tagging.tags, vsphere.Tag{ID: "other-tag-" + one.base.Server, Name: "gold", CategoryID: "other-" + one.base.Server})
	one.attached = append(one.attached, vsphere.Attachment{TagID: "other-tag-" + one.base.Server, Object: one.base.Datastores[0].Ref})
	one.policies = append(one.policies, vsphere.Policy{ID: "other-policy", Name: "gold", Tags: []vsphere.PolicyTags{{Category: "gold", Names: []string{"gold"}}}})
	level := c.random.IntN(4)
	if level == 0 {
		return
	}
	ctx := context.Background()
	categoryID, tagID := c.installed(ctx, one)
	if c.oneIn(2) {
		one.attached = append(one.attached, vsphere.Attachment{TagID: tagID, Object: vm})
	}
	if c.oneIn(4) {
		one.tagging.tags = append(one.tagging.tags, vsphere.Tag{ID: "other-in-ours" + one.base.Server, Name: "other" + one.base.Server, CategoryID: categoryID})
	}
	if level > 1 {
		for _, have := range one.base.Datastores[:c.random.IntN(len(one.base.Datastores))] {
			one.attached = append(one.attached, vsphere.Attachment{TagID: tagID, Object: have.Ref})
		}
	}
	if level > 2 {
		if _, err := one.CreatePolicy(ctx, policyOf(infra)); err != nil {
			c.t.Fatal(err)
		}
	}
	one.writes = 0
}

// installed returns the installer's category and tag, which linked vCenters share.
func (c *trial) installed(ctx context.Context, one *standIn) (categoryID, tagID string) {
	s := &site{VCenter: one.poll(), id: infra}
	category, ok := s.category()
	if !ok {
		category.ID, _ = one.CreateCategory(ctx, categoryOf(infra))
		tagID, _ = one.CreateTag(ctx, tagOf(infra, category.ID))
		return category.ID, tagID
	}
	tag, _ := s.tag()
	return category.ID, tag.ID
}

// domains replaces the failure domains: one to three for each vCenter.
func (c *trial) domains() {
	var all []configv1.VSpherePlatformFailureDomainSpec
	for _, one := range c.all {
		for i := range 1 + c.random.IntN(3) {
			chosen := one.base.Datastores[c.random.IntN(len(one.base.Datastores))]
			all = append(all, domain(fmt.Sprintf("%s-%d", one.base.Server, i), one.base.Server, []string{chosen.Path, chosen.Name}[c.random.IntN(2)]))
		}
	}
	c.want = wanting(all...)
}

// disturb polls several times, while writes fail, responses are lost and the operator is killed.
func (c *trial) disturb(removed bool) {
	for range 4 {
		ctx, kill := context.WithCancel(context.Background())
		c.tried = map[string]bool{}
		for _, one := range c.all {
			one.fault = func(what string, object vsphere.Ref) (error, bool) {
				key := fmt.Sprint(one.base.Server, what, object)
				if c.tried[key] {
					c.t.Errorf("repeated without a poll: %s", key)
				}
				lost := c.random.IntN(2) == 0
				switch c.random.IntN(5) {
				case 0:
					kill()
				case 1:
				default:
					return nil, true
				}
				c.tried[key] = !strings.HasPrefix(what, "ask") // Questions may be repeated.
				reason := []vsphere.Reason{vsphere.Timeout, vsphere.NoConnection, vsphere.InvalidAnswer, vsphere.Overloaded}[c.random.IntN(4)]
				return one.fail(what, reason, "a random failure"), lost
			}
		}
		if c.oneIn(8) {
			c.all[0].base.Err = &vsphere.Error{Reason: vsphere.Timeout, Why: "no answer"}
		}
		c.sync(ctx)
		c.all[0].base.Err = nil
		if ctx.Err() != nil || c.oneIn(3) {
			c.restart()
			c.SetRemoved(removed)
		}
		kill()
	}
	for _, one := range c.all {
		one.fault = nil
	}
	c.settle(c.t)
}

// kept asserts that exactly one object of each kind exists, and that no step remains.
func (c *trial) kept() {
	c.t.Helper()
	for _, one := range c.all {
		s := &site{VCenter: one.poll(), id: infra}
		for _, domain := range c.want.FailureDomains {
			if domain.Server == one.base.Server {
				s.places = append(s.places, place{datacenter: "dc1", datastore: domain.Topology.Datastore})
			}
		}
		wanted, _ := s.wanted()
		tagged, _ := s.tagged()
		var refs []vsphere.Ref
		for _, have := range wanted {
			refs = append(refs, have.Ref)
		}
		if diff := cmp.Diff(refs, tagged, cmpopts.SortSlices(func(a, b vsphere.Ref) bool { return a.Value < b.Value })); diff != "" {
			c.t.Errorf("tagged datastores of %s: %s", one.base.Server, diff)
		}
		if len(s.policies()) != 1 || count(one.tagging.categories, func(have vsphere.Category) bool { return have.Name == categoryName }) != 1 ||
			count(one.tagging.tags, func(have vsphere.Tag) bool { return have.Name == tagName }) != 1 {
			c.t.Errorf("not one of each in %s: %+v", one.base.Server, one.poll())
		}
	}
	if state := c.State(); !state.Ready || state.Reason != "" || state.Message != "" {
		c.t.Errorf("not ready: %+v", state)
	}
	c.quiet()
}

func count[T any](all []T, is func(T) bool) int {
	return len(all) - len(without(all, is))
}

// quiet asserts that another poll writes nothing, and that objects of other owners stay.
func (c *trial) quiet() {
	c.t.Helper()
	writes, state := c.writes(), c.State()
	c.now = c.now.Add(time.Hour)
	if again := c.sync(c.t.Context()); again || c.writes() != writes {
		c.t.Errorf("%d writes with nothing to do, again %t", c.writes()-writes, again)
	}
	if diff := cmp.Diff(state, c.State()); diff != "" {
		c.t.Errorf("the state changed without a change: %s", diff)
	}
	if diff := cmp.Diff(c.before, c.others()); diff != "" {
		c.t.Errorf("what others have: %s", diff)
	}
}

// gone asserts that only objects that others need remain.
func (c *trial) gone() {
	c.t.Helper()
	if state := c.State(); !state.Removed || state.Waits != "" {
		c.t.Errorf("not removed: %+v", state)
	}
	needed := c.linked && slices.ContainsFunc(c.all, needs)
	for _, one := range c.all {
		s := &site{VCenter: one.poll(), id: infra}
		datastores, _ := s.tagged()
		_, tag := s.tag()
		_, category := s.category()
		another := slices.ContainsFunc(one.tagging.tags, func(have vsphere.Tag) bool { return strings.HasPrefix(have.ID, "other-in-ours") })
		keeps := needed || needs(one)
		if len(s.policies()) > 0 || len(datastores) > 0 || tag != keeps || category != (keeps || another) {
			c.t.Errorf("left in %s: tag %t and category %t, needed %t, another tag %t, datastores %v", one.base.Server, tag, category, keeps, another, datastores)
		}
	}
	c.quiet()
}

// needs reports whether a VM of a vCenter has the cluster's tag.
func needs(one *standIn) bool {
	return slices.ContainsFunc(one.attached, func(have vsphere.Attachment) bool { return have.Object == vm })
}

// clusters is how many random clusters there are: 400 by fixed seeds, or ten for each of FAULT_ROUNDS, which make soak sets.
func clusters(t *testing.T) uint64 {
	t.Helper()
	rounds := os.Getenv("FAULT_ROUNDS")
	if rounds == "" {
		return 400
	}
	number, err := strconv.ParseUint(rounds, 10, 32)
	if err != nil {
		t.Fatalf("FAULT_ROUNDS: %v", err)
	}
	return 10 * number
}

// TestKilledAtRandomMomentsTheEndIsTheSame creates, updates and deletes the policy of random clusters.
func TestKilledAtRandomMomentsTheEndIsTheSame(t *testing.T) {
	t.Parallel()
	for seed := range clusters(t) {
		c := newTrial(t, seed)
		c.disturb(false)
		c.kept()
		c.domains()
		c.disturb(false)
		c.kept()

		used := c.all[c.random.IntN(len(c.all))]
		own := (&site{VCenter: used.poll(), id: infra}).policies()[0]
		used.uses[own.ID] = 1
		c.SetRemoved(true)
		c.disturb(true)
		if state := c.State(); state.Removed || state.Waits == "" || len((&site{VCenter: used.poll(), id: infra}).policies()) != 1 {
			t.Errorf("a policy in use was removed: %+v", state)
		}
		used.uses[own.ID] = 0
		c.disturb(true)
		c.gone()

		c.SetRemoved(false)
		c.disturb(false)
		c.kept()
		if t.Failed() {
			t.Fatalf("seed %d, linked %t, %d vCenters", seed, c.linked, len(c.all))
		}
	}
}
