package vsphere_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// write polls, and calls do with the only vCenter's Writer.
func (s *scene) write(do func(vsphere.Writer)) {
	s.t.Helper()
	called := false
	s.After = func(_ context.Context, _ vsphere.Snapshot, _ vsphere.Want, writers map[string]vsphere.Writer) bool {
		called = true
		do(writers[s.centers[0].host])
		return false
	}
	s.clock.pass(vsphere.Interval)
	s.tick()
	if s.After = nil; !called {
		s.t.Fatal("nothing was written")
	}
}

// next polls after the interval.
func (s *scene) next() vsphere.VCenter {
	s.t.Helper()
	s.clock.pass(vsphere.Interval)
	s.tick()
	return s.only()
}

func TestWhatIsWrittenIsReadInTheNextPoll(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.tick()
	store, vm := s.only().Datastores[0].Ref, vsphere.Ref{Type: "VirtualMachine", Value: "vm-1"}
	var category, tag, foreign, policy string
	rules := []vsphere.PolicyTags{{Category: "openshift-infra", Names: []string{"infra", "other"}}}
	s.write(func(w vsphere.Writer) {
		var err error
		category, err = w.CreateCategory(t.Context(), vsphere.Category{
			Name: "openshift-infra", Description: "of a cluster", Cardinality: "SINGLE", Types: []string{"Folder", "Datastore"},
		})
		must(t, err)
		foreign, err = w.CreateCategory(t.Context(), vsphere.Category{Name: "foreign", Cardinality: "MULTIPLE"})
		must(t, err)
		tag, err = w.CreateTag(t.Context(), vsphere.Tag{Name: "infra", Description: "of it", CategoryID: category})
		must(t, err)
		_, err = w.CreateTag(t.Context(), vsphere.Tag{Name: "x", CategoryID: foreign})
		must(t, err)
		must(t, w.Attach(t.Context(), tag, []vsphere.Ref{vm, store}))
		policy, err = w.CreatePolicy(t.Context(), vsphere.Policy{Name: "openshift-storage-policy-infra", Description: "ours", Tags: rules})
		must(t, err)
		objects, err := w.Attached(t.Context(), tag)
		if err != nil || !slices.Equal(objects, []vsphere.Ref{store, vm}) {
			t.Errorf("%v, %v", objects, err)
		}
		// An existing object is a conflict.
		for what, do := range map[string]func() error{
			"category": func() error {
				_, err := w.CreateCategory(t.Context(), vsphere.Category{Name: "openshift-infra", Cardinality: "SINGLE"})
				return err
			},
			"tag": func() error {
				_, err := w.CreateTag(t.Context(), vsphere.Tag{Name: "infra", CategoryID: category})
				return err
			},
			"attachment": func() error {
				return w.Attach(t.Context(), "urn:vmomi:InventoryServiceTag:gone:GLOBAL", []vsphere.Ref{store})
			},
		} {
			if err := do(); vsphere.ReasonOf(err) != vsphere.Conflict || err == nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	seen := s.next()
	want := []vsphere.Category{
		{ID: foreign, Name: "foreign", Cardinality: "MULTIPLE", Types: []string{}},
		{ID: category, Name: "openshift-infra", Description: "of a cluster", Cardinality: "SINGLE", Types: []string{"Datastore", "Folder"}},
	}
	if diff := cmp.Diff(want, seen.Categories); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]vsphere.Tag{{ID: tag, Name: "infra", Description: "of it", CategoryID: category}}, seen.Tags); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]vsphere.Attachment{{TagID: tag, Object: store}, {TagID: tag, Object: vm}}, seen.Attachments); diff != "" {
		t.Error(diff)
	}
	at := slices.IndexFunc(seen.Policies, func(one vsphere.Policy) bool { return one.ID == policy })
	if at < 0 {
		t.Fatalf("%+v", seen.Policies)
	}
	if diff := cmp.Diff(vsphere.Policy{ID: policy, Name: "openshift-storage-policy-infra", Description: "ours", Tags: rules}, seen.Policies[at]); diff != "" {
		t.Error(diff)
	}
	s.write(func(w vsphere.Writer) {
		for range 2 {
			must(t, w.DeletePolicy(t.Context(), policy))
		}
		must(t, w.Detach(t.Context(), tag, []vsphere.Ref{vm, store}))
		if objects, err := w.Attached(t.Context(), tag); err != nil || len(objects) > 0 {
			t.Errorf("%v, %v", objects, err)
		}
		for range 2 {
			must(t, w.DeleteTag(t.Context(), tag))
			must(t, w.DeleteCategory(t.Context(), category))
		}
	})
	seen = s.next()
	if len(seen.Categories) != 1 || len(seen.Tags) != 0 || len(seen.Attachments) != 0 ||
		slices.ContainsFunc(seen.Policies, func(one vsphere.Policy) bool { return one.ID == policy }) {
		t.Errorf("%+v", seen)
	}
}

