package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Names of the cluster's objects in a plan.
const (
	categoryName = "openshift-ci-7x2kq"
	tagName      = "ci-7x2kq"
	policyName   = "openshift-storage-policy-ci-7x2kq"
)

var (
	ds1 = ref("Datastore", "datastore-1")
	ds2 = ref("Datastore", "datastore-2")
	vm  = ref("VirtualMachine", "vm-1")

	onDS1      = wanting(domain("a", vc1, "/dc1/datastore/ds1"))
	onBoth     = wanting(domain("a", vc1, "/dc1/datastore/ds1"), domain("b", vc1, "/dc1/datastore/ds2"))
	everything = []Step{
		{vc1, CreateCategory, categoryName, "", vsphere.Ref{}},
		{vc1, CreateTag, tagName, "", vsphere.Ref{}},
		{vc1, Attach, "/dc1/datastore/ds1", "", ds1},
		{vc1, CreatePolicy, policyName, "", vsphere.Ref{}},
	}
)

// planned are the steps for all vCenters. Nothing is planned for one whose last poll failed, or that has something of the cluster's names that is not
// the cluster's.
func planned(seen vsphere.Snapshot, want vsphere.Want, removed bool) []Step {
	var plan []Step
	all, _ := sites(seen, want)
	for _, s := range all {
		plan = append(plan, s.plan(removed)...)
	}
	return plan
}

// with changes a vCenter that has all objects of the cluster, with the tag on ds1.
func with(change ...func(*vsphere.VCenter)) vsphere.Snapshot {
	return snapshot(vcenter(vc1, append([]func(*vsphere.VCenter){complete(ds1)}, change...)...))
}

func addPolicy(name, category string) func(*vsphere.VCenter) {
	return func(one *vsphere.VCenter) {
		one.Policies = append(one.Policies, vsphere.Policy{ID: "px", Name: name, Tags: []vsphere.PolicyTags{{Category: category, Names: []string{tagName}}}})
	}
}

func attach(objects ...vsphere.Ref) func(*vsphere.VCenter) {
	return func(one *vsphere.VCenter) {
		for _, object := range objects {
			one.Attachments = append(one.Attachments, vsphere.Attachment{TagID: "t1", Object: object})
		}
	}
}

func silent(one *vsphere.VCenter) {
	one.Err = &vsphere.Error{Server: one.Server, What: "poll", Reason: vsphere.Timeout, Why: "no answer within 30s"}
}

