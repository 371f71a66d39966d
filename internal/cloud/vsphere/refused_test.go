package vsphere_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func TestAWrongPasswordIsTriedOnceAnIntervalAndANewOneAtOnce(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.logins[c.host] = cloudconfig.Login{User: user, Password: "s3cret-p4ss-of-yesterday"}
	failure := s.fails()
	if failure.Reason != vsphere.LoginRefused || !strings.Contains(failure.Error(), "vCenter 127.0.0.1: log in: the user or the password is wrong") {
		t.Errorf("%s: %v", failure.Reason, failure)
	}
	if wait := s.Tick(t.Context()); wait != vsphere.Interval {
		t.Errorf("the next poll is in %s", wait)
	}
	// Five failed logins lock the account.
	for range 12 {
		s.clock.pass(25 * time.Second)
		s.PollSoon()
		s.Tick(t.Context())
	}
	if c.requests("Login") > 2 || s.woken != 1 {
		t.Errorf("%d log-ins in five minutes, %d wakes", c.requests("Login"), s.woken)
	}
	since := s.only().FailingSince
	s.logins[c.host] = cloudconfig.Login{User: user, Password: password}
	s.SetInputs("second")
	s.tick()
	if s.only().User != user || s.woken != 2 || since.IsZero() || !s.only().FailingSince.IsZero() {
		t.Errorf("%+v, %d wakes", s.only(), s.woken)
	}
	if strings.Count(s.log.String(), "does not answer") != 1 || strings.Count(s.log.String(), "answers again") != 1 {
		t.Error(s.log.String())
	}
}

func TestARefusedLoginIsNotTriedMoreOftenBecauseAnotherVCenterIsAway(t *testing.T) {
	one, two := startCenter(t, 1, nil), startCenter(t, 2, nil)
	s := newScene(t, one, two)
	s.logins[one.host] = cloudconfig.Login{User: user, Password: "s3cret-p4ss-of-yesterday"}
	two.server.Close()
	// Polls at 0:00, 0:30, 1:30 and 3:30.
	if polls := s.run(4 * time.Minute); polls != 4 || one.requests("Login") != 1 {
		t.Errorf("%d polls, %d log-ins", polls, one.requests("Login"))
	}
	if failure := s.Snapshot().VCenters[0].Err; failure == nil || failure.Reason != vsphere.LoginRefused {
		t.Errorf("%v", failure)
	}
	if s.run(6 * time.Minute); one.requests("Login") != 2 {
		t.Errorf("%d log-ins in ten minutes", one.requests("Login"))
	}
}

// Only a new login is tried at once, however often the configuration of the vCenter changes.
func TestARefusedLoginIsTriedOnceAnIntervalWhateverElseChanges(t *testing.T) {
	one, two := startCenter(t, 1, nil), startCenter(t, 2, nil)
	s := newScene(t, one, two)
	right, wrong := s.logins[one.host], cloudconfig.Login{User: user, Password: "s3cret-p4ss-of-yesterday"}
	s.logins[one.host] = wrong
	config, roots := s.config.VCenters, s.roots
	for step, change := range []func(){
		func() {},
		func() { s.roots = slices.Concat(roots, roots) },
		func() { s.config.VCenters = []cloudconfig.VCenterConfig{config[1], config[0]} },
		func() {
			s.config.VCenters = []cloudconfig.VCenterConfig{{Server: one.host, Port: one.port, Datacenters: []string{"DC0", "DC1"}}}
		},
		func() { s.config.VCenters = config[1:] },
		func() { s.config.VCenters, s.roots = config, roots },
		func() { s.SetInputs(""); s.Tick(t.Context()) },
		func() { s.logins[one.host] = cloudconfig.Login{} },
		func() { s.logins[one.host] = wrong },
	} {
		change()
		s.SetInputs(fmt.Sprint("step ", step))
		s.Tick(t.Context())
		s.clock.pass(time.Second)
		if logins := one.requests("Login"); logins != 1 {
			t.Errorf("step %d: %d log-ins", step, logins)
		}
	}
	if failure := s.Snapshot().VCenters[0].Err; failure == nil || failure.Reason != vsphere.LoginRefused {
		t.Errorf("%v", failure)
	}
	s.clock.pass(vsphere.Interval)
	if s.Tick(t.Context()); one.requests("Login") != 2 {
		t.Errorf("an interval later: %d log-ins", one.requests("Login"))
	}
	s.logins[one.host] = right
	s.SetInputs("the right one")
	s.tick()
}

// While a certificate is untrusted, each poll reads the CA certificates again.
func TestARefusedLoginIsNotTriedMoreOftenBecauseAnotherVCenterIsNotTrusted(t *testing.T) {
	one, two := startCenter(t, 1, nil), startCenter(t, 2, nil)
	s := newScene(t, one, two)
	s.logins[one.host] = cloudconfig.Login{User: user, Password: "s3cret-p4ss-of-yesterday"}
	s.roots = one.ca
	if polls := s.run(4 * time.Minute); polls != 4 || one.requests("Login") != 1 {
		t.Errorf("%d polls, %d log-ins", polls, one.requests("Login"))
	}
	if failure := s.Snapshot().VCenters[1].Err; failure == nil || failure.Reason != vsphere.UntrustedCertificate {
		t.Errorf("%v", failure)
	}
	// A new password is tried at once.
	s.logins[one.host] = cloudconfig.Login{User: user, Password: password}
	s.SetInputs("the right one")
	if s.Tick(t.Context()); s.Snapshot().VCenters[0].Err != nil {
		t.Errorf("%v", s.Snapshot().VCenters[0].Err)
	}
}