// pretend answers SOAP requests that the simulator lacks, and records the last one.
func (c *center) pretend(method, answer string, sent *string) {
	c.setFault(func(w http.ResponseWriter, r *http.Request, asked string) bool {
		if asked != method {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		*sent = string(body)
		soapAnswer(w, "pbm", method, answer)
		return true
	})
}

func TestAPolicyPlacesByCategoryAndTag(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	sent := ""
	c.pretend("PbmCreate", "<returnval><uniqueId>policy-1</uniqueId></returnval>", &sent)
	s.write(func(w vsphere.Writer) {
		rules := []vsphere.PolicyTags{{Category: "category", Names: []string{"tag"}}}
		if id, err := w.CreatePolicy(t.Context(), vsphere.Policy{Name: "name", Description: "text", Tags: rules}); id != "policy-1" || err != nil {
			t.Errorf("%q, %v", id, err)
		}
	})
	for _, part := range []string{
		"<name>name</name>", "<description>text</description>", "<id>com.vmware.storage.tag.category.property</id>", "<namespace>http://www.vmware.com/storage/tag</namespace><id>category</id>",
		`PbmCapabilityDiscreteSet"`, ">tag</values>",
	} {
		if !strings.Contains(sent, part) {
			t.Errorf("%s is not in %s", part, sent)
		}
	}
}

func TestWhatHasAPolicyIsCounted(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	sent, one := "", `<returnval><object><objectType>virtualDiskUUID</objectType><key>x</key></object></returnval>`
	c.pretend("PbmQueryAssociatedEntities", one+one+one, &sent)
	s.write(func(w vsphere.Writer) {
		if count, err := w.InUse(t.Context(), "policy-1"); err != nil || count != 3 || !strings.Contains(sent, "<uniqueId>policy-1</uniqueId>") {
			t.Errorf("%d, %v: %s", count, err, sent)
		}
	})
	// An error does not count as zero objects.
	c.setFault(nil)
	s.write(func(w vsphere.Writer) {
		if _, err := w.InUse(t.Context(), "policy-1"); err == nil {
			t.Error("no error")
		}
	})
}

func TestAPolicyInUseIsNotDeleted(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	sent := ""
	c.pretend("PbmDelete", `<returnval><profileId><uniqueId>policy-1</uniqueId></profileId><fault><fault xsi:type="PbmResourceInUse">`+
		`</fault><localizedMessage>secret text of a vCenter</localizedMessage></fault></returnval>`, &sent)
	s.write(func(w vsphere.Writer) {
		err := w.DeletePolicy(t.Context(), "policy-1")
		if vsphere.ReasonOf(err) != vsphere.Conflict || !strings.Contains(err.Error(), "in use") || strings.Contains(err.Error(), "secret text") {
			t.Error(err)
		}
	})
}

func TestAWriteThatIsNotAnsweredIsNotRepeated(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	lost := func(w http.ResponseWriter, r *http.Request, asked string) bool {
		if asked != "POST /tagging/category " && asked != "PbmCreate" {
			return false
		}
		// The vCenter makes the change, and the response is lost.
		c.proxy.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w, r)
		return true
	}
	s.write(func(w vsphere.Writer) {
		c.setFault(lost)
		if _, err := w.CreateCategory(t.Context(), vsphere.Category{Name: "lost", Cardinality: "SINGLE"}); vsphere.ReasonOf(err) != vsphere.NoConnection {
			t.Error(err)
		}
		if _, err := w.CreatePolicy(t.Context(), vsphere.Policy{Name: "lost"}); vsphere.ReasonOf(err) != vsphere.NoConnection {
			t.Error(err)
		}
		c.setFault(nil)
	})
	if c.requests("POST /tagging/category") != 1 || c.requests("PbmCreate") != 1 {
		t.Errorf("%v", c.counts)
	}
	seen := s.next()
	if len(seen.Categories) != 1 || !slices.ContainsFunc(seen.Policies, func(one vsphere.Policy) bool { return one.Name == "lost" && one.Other }) {
		t.Errorf("%+v %+v", seen.Categories, seen.Policies)
	}
}

