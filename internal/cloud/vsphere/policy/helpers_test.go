package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

const (
	infra = "ci-7x2kq"
	vc1   = "vc1.example.com"
	vc2   = "vc2.example.com"
)

func ref(kind, value string) vsphere.Ref { return vsphere.Ref{Type: kind, Value: value} }

func datastore(value, name string) vsphere.Datastore {
	return vsphere.Datastore{Ref: ref("Datastore", value), Path: "/dc1/datastore/" + name, Name: name, Datacenter: "/dc1"}
}

// domain returns a failure domain on a datastore of dc1.
func domain(name, server, datastore string) configv1.VSpherePlatformFailureDomainSpec {
	return configv1.VSpherePlatformFailureDomainSpec{
		Name: name, Server: server,
		Topology: configv1.VSpherePlatformTopology{Datacenter: "dc1", Datastore: datastore},
	}
}

func wanting(domains ...configv1.VSpherePlatformFailureDomainSpec) vsphere.Want {
	return vsphere.Want{InfrastructureID: infra, FailureDomains: domains}
}

// vcenter returns a vCenter that answers and has two datastores.
func vcenter(server string, change ...func(*vsphere.VCenter)) vsphere.VCenter {
	one := vsphere.VCenter{
		Server: server, User: "ocp@example.com", Answered: time.Unix(1000, 0),
		Datacenters: []vsphere.Datacenter{{Ref: ref("Datacenter", "datacenter-1"), Path: "/dc1", Name: "dc1"}},
		Datastores:  []vsphere.Datastore{datastore("datastore-1", "ds1"), datastore("datastore-2", "ds2")},
	}
	for _, do := range change {
		do(&one)
	}
	return one
}

func snapshot(all ...vsphere.VCenter) vsphere.Snapshot {
	return vsphere.Snapshot{Taken: time.Unix(1000, 0), VCenters: all}
}

// complete returns a vCenter with all objects of the cluster, with the tag on some objects.
func complete(objects ...vsphere.Ref) func(*vsphere.VCenter) {
	return func(one *vsphere.VCenter) {
		category, tag, policy := categoryOf(infra), tagOf(infra, "c1"), policyOf(infra)
		category.ID, tag.ID, policy.ID = "c1", "t1", "p1"
		one.Categories, one.Tags = append(one.Categories, category), append(one.Tags, tag)
		one.Policies = append(one.Policies, policy)
		for _, object := range objects {
			one.Attachments = append(one.Attachments, vsphere.Attachment{TagID: "t1", Object: object})
		}
	}
}

// standIn is what one vCenter has, as strict as a real one: names are unique, what is used can't be deleted, tags are on existing objects only.
// Linked ones share tagging.
type standIn struct {
	base     vsphere.VCenter
	tagging  *tagging
	attached []vsphere.Attachment
	policies []vsphere.Policy
	uses     map[string]int
	next     *int
	// fault is called before each write and returns its error; with done, the write succeeds nevertheless.
	fault  func(what string, object vsphere.Ref) (err error, done bool)
	writes int
	reads  int
}

type tagging struct {
	categories []vsphere.Category
	tags       []vsphere.Tag
}

func newStandIn(base vsphere.VCenter, shared *tagging) *standIn {
	if shared == nil {
		shared = &tagging{categories: base.Categories, tags: base.Tags}
	}
	return &standIn{
		base: base, tagging: shared, attached: slices.Clone(base.Attachments), policies: slices.Clone(base.Policies),
		uses: map[string]int{}, next: new(int),
	}
}

// poll returns the result of a poll.
func (v *standIn) poll() vsphere.VCenter {
	one := v.base
	one.Categories, one.Tags = slices.Clone(v.tagging.categories), slices.Clone(v.tagging.tags)
	one.Attachments, one.Policies = slices.Clone(v.attached), slices.Clone(v.policies)
	return one
}

func (v *standIn) fail(what string, reason vsphere.Reason, why string) error {
	return &vsphere.Error{Server: v.base.Server, What: what, Reason: reason, Why: why}
}

