package fakevsphere

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// A vCenter for tests that is laxer than a real one would let through what fails there.
func TestWhoHasNoSessionGetsNothing(t *testing.T) {
	v := start(t, Options{})
	c := connect(t, v)
	collector := property.DefaultCollector(c.soap)
	reads := func() map[string]error {
		var datastore mo.Datastore
		_, err := c.tags.ListTags(t.Context())
		return map[string]error{
			"a property": collector.RetrieveOne(t.Context(), v.Ref("/dc1/datastore/ds1"), []string{"name"}, &datastore), "tags": err,
		}
	}
	for name, err := range reads() {
		if _, refused := fault(err).(types.NotAuthenticated); !refused && !isUnauthorized(err) {
			t.Errorf("%s without a session: %v", name, err)
		}
	}
	if session, err := c.sessions.UserSession(t.Context()); session != nil || err != nil {
		t.Errorf("the session of who has none: %+v, %v", session, err)
	}
	if err, err2 := c.login(t.Context(), v.User, v.Password); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if err := c.sessions.Login(t.Context(), url.UserPassword(v.User, v.Password)); fault(err) == nil {
		t.Error("a second login within a session")
	}
	for name, err := range reads() {
		if err != nil {
			t.Errorf("%s with a session: %v", name, err)
		}
	}
	v.ExpireSessions()
	for name, err := range reads() {
		if _, refused := fault(err).(types.NotAuthenticated); !refused && !isUnauthorized(err) {
			t.Errorf("%s after the session has ended: %v", name, err)
		}
	}
	if soap, rest := v.Sessions(); soap+rest != 0 {
		t.Errorf("%d and %d sessions are left", soap, rest)
	}
	if err, err2 := c.login(t.Context(), v.User, v.Password); err != nil || err2 != nil {
		t.Errorf("a new login by the same client: %v, %v", err, err2)
	}
	if soap, rest := v.Logins(); soap != 2 || rest != 2 {
		t.Errorf("%d and %d logins", soap, rest)
	}
}