func TestPlanKeepsThePolicy(t *testing.T) {
	detach := Step{vc1, Detach, "/dc1/datastore/ds2", "t1", ds2}
	for name, test := range map[string]struct {
		seen vsphere.Snapshot
		want vsphere.Want
		plan []Step
	}{
		"all of it where nothing is": {snapshot(vcenter(vc1)), onDS1, everything},
		"nothing where all is":       {with(), onDS1, nil},
		"nothing before a poll":      {vsphere.Snapshot{}, onDS1, nil},
		"nothing without an infrastructure ID": {
			snapshot(vcenter(vc1)), vsphere.Want{FailureDomains: onDS1.FailureDomains}, nil,
		},
		"the rest of what an end in between has left": {
			with(func(one *vsphere.VCenter) { one.Attachments, one.Policies = nil, nil }), onDS1,
			[]Step{{vc1, Attach, "/dc1/datastore/ds1", "t1", ds1}, {vc1, CreatePolicy, policyName, "", vsphere.Ref{}}},
		},
		"a tag beside the category of the installer": {
			with(func(one *vsphere.VCenter) { one.Tags, one.Attachments = nil, nil }), onDS1,
			[]Step{{vc1, CreateTag, tagName, "c1", vsphere.Ref{}}, {vc1, Attach, "/dc1/datastore/ds1", "", ds1}},
		},
		"a tag of that name in another category is not the cluster's": {
			snapshot(vcenter(vc1, func(one *vsphere.VCenter) {
				one.Tags = []vsphere.Tag{{ID: "tx", Name: tagName, CategoryID: "cx", Description: description}}
			})), onDS1, everything,
		},
		"a datastore of a new failure domain gets the tag": {
			with(), onBoth, []Step{{vc1, Attach, "/dc1/datastore/ds2", "t1", ds2}},
		},
		"two failure domains on one datastore tag it once": {
			snapshot(vcenter(vc1)), wanting(domain("a", vc1, "/dc1/datastore/ds1"), domain("b", vc1, "ds1")), everything,
		},
		"a datastore that no failure domain names loses it": {with(attach(ds2)), onDS1, []Step{detach}},
		"VMs and folders keep the tag of the installer":     {with(attach(vm, ref("Folder", "group-v3"))), onDS1, nil},
		"no datastore loses it while another is missing": {
			with(attach(ds2)), wanting(domain("a", vc1, "ds1"), domain("b", vc1, "ds9")), nil,
		},
		"no datastore loses it while another policy places by it": {
			with(attach(ds2), addPolicy("gold", categoryName)), onDS1, nil,
		},
		"the found datastores get the tag while another is missing": {
			snapshot(vcenter(vc1)), wanting(domain("a", vc1, "ds1"), domain("b", vc1, "ds9")), everything,
		},
		"nothing where no datastore is found":  {snapshot(vcenter(vc1)), wanting(domain("a", vc1, "ds9")), nil},
		"nothing where the last poll failed":   {snapshot(vcenter(vc1, silent)), onDS1, nil},
		"nothing where no poll ever succeeded": {snapshot(vcenter(vc1, func(one *vsphere.VCenter) { one.Answered = time.Time{} })), onDS1, nil},
		"nothing in a vCenter without failure domain": {
			snapshot(vcenter(vc1), vcenter(vc2, complete(ds1))), onDS1, everything,
		},
		"server names are compared without case": {snapshot(vcenter(vc1)), wanting(domain("a", "VC1.Example.com", "ds1")), everything},
		"nothing beside a policy of other rules": {
			snapshot(vcenter(vc1, addPolicy(policyName, "openshift-zone"))), onDS1, nil,
		},
		"nothing beside a category that is somebody else's": {
			snapshot(vcenter(vc1, func(one *vsphere.VCenter) {
				one.Categories = []vsphere.Category{{ID: "cx", Name: categoryName, Cardinality: "MULTIPLE", Description: "mine"}}
			})), onDS1, nil,
		},
		"nothing in a category that takes no datastores": {
			snapshot(vcenter(vc1, func(one *vsphere.VCenter) {
				one.Categories = []vsphere.Category{{ID: "cx", Name: categoryName, Description: description, Types: []string{"VirtualMachine"}}}
			})), onDS1, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.plan, planned(test.seen, test.want, false)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanRemovesWhatIsTheClustersOnly(t *testing.T) {
	policy := Step{vc1, DeletePolicy, policyName, "p1", vsphere.Ref{}}
	untag := Step{vc1, Detach, "/dc1/datastore/ds1", "t1", ds1}
	tag := Step{vc1, DeleteTag, tagName, "t1", vsphere.Ref{}}
	category := Step{vc1, DeleteCategory, categoryName, "c1", vsphere.Ref{}}
	linked := func(change ...func(*vsphere.VCenter)) vsphere.Snapshot {
		both := with()
		change = append([]func(*vsphere.VCenter){complete(), func(one *vsphere.VCenter) { one.Policies = nil }}, change...)
		both.VCenters = append(both.VCenters, vcenter(vc2, change...))
		return both
	}
	for name, test := range map[string]struct {
		seen vsphere.Snapshot
		plan []Step
	}{
		"all of it, from the end":                 {with(), []Step{policy, untag, tag, category}},
		"nothing where nothing is":                {snapshot(vcenter(vc1)), nil},
		"nothing of a vCenter that has no answer": {with(silent), nil},
		"every datastore loses the tag": {
			with(attach(ds2)), []Step{policy, untag, {vc1, Detach, "/dc1/datastore/ds2", "t1", ds2}, tag, category},
		},
		"an unknown datastore is named by its ID": {
			with(func(one *vsphere.VCenter) { one.Datastores = nil }), []Step{policy, {vc1, Detach, "datastore-1", "t1", ds1}, tag, category},
		},
		"VMs keep the tag": {with(attach(vm)), []Step{policy, untag}},
		"a category with another tag stays": {
			with(func(one *vsphere.VCenter) {
				one.Tags = append(one.Tags, vsphere.Tag{ID: "t9", Name: "gold", CategoryID: "c1"})
			}),
			[]Step{policy, untag, tag},
		},
		"tagged datastores stay where another policy places by the tag": {
			with(addPolicy("gold", categoryName)), []Step{policy},
		},
		"a policy of other rules stays": {
			with(func(one *vsphere.VCenter) { one.Policies[0].Other = true }), nil,
		},
		"a policy of other rules stays, its tag is not needed": {
			with(func(one *vsphere.VCenter) { one.Policies[0].Tags[0].Category = "gold" }), []Step{untag, tag, category},
		},
		"a category that is somebody else's stays with its tags": {
			with(func(one *vsphere.VCenter) {
				one.Categories[0].Description, one.Categories[0].Cardinality = "mine", "MULTIPLE"
			}),
			[]Step{policy},
		},
		"a category without the description is known by cardinality and types": {
			with(func(one *vsphere.VCenter) { one.Categories[0].Description = "" }), []Step{policy, untag, tag, category},
		},
		"a category with other types is known by its description": {
			with(func(one *vsphere.VCenter) { one.Categories[0].Types = []string{"Datastore"} }), []Step{policy, untag, tag, category},
		},
		"a tag that a linked vCenter has attached stays":    {linked(attach(vm)), []Step{policy, untag}},
		"a tag of a linked vCenter without an answer stays": {linked(silent), []Step{policy, untag}},
		"an unlinked vCenter without an answer keeps nothing": {
			snapshot(with().VCenters[0], vcenter(vc2, silent)), []Step{policy, untag, tag, category},
		},
		"a tag stays while a vCenter never answered": {snapshot(with().VCenters[0], vsphere.VCenter{Server: vc2}), []Step{policy, untag}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.plan, planned(test.seen, onDS1, true)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanFindsDatastoresByTheNamesThatPeopleWrite(t *testing.T) {
	for name, test := range map[string]struct {
		datastores []vsphere.Datastore
		// written is the name in the failure domain, found the ID of the expected datastore.
		written, found string
	}{
		"path":                          {[]vsphere.Datastore{datastore("1", "ds1")}, "/dc1/datastore/ds1", "1"},
		"path that is not clean":        {[]vsphere.Datastore{datastore("1", "ds1")}, "/dc1//datastore/ds1/", "1"},
		"name":                          {[]vsphere.Datastore{datastore("1", "ds1")}, "ds1", "1"},
		"path below the folder":         {[]vsphere.Datastore{datastore("1", "fast/ds1")}, "fast/ds1", "1"},
		"name in a folder":              {[]vsphere.Datastore{{Ref: ref("Datastore", "1"), Name: "ds1", Path: "/dc1/datastore/pod/ds1", Datacenter: "/dc1"}}, "ds1", "1"},
		"name that two have":            {[]vsphere.Datastore{{Ref: ref("Datastore", "1"), Name: "ds1", Path: "/dc1/datastore/a/ds1", Datacenter: "/dc1"}, {Ref: ref("Datastore", "2"), Name: "ds1", Path: "/dc1/datastore/b/ds1", Datacenter: "/dc1"}}, "ds1", ""},
		"name of the one at the top":    {[]vsphere.Datastore{{Ref: ref("Datastore", "2"), Name: "ds1", Path: "/dc1/datastore/b/ds1", Datacenter: "/dc1"}, datastore("1", "ds1")}, "ds1", "1"},
		"name in another datacenter":    {[]vsphere.Datastore{{Ref: ref("Datastore", "1"), Name: "ds1", Path: "/dc2/datastore/ds1", Datacenter: "/dc2"}}, "ds1", ""},
		"quotes":                        {[]vsphere.Datastore{datastore("1", `d"s'1`)}, `/dc1/datastore/d"s'1`, "1"},
		"a slash as vCenters write it":  {[]vsphere.Datastore{datastore("1", "a%2fb")}, "/dc1/datastore/a%2fb", "1"},
		"unicode":                       {[]vsphere.Datastore{datastore("1", "Größe-資料-🗄")}, "Größe-資料-🗄", "1"},
		"a name that is a path upwards": {[]vsphere.Datastore{datastore("1", "ds1")}, "../../dc1/datastore/ds1", ""},
		"wildcards are characters":      {[]vsphere.Datastore{datastore("1", "ds1")}, "ds*", ""},
		"an object that is not there":   {[]vsphere.Datastore{{Name: "ds1", Path: "/dc1/datastore/ds1", Datacenter: "/dc1"}}, "/dc1/datastore/ds1", ""},
		"no name":                       {[]vsphere.Datastore{datastore("1", "ds1")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			one := vcenter(vc1, func(one *vsphere.VCenter) { one.Datastores = test.datastores })
			found := ""
			for _, step := range planned(snapshot(one), wanting(domain("a", vc1, test.written)), false) {
				if step.Verb == Attach {
					found = step.Datastore.Value
				}
			}
			if found != test.found {
				t.Errorf("found %q, not %q", found, test.found)
			}
		})
	}
}

func TestPlanFindsADatastoreWhereTheDatacenterIsNotListed(t *testing.T) {
	one := vcenter(vc1, func(one *vsphere.VCenter) { one.Datacenters = nil })
	if diff := cmp.Diff(everything, planned(snapshot(one), wanting(domain("a", vc1, "ds1")), false)); diff != "" {
		t.Error(diff)
	}
}

func TestPlanLeavesTheSnapshotAsItIs(t *testing.T) {
	seen, before := with(attach(ds2)), with(attach(ds2))
	planned(seen, onDS1, false)
	planned(seen, onDS1, true)
	if diff := cmp.Diff(before, seen, cmp.AllowUnexported(vsphere.Error{})); diff != "" {
		t.Error(diff)
	}
}