// write makes one change, or injects a fault.
func (v *standIn) write(ctx context.Context, what string, object vsphere.Ref, do func() error) error {
	if err := ctx.Err(); err != nil {
		return v.fail(what, vsphere.NoConnection, "the operator ends")
	}
	v.writes++
	if v.fault == nil {
		return do()
	}
	err, done := v.fault(what, object)
	if done || err == nil {
		if failed := do(); err == nil {
			return failed
		}
	}
	return err
}

func (v *standIn) id(kind string) string {
	*v.next++
	return fmt.Sprintf("%s-%s-%d", v.base.Server, kind, *v.next)
}

func (v *standIn) CreateCategory(ctx context.Context, one vsphere.Category) (string, error) {
	one.ID = v.id("category")
	return one.ID, v.write(ctx, "create tag category", vsphere.Ref{}, func() error {
		if slices.ContainsFunc(v.tagging.categories, func(have vsphere.Category) bool { return have.Name == one.Name }) {
			return v.fail("create tag category", vsphere.InvalidAnswer, "there is one of this name")
		}
		v.tagging.categories = append(v.tagging.categories, one)
		return nil
	})
}

func (v *standIn) CreateTag(ctx context.Context, one vsphere.Tag) (string, error) {
	one.ID = v.id("tag")
	return one.ID, v.write(ctx, "create tag", vsphere.Ref{}, func() error {
		if !slices.ContainsFunc(v.tagging.categories, func(have vsphere.Category) bool { return have.ID == one.CategoryID }) {
			return v.fail("create tag", vsphere.InvalidAnswer, "there is no such category")
		}
		if slices.ContainsFunc(v.tagging.tags, func(have vsphere.Tag) bool { return have.Name == one.Name && have.CategoryID == one.CategoryID }) {
			return v.fail("create tag", vsphere.InvalidAnswer, "there is one of this name")
		}
		v.tagging.tags = append(v.tagging.tags, one)
		return nil
	})
}

// DeleteCategory deletes its tags and attachments, too.
func (v *standIn) DeleteCategory(ctx context.Context, id string) error {
	return v.write(ctx, "delete tag category", vsphere.Ref{}, func() error {
		before := len(v.tagging.categories)
		v.tagging.categories = without(v.tagging.categories, func(have vsphere.Category) bool { return have.ID == id })
		if len(v.tagging.categories) == before {
			return v.fail("delete tag category", vsphere.InvalidAnswer, "there is no such category")
		}
		v.tagging.tags = without(v.tagging.tags, func(have vsphere.Tag) bool { return have.CategoryID == id })
		v.forget()
		return nil
	})
}

func (v *standIn) DeleteTag(ctx context.Context, id string) error {
	return v.write(ctx, "delete tag", vsphere.Ref{}, func() error {
		before := len(v.tagging.tags)
		v.tagging.tags = without(v.tagging.tags, func(have vsphere.Tag) bool { return have.ID == id })
		if len(v.tagging.tags) == before {
			return v.fail("delete tag", vsphere.InvalidAnswer, "there is no such tag")
		}
		v.forget()
		return nil
	})
}

// forget drops attachments of deleted tags.
func (v *standIn) forget() {
	v.attached = without(v.attached, func(one vsphere.Attachment) bool {
		return !slices.ContainsFunc(v.tagging.tags, func(tag vsphere.Tag) bool { return tag.ID == one.TagID })
	})
}

func (v *standIn) Attach(ctx context.Context, tagID string, objects []vsphere.Ref) error {
	return v.write(ctx, "attach tag", objects[0], func() error {
		at := slices.IndexFunc(v.tagging.tags, func(tag vsphere.Tag) bool { return tag.ID == tagID })
		known := slices.ContainsFunc(v.base.Datastores, func(one vsphere.Datastore) bool { return one.Ref == objects[0] })
		if at < 0 || !known || len(objects) != 1 {
			return v.fail("attach tag", vsphere.InvalidAnswer, "there is no such tag or object")
		}
		v.attached = without(v.attached, func(one vsphere.Attachment) bool { return one.TagID == tagID && one.Object == objects[0] })
		v.attached = append(v.attached, vsphere.Attachment{TagID: tagID, Object: objects[0]})
		return nil
	})
}