func TestALoginNeedsAUserWithADomainAndItsPassword(t *testing.T) {
	v := start(t, Options{User: "Cluster@vSphere.local", Password: "a"})
	v.SetUser("other@vsphere.local", "b")
	for _, tc := range []struct {
		user, password string
		good           bool
	}{
		{"Cluster@vSphere.local", "a", true},
		{`VSPHERE.LOCAL\cluster`, "a", true},
		{"other@vsphere.local", "b", true},
		{"other@vsphere.local", "a", false},
		{"Cluster@vSphere.local", "", false},
		{"Cluster", "a", false},
		{"nobody@vsphere.local", "a", false},
		{"nobody@vsphere.local", "", false},
	} {
		c := connect(t, v)
		bySOAP, byREST := c.login(t.Context(), tc.user, tc.password)
		if (bySOAP == nil) != tc.good || (byREST == nil) != tc.good {
			t.Errorf("%s with %q: %v, %v", tc.user, tc.password, bySOAP, byREST)
		}
		if _, refused := fault(bySOAP).(types.InvalidLogin); !tc.good && (!refused || !isUnauthorized(byREST)) {
			t.Errorf("%s with %q is refused by %T and %v", tc.user, tc.password, fault(bySOAP), byREST)
		}
		if !tc.good {
			continue
		}
		session, err := c.sessions.UserSession(t.Context())
		if err != nil || !strings.HasPrefix(session.UserName, `VSPHERE.LOCAL\`) {
			t.Errorf("%s is %+v, %v", tc.user, session, err)
		}
		if err := errors.Join(c.sessions.Logout(t.Context()), c.rest.Logout(t.Context())); err != nil {
			t.Errorf("%s logs out: %v", tc.user, err)
		}
	}
	if soap, rest := v.Sessions(); soap+rest != 0 || v.FailedLogins("other@vsphere.local") != 2 {
		t.Errorf("%d and %d sessions are left, %d logins failed", soap, rest, v.FailedLogins("other@vsphere.local"))
	}
	if soap, rest := v.Logouts(); soap != 3 || rest != 3 {
		t.Errorf("%d and %d logouts", soap, rest)
	}
}

// Sessions stay, but nobody has privileges who is not there.
func TestAUserWhoIsRemovedDoesNothingMore(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	v.RemoveUser(v.User)
	var datastore mo.Datastore
	err := property.DefaultCollector(c.soap).RetrieveOne(t.Context(), v.Ref("/dc1/datastore/ds1"), []string{"name"}, &datastore)
	if _, refused := fault(err).(types.NoPermission); !refused {
		t.Errorf("a property: %v", err)
	}
	if _, err := c.tags.ListTags(t.Context()); !isUnauthorized(err) {
		t.Errorf("tags: %v", err)
	}
	if err, err2 := connect(t, v).login(t.Context(), v.User, v.Password); err == nil || err2 == nil {
		t.Errorf("a login: %v, %v", err, err2)
	}
	v.SetUser(v.User, v.Password)
	if _, err := c.tags.ListTags(t.Context()); err != nil {
		t.Errorf("tags, when the user is there again: %v", err)
	}
}

func TestNamesOfPoliciesCategoriesAndTagsAreTakenOnce(t *testing.T) {
	v := start(t, Options{})
	c, ctx := signIn(t, v), t.Context()
	category := &tags.Category{Name: "openshift-x1", Cardinality: "SINGLE", AssociableTypes: []string{"urn:vim25:Datastore"}}
	categoryID, err := c.tags.CreateCategory(ctx, category)
	if err != nil {
		t.Fatal(err)
	}
	tag := &tags.Tag{Name: "x1", CategoryID: categoryID}
	tagID, err := c.tags.CreateTag(ctx, tag)
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.policies.CreateProfile(ctx, policySpec("p", "openshift-x1", "x1"))
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]func() error{
		"category": func() error { _, err := c.tags.CreateCategory(ctx, category); return err },
		"tag":      func() error { _, err := c.tags.CreateTag(ctx, tag); return err },
	} {
		if err := again(); err == nil || !strings.Contains(err.Error(), "com.vmware.vapi.std.errors.already_exists") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = c.policies.CreateProfile(ctx, policySpec("p", "openshift-x1", "x1"))
	if got, refused := fault(err).(pbmtypes.PbmDuplicateName); !refused || got.Name != "p" {
		t.Errorf("the policy once more: %v %T", err, fault(err))
	}
	if _, err := c.policies.CreateProfile(ctx, policySpec("q", "openshift-x1", "absent")); err == nil {
		t.Error("a policy for a tag that there is not was made")
	}
	if err := c.tags.AttachTag(ctx, tagID, v.Ref("/dc1/datastore/ds2")); err != nil {
		t.Error(err)
	}
	want := []string{"category openshift-x1", "tag openshift-x1/x1", "tag openshift-x1/x1 on /dc1/datastore/ds2"}
	if diff := cmp.Diff(want, v.Left("x1")); diff != "" {
		t.Error(diff)
	}
	policy := v.Policies()["p"]
	if diff := cmp.Diff(Policy{ID: id.UniqueId, Name: "p", Tags: []PolicyTags{{Category: "openshift-x1", Names: []string{"x1"}}}}, policy); diff != "" {
		t.Error(diff)
	}
	wantWrites := []string{
		"category.create", "tag.create", "PbmCreate", "category.create", "tag.create", "PbmCreate", "PbmCreate", "tag-association.attach",
	}
	got := v.Writes()
	if len(got) == len(wantWrites) {
		// The order of the two in the middle is that of a map.
		got[3], got[4] = wantWrites[3], wantWrites[4]
	}
	if diff := cmp.Diff(wantWrites, got); diff != "" {
		t.Error(diff)
	}
}

// Who deletes a policy and looks at the error alone takes a refusal for a success.
func TestAPolicyInUseStaysAndOneThatIsNotIsDeleted(t *testing.T) {
	v := start(t, Options{})
	c, ctx := signIn(t, v), t.Context()
	v.Tag("openshift-x1", "x1", "/dc1/datastore/ds1")
	v.Tag("openshift-x1", "x2")
	spec := policySpec("openshift-storage-policy-x1", "openshift-x1", "x1", "x2")
	spec.Description = "of x1"
	made, err := c.policies.CreateProfile(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	ids := []pbmtypes.PbmProfileId{*made}
	v.SetInUse("openshift-storage-policy-x1", "6000c29a", "6000c29b")
	users, err := c.policies.QueryAssociatedEntities(ctx, ids)
	if err != nil || len(users) != 2 || users[0].Object.Key != "6000c29a" {
		t.Errorf("%+v, %v", users, err)
	}
	outcomes, err := c.policies.DeleteProfile(ctx, ids)
	if err != nil || len(outcomes) != 1 || outcomes[0].Fault == nil {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if _, inUse := outcomes[0].Fault.Fault.(*pbmtypes.PbmResourceInUse); !inUse {
		t.Errorf("%T", outcomes[0].Fault.Fault)
	}
	want := Policy{
		ID: made.UniqueId, Name: "openshift-storage-policy-x1", Description: "of x1",
		Tags: []PolicyTags{{Category: "openshift-x1", Names: []string{"x1", "x2"}}},
	}
	if diff := cmp.Diff(want, v.Policies()["openshift-storage-policy-x1"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"category openshift-x1", "policy openshift-storage-policy-x1", "tag openshift-x1/x1", "tag openshift-x1/x1 on /dc1/datastore/ds1",
		"tag openshift-x1/x2",
	}, v.Left("x1")); diff != "" {
		t.Error(diff)
	}
	if _, err := c.policies.CreateProfile(ctx, policySpec("other", "openshift-x1", "x1")); err != nil {
		t.Fatal(err)
	}
	v.SetInUse("openshift-storage-policy-x1")
	if outcomes, err := c.policies.DeleteProfile(ctx, ids); err != nil || outcomes[0].Fault != nil || len(v.Policies()) != 1 {
		t.Errorf("%+v, %v, left are %v", outcomes, err, v.Policies())
	}
	outcomes, err = c.policies.DeleteProfile(ctx, ids)
	if _, absent := outcomes[0].Fault.Fault.(*pbmtypes.PbmFaultNotFound); err != nil || !absent {
		t.Errorf("once more: %+v, %v", outcomes, err)
	}
	if _, err := c.policies.RetrieveContent(ctx, ids); err == nil {
		t.Error("a policy that is not there was read")
	}
	all, err := c.policies.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{ResourceType: "STORAGE"}, "REQUIREMENT")
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestWhoLacksAPrivilegeIsToldSoAndRefused(t *testing.T) {
	v := start(t, Options{})
	v.SetUser("all@vsphere.local", "b")
	c, ctx := signIn(t, v), t.Context()
	manager := object.NewAuthorizationManager(c.soap)
	datastore := v.Ref("/dc1/datastore/ds1")
	v.Tag("c", "t")
	tagID := v.Tags()["c/t"].ID
	v.Deny(v.User, "/", "InventoryService.Tagging.CreateTag", "StorageProfile.Update")
	v.Deny(v.User, "/dc1/datastore/ds1", "Datastore.FileManagement", "InventoryService.Tagging.ObjectAttachable")
	asked := []string{"Datastore.FileManagement", "Datastore.Browse"}
	for user, want := range map[string][]bool{v.User: {false, true}, `VSPHERE.LOCAL\all`: {true, true}, "nobody@vsphere.local": {false, false}} {
		got, err := manager.HasUserPrivilegeOnEntities(ctx, []ref{datastore}, user, asked)
		if err != nil || len(got) != 1 || len(got[0].PrivAvailability) != 2 {
			t.Fatalf("%s: %+v, %v", user, got, err)
		}
		for i, one := range got[0].PrivAvailability {
			if one.PrivId != asked[i] || one.IsGranted != want[i] {
				t.Errorf("%s: %+v", user, one)
			}
		}
		listed, err := manager.FetchUserPrivilegeOnEntities(ctx, []ref{datastore}, user)
		if err != nil || slices.Contains(listed[0].Privileges, asked[0]) != want[0] || slices.Contains(listed[0].Privileges, asked[1]) != want[1] {
			t.Errorf("%s: %v", user, err)
		}
	}
	if _, err := manager.FetchUserPrivilegeOnEntities(ctx, []ref{{Type: "Datastore", Value: "datastore-0"}}, v.User); fault(err) == nil {
		t.Error("privileges on an object that is not there")
	}
	_, err := c.tags.CreateTag(ctx, &tags.Tag{Name: "u", CategoryID: "c"})
	if !rest.IsStatusError(err, http.StatusForbidden) {
		t.Errorf("a tag: %v", err)
	}
	if err := c.tags.AttachTag(ctx, tagID, datastore); !rest.IsStatusError(err, http.StatusForbidden) {
		t.Errorf("attach it: %v", err)
	}
	if err := c.tags.AttachTag(ctx, tagID, v.Ref("/dc1/datastore/ds2")); err != nil {
		t.Errorf("attach it to another: %v", err)
	}
	_, err = c.policies.CreateProfile(ctx, policySpec("p", "c", "t"))
	if got, refused := fault(err).(types.NoPermission); !refused || got.PrivilegeId != "StorageProfile.Update" {
		t.Errorf("a policy: %v", err)
	}
	v.Deny(v.User, "TaskManager", "System.View")
	tasks, err := view.NewManager(c.soap).CreateTaskView(ctx, c.soap.ServiceContent.TaskManager)
	if err == nil {
		err = tasks.Collect(ctx, func([]types.TaskInfo) {})
	}
	if _, refused := fault(err).(types.NoPermission); !refused {
		t.Errorf("tasks: %v", err)
	}
	v.Allow(v.User)
	if _, err := c.policies.CreateProfile(ctx, policySpec("p", "c", "t")); err != nil {
		t.Errorf("with all privileges: %v", err)
	}
}

func TestTagsGoOnlyWhereTheirCategoryLetsThem(t *testing.T) {
	v := start(t, Options{})
	c, ctx := signIn(t, v), t.Context()
	id, err := c.tags.CreateCategory(ctx, &tags.Category{Name: "c", Cardinality: "SINGLE", AssociableTypes: []string{"urn:vim25:Datastore"}})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, name := range []string{"a", "b"} {
		tag, err := c.tags.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: id})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, tag)
	}
	const one, invalid = "/dc1/datastore/ds1", "invalid_argument"
	if err := c.tags.AttachTag(ctx, made[0], v.Ref(one)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a second tag of a category of one": {c.tags.AttachTag(ctx, made[1], v.Ref(one)), invalid},
		"an object of another type":         {c.tags.AttachTag(ctx, made[1], v.Ref("/dc1")), invalid},
		"an object that is not there":       {c.tags.AttachTag(ctx, made[1], ref{Type: "Datastore", Value: "datastore-0"}), "403"},
		"a tag that is not there":           {c.tags.AttachTag(ctx, "urn:vmomi:InventoryServiceTag:x:GLOBAL", v.Ref(one)), "404"},
		"a category of no cardinality":      {second(c.tags.CreateCategory(ctx, &tags.Category{Name: "d"})), invalid},
		"a tag of no category":              {second(c.tags.CreateTag(ctx, &tags.Tag{Name: "d", CategoryID: "urn:vmomi:InventoryServiceCategory:x:GLOBAL"})), "404"},
		"what the simulator takes":          {c.tags.AttachMultipleTagsToObject(ctx, made, v.Ref(one)), "404"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: %v", name, tc.err)
		}
	}
	// The status is 200, also where nothing was attached: the answer must be read.
	request := c.rest.Resource("/com/vmware/cis/tagging/tag-association").WithID(made[1]).WithAction("attach-tag-to-multiple-objects")
	objects := map[string]any{"object_ids": []moid{{"Datastore", v.Ref(one).Value}, {"Datastore", v.Ref("/dc1/datastore/ds2").Value}}}
	var batch struct {
		Success bool `json:"success"`
		Errors  []struct {
			ID string `json:"id"`
		} `json:"error_messages"`
	}
	if err := c.rest.Do(ctx, request.Request(http.MethodPost, objects), &batch); err != nil || batch.Success || len(batch.Errors) != 1 {
		t.Errorf("%+v, %v", batch, err)
	}
	want := map[string][]string{"c/a": {one}, "c/b": {"/dc1/datastore/ds2"}}
	if diff := cmp.Diff(want, v.Attachments()); diff != "" {
		t.Error(diff)
	}
	listed, err := c.tags.ListAttachedObjectsOnTags(ctx, made)
	if err != nil || len(listed) != 2 || listed[1].ObjectIDs[0].Reference() != v.Ref("/dc1/datastore/ds2") {
		t.Errorf("%+v, %v", listed, err)
	}
	if tagsOf, err := c.tags.ListTagsForCategory(ctx, id); err != nil || len(tagsOf) != 2 {
		t.Errorf("%v, %v", tagsOf, err)
	}
	if err := c.tags.DetachTag(ctx, made[0], v.Ref(one)); err != nil || len(v.Attachments()) != 1 {
		t.Errorf("%v, %v", v.Attachments(), err)
	}
	if err := c.tags.DeleteCategory(ctx, &tags.Category{ID: id}); err != nil || len(v.Tags())+len(v.Attachments())+len(v.Categories()) != 0 {
		t.Errorf("%v, %v are left, %v", v.Tags(), v.Attachments(), err)
	}
}

func second[T any](_ T, err error) error { return err }
