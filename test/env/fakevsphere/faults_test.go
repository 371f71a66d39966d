package fakevsphere

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/methods"

	"github.com/csi-operators/csi-operators/test/env"
)

// now asks the vCenter what the time is: a call that needs a session and reads nothing.
func (c *clients) now(ctx context.Context) error {
	_, err := methods.GetCurrentTime(ctx, c.soap)
	return err
}

// giveUp waits until the vCenter has got a request, and ends it then. The vCenter does not count a request that ends earlier.
func giveUp(ctx context.Context, end context.CancelFunc, arrived func() bool) {
	defer end()
	_ = env.Await(ctx, "the request", func() error {
		if !arrived() {
			return errors.New("it has not arrived")
		}
		return nil
	})
}

func isGivenUp(err error) bool { return errors.Is(err, context.Canceled) }

func TestEachFaultIsSeenAsOftenAsItWasAskedFor(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	isStatus := func(text string) func(error) bool {
		return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
	}
	isCut := func(err error) bool { return errors.Is(err, io.EOF) }
	isHalf := func(err error) bool {
		return err != nil && !isCut(err) && strings.Contains(err.Error(), "unexpected EOF")
	}
	for name, tc := range map[string]struct {
		fault Fault
		seen  func(error) bool
	}{
		"503":                    {Fault{Status: 503, RetryAfter: "7"}, isStatus("503 Service Unavailable")},
		"500":                    {Fault{Status: 500}, func(err error) bool { return err != nil }},
		"cut":                    {Fault{Cut: true}, isCut},
		"lost":                   {Fault{Lost: true}, isCut},
		"truncated":              {Fault{Truncated: true}, isHalf},
		"no answer of a vCenter": {Fault{Body: "<html>"}, func(err error) bool { return err != nil }},
		"hang":                   {Fault{Hang: true}, isGivenUp},
		"slow":                   {Fault{Latency: time.Minute}, isGivenUp},
	} {
		for kind, ask := range map[string]func(context.Context) error{
			"CurrentTime": c.now, "tag.list": func(ctx context.Context) error { _, err := c.tags.ListTags(ctx); return err },
		} {
			v.Reset()
			// One that the fault before has closed may still be in the pool, and REST can't send its body again.
			c.soap.DefaultTransport().CloseIdleConnections()
			tc.fault.After, tc.fault.Times = 1, 2
			v.SetFault(kind, tc.fault)
			for i := range 4 {
				wanted := i == 1 || i == 2
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if wanted && (tc.fault.Hang || tc.fault.Latency > 0) {
					go giveUp(ctx, cancel, func() bool { return v.Count(kind) > i })
				}
				err := ask(ctx)
				cancel()
				if wanted && !tc.seen(err) || !wanted && err != nil {
					t.Errorf("%s of %s, request %d: %v", name, kind, i, err)
				}
			}
			if v.Count(kind) != 4 || v.Counts()[kind] != 4 || v.Count("") != 4 {
				t.Errorf("%s: %v", name, v.Counts())
			}
		}
	}
}

func TestALostAnswerLeavesWhatWasDone(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	category := &tags.Category{Name: "c", Cardinality: "SINGLE"}
	for name, tc := range map[string]struct {
		fault Fault
		done  bool
	}{
		"lost": {Fault{Lost: true, Times: 1}, true}, "truncated": {Fault{Truncated: true, Times: 1}, true}, "cut": {Fault{Cut: true, Times: 1}, false},
		"503": {Fault{Status: 503, Times: 1}, false},
	} {
		category.Name = name
		v.Reset()
		v.SetFault("category.create", tc.fault)
		if _, err := c.tags.CreateCategory(t.Context(), category); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, found := v.Categories()[name]; found != tc.done {
			t.Errorf("%s: there is a category: %t", name, found)
		}
		if v.Count("category.create") != 1 || len(v.Requests()) != 1 || !strings.Contains(v.Requests()[0].Body, `"`+name+`"`) {
			t.Errorf("%s: %+v", name, v.Requests())
		}
	}
}

func TestAFaultOfAllRequestsEndsWhenItIsCleared(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	v.SetFault("", Fault{Status: 503})
	v.SetFault("tag.list", Fault{Cut: true})
	for range 3 {
		if _, err := c.tags.ListTags(t.Context()); err == nil || strings.Contains(err.Error(), "503 Service") {
			t.Errorf("a fault of one kind: %v", err)
		}
		if err := c.now(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	v.ClearFaults()
	if _, err := c.tags.ListTags(t.Context()); err != nil {
		t.Error(err)
	}
	v.SetFault("CurrentTime", Fault{Cut: true})
	v.SetFault("CurrentTime", Fault{})
	if err := c.now(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAVCenterThatWasAwayIsTheSameAgain(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	v.Tag("c", "t", "/dc1")
	before := v.URL().Host
	v.Away()
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", before); err == nil {
		_ = connection.Close()
		t.Error("while it is away, somebody listens")
	}
	if err := v.Back(); err != nil || v.URL().Host != before {
		t.Fatalf("back at %s, was at %s: %v", v.URL().Host, before, err)
	}
	// govmomi gives every request a body that can't be sent again, so that the first one on a connection that was cut fails.
	c.soap.CloseIdleConnections()
	c.rest.CloseIdleConnections()
	if all, err := c.tags.ListTags(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the session is kept: %v, %v", all, err)
	}
	if err := c.now(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatNobodyCallsIsRefusedAndCounted(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	v.Reset()
	request := c.rest.Resource("/api/vcenter/vm").Request("GET")
	if err := c.rest.Do(t.Context(), request, nil); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Error(err)
	}
	// A vCenter has it, and nothing here does: a test that needs it is to fail.
	if _, err := c.tags.ListAttachedTags(t.Context(), v.Ref("/dc1")); err == nil {
		t.Error("what is not served was answered")
	}
	if v.Count("GET /api/vcenter/vm") != 1 || v.Count("tag-association.list-attached-tags") != 1 {
		t.Error(v.Counts())
	}
}

func TestWhatChangesSomethingIsKnownAsAWrite(t *testing.T) {
	for kind, want := range map[string]bool{
		"PbmCreate": true, "PbmUpdate": true, "PbmDelete": true, "category.create": true, "tag.delete": true, "tag-association.attach": true,
		"tag-association.detach-tag-from-multiple-objects": true, "ReconfigVM_Task": true, "Destroy_Task": true, "CreateFolder": true,
		"PbmQueryProfile": false, "PbmRetrieveContent": false, "RetrievePropertiesEx": false, "tag.list-tags-for-category": false, "category.get": false,
		"session.create": false, "Login": false, "DestroyView": false, "FetchUserPrivilegeOnEntities": false, "GET /x.y": false, "POST /x.y": true,
	} {
		if isWrite(kind) != want {
			t.Errorf("%s: %t", kind, !want)
		}
	}
}