func (v *standIn) Detach(ctx context.Context, tagID string, objects []vsphere.Ref) error {
	return v.write(ctx, "detach tag", objects[0], func() error {
		before := len(v.attached)
		v.attached = without(v.attached, func(one vsphere.Attachment) bool { return one.TagID == tagID && one.Object == objects[0] })
		if len(v.attached) == before {
			return v.fail("detach tag", vsphere.InvalidAnswer, "the object does not have it")
		}
		return nil
	})
}

func (v *standIn) Attached(_ context.Context, tagID string) (objects []vsphere.Ref, err error) {
	v.reads++
	if v.fault != nil {
		if err, _ := v.fault("ask what has", vsphere.Ref{}); err != nil {
			return nil, err
		}
	}
	for _, one := range v.attached {
		if one.TagID == tagID {
			objects = append(objects, one.Object)
		}
	}
	return objects, nil
}

func (v *standIn) CreatePolicy(ctx context.Context, one vsphere.Policy) (string, error) {
	one.ID = v.id("policy")
	return one.ID, v.write(ctx, "create storage policy", vsphere.Ref{}, func() error {
		if slices.ContainsFunc(v.policies, func(have vsphere.Policy) bool { return have.Name == one.Name }) {
			return v.fail("create storage policy", vsphere.InvalidAnswer, "there is one of this name")
		}
		for _, rule := range one.Tags {
			if !slices.ContainsFunc(v.tagging.categories, func(have vsphere.Category) bool { return have.Name == rule.Category }) {
				return v.fail("create storage policy", vsphere.InvalidAnswer, "there is no such category")
			}
		}
		v.policies = append(v.policies, one)
		return nil
	})
}

func (v *standIn) DeletePolicy(ctx context.Context, id string) error {
	return v.write(ctx, "delete storage policy", vsphere.Ref{}, func() error {
		before := len(v.policies)
		if v.uses[id] > 0 {
			return v.fail("delete storage policy", vsphere.InvalidAnswer, "it is in use")
		}
		v.policies = without(v.policies, func(have vsphere.Policy) bool { return have.ID == id })
		if len(v.policies) == before {
			return v.fail("delete storage policy", vsphere.InvalidAnswer, "there is no such policy")
		}
		return nil
	})
}

func (v *standIn) InUse(_ context.Context, policyID string) (int, error) {
	v.reads++
	if v.fault != nil {
		if err, _ := v.fault("ask who uses", vsphere.Ref{}); err != nil {
			return 0, err
		}
	}
	return v.uses[policyID], nil
}

// bench is a Keeper with its vCenters.
type bench struct {
	*Keeper
	want  vsphere.Want
	all   []*standIn
	deeds []Event
	now   time.Time
}

func newBench(want vsphere.Want, all ...*standIn) *bench {
	b := &bench{want: want, all: all, now: time.Unix(5000, 0)}
	b.restart()
	return b
}

// restart replaces the Keeper by a new one without state.
func (b *bench) restart() {
	b.Keeper = &Keeper{Record: func(d Event) { b.deeds = append(b.deeds, d) }, Now: func() time.Time { return b.now }}
}

// sync polls, and calls Sync.
func (b *bench) sync(ctx context.Context) (again bool) {
	seen, writers := snapshot(), map[string]vsphere.Writer{}
	for _, one := range b.all {
		polled := one.poll()
		seen.VCenters = append(seen.VCenters, polled)
		if polled.Err == nil {
			writers[one.base.Server] = one
		}
	}
	return b.Sync(ctx, seen, b.want, writers)
}

func (b *bench) writes() (total int) {
	for _, one := range b.all {
		total += one.writes
	}
	return total
}

// settle polls until nothing changes.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	for range 30 {
		if !b.sync(t.Context()) {
			return
		}
	}
	t.Fatalf("no rest after 30 polls: %+v", b.State())
}
