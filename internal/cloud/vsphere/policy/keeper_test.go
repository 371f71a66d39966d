package policy

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// installed returns a Keeper whose only vCenter has everything. Writes count from now.
func installed(t *testing.T, change ...func(*vsphere.VCenter)) (*bench, *standIn) {
	t.Helper()
	one := newStandIn(vcenter(vc1, append([]func(*vsphere.VCenter){complete(ds1)}, change...)...), nil)
	return newBench(onDS1, one), one
}

// faulty makes writes of one verb fail.
func faulty(one *standIn, what string, reason vsphere.Reason, done bool) {
	one.fault = func(tried string, _ vsphere.Ref) (error, bool) {
		if tried == what {
			return one.fail(what, reason, "no answer within 30s."), done
		}
		return nil, true
	}
}

func TestEveryDeedIsAnEvent(t *testing.T) {
	b := newBench(onBoth, newStandIn(vcenter(vc1), nil))
	b.settle(t)
	b.want = onDS1
	b.settle(t)
	b.SetRemoved(true)
	b.settle(t)
	if diff := cmp.Diff([]Event{
		{"TagCategoryCreated", "Created the tag category openshift-ci-7x2kq in vCenter vc1.example.com"},
		{"TagCreated", "Created the tag ci-7x2kq of the category openshift-ci-7x2kq in vCenter vc1.example.com"},
		{"DatastoreTagged", `Attached the tag ci-7x2kq to the datastore "/dc1/datastore/ds1" of vCenter vc1.example.com: ` +
			`the storage policy openshift-storage-policy-ci-7x2kq places volumes on this datastore`},
		{"DatastoreTagged", `Attached the tag ci-7x2kq to the datastore "/dc1/datastore/ds2" of vCenter vc1.example.com: ` +
			`the storage policy openshift-storage-policy-ci-7x2kq places volumes on this datastore`},
		{"StoragePolicyCreated", "Created the storage policy openshift-storage-policy-ci-7x2kq in vCenter vc1.example.com"},
		{"DatastoreUntagged", `Detached the tag ci-7x2kq from the datastore "/dc1/datastore/ds2" of vCenter vc1.example.com`},
		{"StoragePolicyRemoved", "Deleted the storage policy openshift-storage-policy-ci-7x2kq in vCenter vc1.example.com, because no object used the policy"},
		{"DatastoreUntagged", `Detached the tag ci-7x2kq from the datastore "/dc1/datastore/ds1" of vCenter vc1.example.com`},
		{"TagRemoved", "Deleted the tag ci-7x2kq of the category openshift-ci-7x2kq in vCenter vc1.example.com, because no object had the tag"},
		{"TagCategoryRemoved", "Deleted the tag category openshift-ci-7x2kq in vCenter vc1.example.com, because the category had no other tags"},
	}, b.deeds); diff != "" {
		t.Error(diff)
	}
}

