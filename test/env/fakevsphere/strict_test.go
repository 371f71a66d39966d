package fakevsphere

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
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
	if err, err2 := c.login(t.Context(), v.User, v.Password); err != nil || err2 != nil {
		t.Fatal(err, err2)
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

var _ = []any{http.StatusOK, rest.Path, context.Canceled}
