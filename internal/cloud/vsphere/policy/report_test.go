package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

func TestTheStateSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	onDS9 := wanting(domain("a", vc1, "ds1"), domain(`d"9`, vc1, `ds"9`))
	for name, test := range map[string]struct {
		change  func(*vsphere.VCenter)
		want    vsphere.Want
		reason  string
		message string
		ready   bool
	}{
		"no infrastructure ID": {
			want: vsphere.Want{}, reason: "NoInfrastructureName",
			message: "The Infrastructure cluster has no status.infrastructureName, which names the storage policy: check whether the installation has finished",
		},
		"no datastore": {
			want: wanting(domain("", vc1, "")), reason: "NoDatastore",
			message: "Neither the failure domains of the Infrastructure cluster nor the cloud configuration name a datastore: add a failure domain",
		},
		"no such vCenter": {
			want: wanting(domain("a", vc1, "ds1"), domain("b", vc2, "ds1")), reason: "VCenterNotConfigured",
			message: `The failure domain "b" is in vCenter vc2.example.com, which the cloud configuration lacks: add the vCenter there, or correct the failure domain`,
		},
		"a policy with another rule": {
			change: func(one *vsphere.VCenter) { one.Policies[0].Other = true }, want: onDS1, reason: "StoragePolicyNotOurs",
			message: "The storage policy openshift-storage-policy-ci-7x2kq of vCenter vc1.example.com has other rules than the tag ci-7x2kq of the category " +
				"openshift-ci-7x2kq, so the operator neither uses nor changes the policy: rename or delete the policy, or make this tag its only rule",
		},
		"a category of somebody else": {
			change: func(one *vsphere.VCenter) { one.Categories[0].Description, one.Categories[0].Types = "mine", nil }, want: onDS1,
			reason: "TagCategoryNotOurs",
			message: "The tag category openshift-ci-7x2kq of vCenter vc1.example.com is not the cluster's: neither its description nor its cardinality and " +
				`types match. Rename or delete it, or set its description to "Added by openshift-install do not remove"`,
		},
		"a category without datastores": {
			change: func(one *vsphere.VCenter) { one.Categories[0].Types = []string{"VirtualMachine"} }, want: onDS1,
			reason: "TagCategoryWithoutDatastores",
			message: "Tags of the category openshift-ci-7x2kq of vCenter vc1.example.com can't be attached to datastores: add Datastore to its " +
				"associable object types",
		},
		"a datastore that is missing": {
			want: onDS9, reason: "DatastoreNotFound",
			message: `The failure domain "d\"9" names the datastore "ds\"9" in the datacenter "dc1", which vCenter vc1.example.com does not show: ` +
				`correct the name, or grant the user "ocp@example.com" System.Read on the datastore`,
		},
		"a vCenter that never answered": {
			change: func(one *vsphere.VCenter) { one.Answered = time.Time{} }, want: onDS1, reason: "NoConnection",
			message: "The storage policy waits for an answer of vCenter vc1.example.com",
		},
		"a vCenter that fails from the beginning": {
			change: func(one *vsphere.VCenter) { one.Answered = time.Time{}; silent(one) }, want: onDS1, reason: "Timeout",
			message: "The storage policy waits for an answer of vCenter vc1.example.com: no answer within 30s",
		},
		"a vCenter that fails before all is done": {
			change: silent, want: onBoth, reason: "Timeout",
			message: "The storage policy waits for an answer of vCenter vc1.example.com: no answer within 30s",
		},
		"a vCenter that fails after all is done": {change: silent, want: onDS1, ready: true},
		"datastores that another policy places on": {
			change: func(one *vsphere.VCenter) { attach(ds2)(one); addPolicy("go\"ld", categoryName)(one) }, want: onDS1,
			reason: "DatastoreStillTagged", ready: true,
			message: `No failure domain names the datastores "/dc1/datastore/ds2" of vCenter vc1.example.com. They keep the tag ci-7x2kq, and get new volumes, ` +
				`as long as other storage policies use this tag ("go\"ld"). Detach the tag from datastores that should get no new volumes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*vsphere.VCenter) {}
			}
			b, one := installed(t, test.change)
			b.want = test.want
			b.sync(t.Context())
			want := State{Ready: test.ready, Name: policyName, Reason: test.reason, Message: test.message}
			if test.reason != "" {
				want.Since = b.now
			}
			if test.want.InfrastructureID == "" {
				want.Name = ""
			}
			if diff := cmp.Diff(want, b.State()); diff != "" {
				t.Error(diff)
			}
			if one.writes != 0 {
				t.Errorf("%d writes", one.writes)
			}
		})
	}
}

func TestTheDefaultDatastoreThatIsMissingIsNamed(t *testing.T) {
	b, _ := installed(t)
	b.want = wanting(domain("", vc1, "ds9"))
	b.sync(t.Context())
	if got, want := b.State().Message, `Section Workspace of the cloud configuration names the datastore "ds9" in the datacenter "dc1", `; !strings.HasPrefix(got, want) {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestADatastoreKeepsItsTagWhileThePolicyIsInUse(t *testing.T) {
	b, one := installed(t, attach(ds2))
	one.uses["p1"] = 2
	b.sync(t.Context())
	want := State{
		Ready: true, Name: policyName, Reason: "DatastoreStillTagged", Since: b.now,
		Message: `No failure domain names the datastores "/dc1/datastore/ds2" of vCenter vc1.example.com. They keep the tag ci-7x2kq, and get new volumes, ` +
			`as long as something uses the policy openshift-storage-policy-ci-7x2kq. Detach the tag from datastores that should get no new volumes`,
	}
	if diff := cmp.Diff(want, b.State()); diff != "" || one.writes != 0 {
		t.Errorf("%d writes, %s", one.writes, diff)
	}
	// An outage and a changed count are not new problems.
	one.uses["p1"], b.now = 7, b.now.Add(time.Minute)
	b.sync(t.Context())
	silent(&one.base)
	b.sync(t.Context())
	if diff := cmp.Diff(want, b.State()); diff != "" {
		t.Error(diff)
	}
	one.base.Err, one.uses["p1"] = nil, 0
	b.settle(t)
	if diff := cmp.Diff(State{Ready: true, Name: policyName}, b.State()); diff != "" || one.writes != 1 {
		t.Errorf("%d writes, %s", one.writes, diff)
	}
}

func TestALackingPrivilegeIsNamed(t *testing.T) {
	const who = `The user "ocp@example.com" of vCenter vc1.example.com may not `
	for what, want := range map[string]string{
		"create tag category": `create tag category "openshift-ci-7x2kq": grant it InventoryService.Tagging.CreateCategory on the vCenter`,
		"create tag":          `create tag "ci-7x2kq": grant it InventoryService.Tagging.CreateTag on the vCenter`,
		"attach tag": `attach tag "/dc1/datastore/ds1": grant it InventoryService.Tagging.AttachTag on the vCenter and ` +
			`InventoryService.Tagging.ObjectAttachable on the datastore`,
		"create storage policy": `create storage policy "openshift-storage-policy-ci-7x2kq": grant it StorageProfile.Update and StorageProfile.View on the vCenter`,
		"delete storage policy": `delete storage policy "openshift-storage-policy-ci-7x2kq": grant it StorageProfile.Update and StorageProfile.View on the vCenter`,
		"ask who uses":          `delete storage policy "openshift-storage-policy-ci-7x2kq": grant it StorageProfile.View and System.Read on the vCenter`,
		"detach tag": `detach tag "/dc1/datastore/ds1": grant it InventoryService.Tagging.AttachTag on the vCenter and ` +
			`InventoryService.Tagging.ObjectAttachable on the datastore`,
		"ask what has":        `delete tag "ci-7x2kq": grant it StorageProfile.View and System.Read on the vCenter`,
		"delete tag":          `delete tag "ci-7x2kq": grant it InventoryService.Tagging.DeleteTag on the vCenter`,
		"delete tag category": `delete tag category "openshift-ci-7x2kq": grant it InventoryService.Tagging.DeleteCategory on the vCenter`,
	} {
		t.Run(what, func(t *testing.T) {
			one := newStandIn(vcenter(vc1), nil)
			b := newBench(onDS1, one)
			if !strings.HasPrefix(what, "create") && what != "attach tag" {
				b.settle(t)
				b.SetRemoved(true)
			}
			faulty(one, what, vsphere.NotAuthorized, false)
			b.settle(t)
			state := b.State()
			if state.Ready || state.Removed || state.Reason != "NotAuthorized" || state.Message != who+want {
				t.Errorf("%+v", state)
			}
			if what == "attach tag" && len(one.policies) > 0 {
				t.Error("there is a policy that no datastore satisfies")
			}
			one.fault = nil
			b.settle(t)
			if state := b.State(); !state.Ready && !state.Removed || state.Reason != "" {
				t.Errorf("with the privilege: %+v", state)
			}
		})
	}
}

func TestRemovalWaits(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*standIn)
		waits  string
	}{
		"for what uses the policy": {
			func(one *standIn) { one.uses["p1"] = 2 },
			"2 objects of vCenter vc1.example.com, such as volumes, use the storage policy openshift-storage-policy-ci-7x2kq: delete their " +
				"PersistentVolumes, or assign them another policy",
		},
		"for an answer": {
			func(one *standIn) { silent(&one.base) },
			"vCenter vc1.example.com must answer before the operator can delete the storage policy there: no answer within 30s",
		},
		"for a first answer": {
			func(one *standIn) { one.base.Answered = time.Time{} },
			"vCenter vc1.example.com must answer before the operator can delete the storage policy there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, one := installed(t)
			test.change(one)
			b.SetRemoved(true)
			if b.sync(t.Context()) || one.writes != 0 {
				t.Errorf("%d writes", one.writes)
			}
			if diff := cmp.Diff(State{Name: policyName, Waits: test.waits}, b.State()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemovalWaitsForTheNamesOfTheVCenters(t *testing.T) {
	b := newBench(onDS1)
	b.SetRemoved(true)
	b.sync(t.Context())
	if want := (State{Name: policyName, Waits: "The cloud configuration names no vCenter, so the operator can't find the storage policy"}); b.State() != want {
		t.Errorf("%+v", b.State())
	}
}

func TestNoVCenterLeavesTheStateAsItWas(t *testing.T) {
	b, one := installed(t)
	b.sync(t.Context())
	b.all = nil
	b.sync(t.Context())
	if !b.State().Ready || one.writes != 0 {
		t.Errorf("%+v", b.State())
	}
}

func TestTheProblemThatLastsStaysTheReason(t *testing.T) {
	first, second := newStandIn(vcenter(vc1), nil), newStandIn(vcenter(vc2, complete(ds1), func(one *vsphere.VCenter) { one.Policies[0].Other = true }), nil)
	b := newBench(wanting(domain("a", vc1, "ds1"), domain("b", vc2, "ds1")), first, second)
	b.sync(t.Context())
	before := b.State()
	if before.Reason != "StoragePolicyNotOurs" {
		t.Fatalf("%+v", before)
	}
	b.now = b.now.Add(time.Hour)
	first.base.Datastores = nil
	b.sync(t.Context())
	if state := b.State(); state.Reason != before.Reason || state.Since != before.Since || !strings.Contains(state.Message, ". ") {
		t.Errorf("%+v", state)
	}
}