func TestThePolicyIsMadeAsThePredecessorMakesIt(t *testing.T) {
	one := newStandIn(vcenter(vc1), nil)
	b := newBench(onDS1, one)
	if !b.sync(t.Context()) {
		t.Error("the vCenter is not asked again after a change")
	}
	made := one.poll()
	if diff := cmp.Diff(vsphere.VCenter{
		Categories: []vsphere.Category{{
			ID: made.Categories[0].ID, Name: categoryName, Description: "Added by openshift-install do not remove", Cardinality: "SINGLE",
			Types: []string{"Datastore", "Folder", "ResourcePool", "StoragePod", "VirtualMachine"},
		}},
		Tags: []vsphere.Tag{{
			ID: made.Tags[0].ID, Name: tagName, Description: "Added by openshift-install do not remove", CategoryID: made.Categories[0].ID,
		}},
		Attachments: []vsphere.Attachment{{TagID: made.Tags[0].ID, Object: ds1}},
		Policies: []vsphere.Policy{{
			ID: made.Policies[0].ID, Name: policyName, Tags: []vsphere.PolicyTags{{Category: categoryName, Names: []string{tagName}}},
		}},
	}, vsphere.VCenter{Categories: made.Categories, Tags: made.Tags, Attachments: made.Attachments, Policies: made.Policies}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(State{Ready: true, Name: policyName}, b.State()); diff != "" {
		t.Error(diff)
	}
}

func TestAPolicyOfThePredecessorIsAdoptedWithoutAWrite(t *testing.T) {
	b, one := installed(t, attach(vm))
	if b.sync(t.Context()) || one.writes != 0 || len(b.deeds) != 0 || !b.State().Ready {
		t.Errorf("%d writes, %+v, %+v", one.writes, b.deeds, b.State())
	}
}

// Problems of the policy don't appear as reasons of an unfinished removal.
func TestARemovalBeginsWithoutThePreviousTrouble(t *testing.T) {
	one := newStandIn(vcenter(vc1), nil)
	b := newBench(onDS1, one)
	faulty(one, "create storage policy", vsphere.NotAuthorized, false)
	if b.settle(t); b.State().Message == "" {
		t.Fatal("no trouble")
	}
	b.SetRemoved(true)
	if state := b.State(); state.Reason != "" || state.Message != "" || state.Removed {
		t.Errorf("%+v", state)
	}
}

func TestADatastoreThatRefusesTheTagKeepsNoOtherFromIt(t *testing.T) {
	one := newStandIn(vcenter(vc1), nil)
	b := newBench(onBoth, one)
	one.fault = func(_ string, object vsphere.Ref) (error, bool) {
		if object == ds1 {
			return one.fail("attach tag", vsphere.NotAuthorized, "no"), false
		}
		return nil, true
	}
	b.settle(t)
	polled := one.poll()
	if len(polled.Attachments) != 1 || polled.Attachments[0].Object != ds2 || len(polled.Policies) != 1 {
		t.Errorf("%+v, %+v", polled.Attachments, polled.Policies)
	}
	if state := b.State(); state.Ready || state.Reason != "NotAuthorized" {
		t.Errorf("%+v", state)
	}
}

func TestALostAnswerIsDecidedByTheNextPoll(t *testing.T) {
	for _, done := range []bool{true, false} {
		one := newStandIn(vcenter(vc1), nil)
		b := newBench(onDS1, one)
		faulty(one, "create storage policy", vsphere.Timeout, done)
		if !b.sync(t.Context()) {
			t.Error("the vCenter is not asked again")
		}
		want := State{
			Name: policyName, Reason: "Timeout", Since: b.now, Message: `vCenter vc1.example.com: create storage policy ` +
				`"openshift-storage-policy-ci-7x2kq" failed, and is retried after the next poll: no answer within 30s`,
		}
		if diff := cmp.Diff(want, b.State()); diff != "" {
			t.Error(diff)
		}
		one.fault = nil
		writes := one.writes
		b.settle(t)
		if more := one.writes - writes; more != map[bool]int{true: 0, false: 1}[done] || !b.State().Ready {
			t.Errorf("done %t: %d more writes, %+v", done, more, b.State())
		}
	}
}

func TestAnswersThatAreAlwaysLostAreTriedAtThePaceOfTheSchedule(t *testing.T) {
	one := newStandIn(vcenter(vc1), nil)
	b := newBench(onDS1, one)
	faulty(one, "create tag category", vsphere.Timeout, false)
	first := b.sync(t.Context())
	since := b.now
	b.now = b.now.Add(time.Hour)
	second := b.sync(t.Context())
	if !first || second {
		t.Errorf("asked again: %t, then %t", first, second)
	}
	if b.State().Since != since {
		t.Errorf("the same failure began anew at %s", b.State().Since)
	}
	faulty(one, "create tag category", vsphere.Overloaded, false)
	if b.sync(t.Context()) {
		t.Error("an overloaded vCenter is asked again soon")
	}
}

func TestATagThatWasAttachedSinceThePollStays(t *testing.T) {
	b, one := installed(t)
	one.policies = nil
	b.SetRemoved(true)
	one.fault = func(what string, _ vsphere.Ref) (error, bool) {
		if what == "detach tag" {
			one.attached = append(one.attached, vsphere.Attachment{TagID: "t1", Object: vm})
		}
		return nil, true
	}
	b.sync(t.Context())
	want := "1 objects of vCenter vc1.example.com got the tag ci-7x2kq after the last poll: the next poll shows them"
	if state := b.State(); state.Removed || state.Waits != want || len(one.tagging.tags) != 1 {
		t.Errorf("%+v", state)
	}
	one.fault = nil
	b.settle(t)
	if state := b.State(); !state.Removed || len(one.tagging.tags) != 1 {
		t.Errorf("a VM's tag: %+v, %+v", state, one.tagging.tags)
	}
}

func TestACategoryIsDeletedAfterAPollThatShowsItWithoutTags(t *testing.T) {
	b, one := installed(t)
	b.SetRemoved(true)
	one.fault = func(what string, _ vsphere.Ref) (error, bool) {
		if what == "delete tag" {
			one.tagging.tags = append(one.tagging.tags, vsphere.Tag{ID: "t9", Name: "new", CategoryID: "c1"})
		}
		return nil, true
	}
	b.settle(t)
	if len(one.tagging.tags) != 1 || len(one.tagging.categories) != 1 || !b.State().Removed {
		t.Errorf("%+v, %+v, %+v", one.tagging.tags, one.tagging.categories, b.State())
	}
}

func TestTheStateIsThatOfWhatIsAsked(t *testing.T) {
	b, _ := installed(t)
	b.SetRemoved(true)
	b.settle(t)
	if !b.State().Removed {
		t.Fatalf("%+v", b.State())
	}
	if !b.SetRemoved(false) || b.SetRemoved(false) || b.State().Removed {
		t.Errorf("after a change of mind: %+v", b.State())
	}
	// A problem of the policy says nothing about its removal.
	b.state.Reason, b.state.Message, b.state.Ready = "Timeout", "no answer", true
	if b.SetRemoved(true); b.State() != (State{Name: policyName}) {
		t.Errorf("after another change of mind: %+v", b.State())
	}
	b.SetRemoved(false)
	// The removal is requested during the creation of the policy.
	b.Record = func(d Event) {
		if d.Reason == "TagCreated" {
			b.SetRemoved(true)
		}
	}
	if !b.sync(t.Context()) {
		t.Error("the vCenter is not asked again")
	}
	if got := b.all[0].poll(); len(got.Attachments) != 0 || len(got.Policies) != 0 {
		t.Errorf("it went on: %+v", got)
	}
	b.settle(t)
	if got := b.all[0].poll(); !b.State().Removed || len(got.Categories) != 0 {
		t.Errorf("%+v, %+v", b.State(), got.Categories)
	}
}

func TestAStateThatIsAskedForNoMoreIsNotKept(t *testing.T) {
	b, _ := installed(t)
	b.SetRemoved(true)
	b.Record = func(d Event) {
		if d.Reason == "TagCategoryRemoved" {
			b.SetRemoved(false)
		}
	}
	b.settle(t)
	if state := b.State(); state.Removed || !state.Ready || len(b.all[0].policies) != 1 {
		t.Errorf("%+v", state)
	}
	b.Record = func(Event) {}
	b.SetRemoved(true)
	again := b.sync(t.Context())
	b.Record = func(Event) { b.SetRemoved(false) }
	if !again || !b.sync(t.Context()) || b.State().Removed {
		t.Errorf("again %t, %+v", again, b.State())
	}
}

func TestAnEndingOperatorChangesNothing(t *testing.T) {
	b := newBench(onDS1, newStandIn(vcenter(vc1), nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b.sync(ctx) || b.writes() != 0 || b.State() != (State{}) {
		t.Errorf("%d writes, %+v", b.writes(), b.State())
	}
}

func TestAPollThatEndsInBetweenIsRepeatedSoon(t *testing.T) {
	b := newBench(onDS1, newStandIn(vcenter(vc1), nil))
	ctx, cancel := context.WithCancel(t.Context())
	b.Record = func(Event) { cancel() }
	if !b.sync(ctx) || b.writes() != 1 || b.State() != (State{}) {
		t.Errorf("%d writes, %+v", b.writes(), b.State())
	}
}

func TestWhoNeedsTheStateIsWokenWhenItChanges(t *testing.T) {
	b := newBench(onDS1, newStandIn(vcenter(vc1), nil))
	woken := 0
	b.Wake = func() {
		if b.State().Ready {
			woken++
		}
	}
	b.settle(t)
	b.settle(t)
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}
