package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
)

// clock is a clock that tests advance.
type clock struct {
	mutex sync.Mutex
	at    time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.at
}

func (c *clock) pass(by time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.at = c.at.Add(by)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) *fakeopenstack.Cloud {
	t.Helper()
	cloud, err := fakeopenstack.Start()
	must(t, err)
	t.Cleanup(cloud.Close)
	return cloud
}

// connect creates a client from the fake's Secret. Its timeout is long, because the machine may be busy.
func connect(t *testing.T, cloud *fakeopenstack.Cloud, clouds []byte) *openstack.Client {
	t.Helper()
	return connectFor(t, cloud, clouds, time.Minute)
}

func connectFor(t *testing.T, cloud *fakeopenstack.Cloud, clouds []byte, timeout time.Duration) *openstack.Client {
	t.Helper()
	credentials, err := openstack.Parse(clouds)
	must(t, err)
	now := time.Now
	// The limit is a small one, so that few bytes exceed it.
	client, err := openstack.New(credentials, openstack.Options{
		Roots: cloud.CA, Now: now, Timeout: timeout, Budget: &poll.Budget{Now: now, Limit: 100}, MaxAnswer: 1 << 20,
	})
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

// scene is a Poller with a fake cloud, a fake clock and a log.
type scene struct {
	*openstack.Poller
	t     *testing.T
	cloud *fakeopenstack.Cloud
	clock *clock
	// woken counts calls of Wake; log has all log lines; clouds is the Secret's content.
	woken  int
	log    strings.Builder
	clouds []byte
	reads  int
}

func newScene(t *testing.T, ask openstack.Questions) *scene {
	t.Helper()
	s := &scene{t: t, cloud: start(t), clock: newClock()}
	s.cloud.SetClock(s.clock.now)
	s.clouds = s.cloud.CloudsYAML(false)
	s.Poller = &openstack.Poller{
		Ask: ask, Now: s.clock.now, Wake: func() { s.woken++ }, Jitter: func(pause time.Duration) time.Duration { return pause },
		Log: funcr.New(func(prefix, args string) { fmt.Fprintln(&s.log, prefix, args) }, funcr.Options{Verbosity: 10}),
		Source: func(context.Context) (openstack.Credentials, []byte, error) {
			s.reads++
			credentials, err := openstack.Parse(s.clouds)
			return credentials, s.cloud.CA, err
		},
	}
	s.SetInputs("first")
	return s
}

// run advances the clock, ticks whenever a tick is due, and returns the number of ticks.
func (s *scene) run(duration time.Duration) int {
	s.t.Helper()
	ticks := 0
	for end := s.clock.now().Add(duration); ; ticks++ {
		wait := s.Tick(s.t.Context())
		if wait <= 0 {
			s.t.Fatalf("tick %d: wait %s", ticks, wait)
		}
		if !s.clock.now().Add(wait).Before(end) {
			s.clock.pass(end.Sub(s.clock.now()))
			return ticks + 1
		}
		s.clock.pass(wait)
	}
}

// names returns the names of share types.
func names(types []openstack.ShareType) string {
	var found []string
	for _, one := range types {
		found = append(found, one.Name)
	}
	return strings.Join(found, " ")
}

// goldIsGone reports whether two answers in a row lack share type gold.
func goldIsGone(facts openstack.Facts) bool {
	return facts.Repeated() && facts.HasManila && !strings.Contains(" "+names(facts.ShareTypes)+" ", " gold ")
}