func TestObjectsThatDoNotTakeATagAreAnError(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	for _, answer := range []string{`{"value": {"success": false}}`, `{"value": {"success": true, "error_messages": [{"default_message": "secret text of a vCenter"}]}}`} {
		c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
			if asked != "POST /tagging/tag-association attach-tag-to-multiple-objects" {
				return false
			}
			fmt.Fprint(w, answer)
			return true
		})
		s.write(func(w vsphere.Writer) {
			err := w.Attach(t.Context(), "urn:vmomi:InventoryServiceTag:x:GLOBAL", []vsphere.Ref{{Type: "Datastore", Value: "datastore-1"}})
			if err == nil || strings.Contains(err.Error(), "secret text") {
				t.Errorf("%s: %v", answer, err)
			}
		})
	}
}

func TestManyCategoriesAreReadOverSeveralPolls(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	const many = 160
	for i := 0; i < many; i += 20 {
		s.write(func(w vsphere.Writer) {
			// New categories are read in the next poll: both are within the budget.
			for j := range 20 {
				_, err := w.CreateCategory(t.Context(), vsphere.Category{Name: fmt.Sprintf("category-%03d", i+j), Cardinality: "SINGLE"})
				must(t, err)
			}
		})
	}
	// Another poller has an empty cache.
	again := newScene(t, c)
	polls := 0
	for ; polls < 10; polls++ {
		wait := again.Tick(t.Context())
		if failure := again.only().Err; failure == nil {
			break
		} else if failure.Reason != vsphere.Overloaded {
			t.Fatal(failure)
		}
		again.clock.pass(wait)
	}
	if len(again.only().Categories) != many || polls < 2 || polls > 5 {
		t.Errorf("%d categories after %d polls: %v", len(again.only().Categories), polls, again.only().Err)
	}
	// Expired entries are read again, a few per poll.
	again.next()
	again.clock.pass(2 * time.Hour)
	c.reset()
	again.next()
	if got := c.requests("GET /tagging/category"); got != 11 {
		t.Errorf("%d requests for categories", got)
	}
}

func TestACategoryThatIsDeletedInBetweenIsLeftOut(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.write(func(w vsphere.Writer) {
		for _, name := range []string{"a", "b"} {
			_, err := w.CreateCategory(t.Context(), vsphere.Category{Name: name, Cardinality: "SINGLE"})
			must(t, err)
		}
	})
	gone := false
	c.setFault(func(w http.ResponseWriter, r *http.Request, asked string) bool {
		if asked != "GET /tagging/category " || !strings.Contains(r.URL.Path, "/id:") || gone {
			return false
		}
		gone = true
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	if seen := s.next(); len(seen.Categories) != 1 {
		t.Errorf("%+v", seen.Categories)
	}
}
