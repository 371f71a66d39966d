package openstack_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
)

var everything = openstack.Questions{Zones: true, ShareTypes: true}

func TestIdleMeansNoRequestButTheSchedules(t *testing.T) {
	s := newScene(t, everything)
	s.run(2 * time.Minute)
	if facts := s.Facts(); !facts.Known() || names(facts.ShareTypes) != "default" || !goldIsGone(facts) {
		t.Fatalf("%+v", facts)
	}
	woken := s.woken
	s.cloud.Reset()
	ticks := s.run(time.Hour)
	// An hour has twelve polls of three requests each, and one or two logins.
	logins, nova := s.cloud.Requests(fakeopenstack.Keystone), s.cloud.Requests(fakeopenstack.Nova)
	if nova != 12 || logins < 1 || logins > 2 || s.cloud.AllRequests() != 3*nova+logins || s.woken != woken || s.reads != 1 {
		t.Errorf("%d ticks: %d looks, %d log-ins, %d requests, %d wakes, %d reads of the Secret", ticks, nova, logins, s.cloud.AllRequests(),
			s.woken-woken, s.reads)
	}
	// Ticks between polls send no request.
	s.cloud.Reset()
	for range 100 {
		s.Tick(t.Context())
	}
	if s.cloud.AllRequests() > 4 {
		t.Errorf("%d requests at one moment", s.cloud.AllRequests())
	}
}

func TestACloudThatIsAwayTenMinutesCostsNoFactsAndFewRequests(t *testing.T) {
	s := newScene(t, everything)
	s.cloud.SetShareTypes(fakeopenstack.ShareType{Name: "gold"}, fakeopenstack.ShareType{Name: "slow"})
	tried := 0
	s.Connect = func(credentials openstack.Credentials, options openstack.Options) (openstack.Cloud, error) {
		count := options.Count
		options.Count = func(service string, status int) {
			if count(service, status); status == 0 {
				tried++
			}
		}
		return openstack.New(credentials, options)
	}
	s.run(10 * time.Minute)
	before := s.Facts()
	s.cloud.Away()
	woken := s.woken
	s.run(10 * time.Minute)
	during := s.Facts()
	reason, message := string(openstack.ReasonOf(during.Err)), during.Problem()
	if names(during.ShareTypes) != "gold slow" || !during.HasManila || during.Answered != before.Answered || goldIsGone(during) {
		t.Errorf("what was known is lost: %+v", during)
	}
	if reason != string(openstack.Unreachable) || !strings.Contains(message, "no connection: ") ||
		!strings.Contains(message, "The last answer, of ") {
		t.Errorf("reason %s: %s", reason, message)
	}
	if tried < 3 || tried > 8 || s.woken < woken+1 || s.woken > woken+2 {
		t.Errorf("%d requests in ten minutes, %d wakes", tried, s.woken-woken)
	}
	// Open connections fail differently from refused ones.
	if said := strings.Count(s.log.String(), "does not answer"); said < 1 || said > 2 {
		t.Errorf("log: %s", s.log.String())
	}
	must(t, s.cloud.Back())
	s.run(6 * time.Minute)
	after := s.Facts()
	if reason := after.Problem(); reason != "" || !after.Answered.After(before.Answered) || names(after.ShareTypes) != "gold slow" {
		t.Errorf("after: %s, %+v", reason, after)
	}
	hidesSecrets(t, s.cloud, s.log.String()+message)
}

func TestARestartDuringAnOutageKnowsNothingAndSaysNothingIsGone(t *testing.T) {
	s := newScene(t, everything)
	s.cloud.Away()
	s.run(10 * time.Minute)
	facts := s.Facts()
	message := facts.Problem()
	if facts.Known() || goldIsGone(facts) || facts.HasManila || !strings.Contains(message, "has not answered since the operator started") {
		t.Errorf("%s %+v", message, facts)
	}
}

func TestThePauseFollowsWhatTheCloudAsksFor(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fakeopenstack.Fault
		// want are the pauses after each poll.
		want []time.Duration
	}{
		"500":               {fault: fakeopenstack.Fault{Status: 500}, want: []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}},
		"429":               {fault: fakeopenstack.Fault{Status: 429, RetryAfter: "45"}, want: []time.Duration{45 * time.Second, time.Minute, 2 * time.Minute}},
		"Manila's own":      {fault: fakeopenstack.Fault{Status: 413, RetryAfter: "600"}, want: []time.Duration{10 * time.Minute, 10 * time.Minute}},
		"401 for ever":      {fault: fakeopenstack.Fault{Status: 401}, want: []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}},
		"truncated for all": {fault: fakeopenstack.Fault{Truncated: true}, want: []time.Duration{30 * time.Second, time.Minute}},
	} {
		s := newScene(t, openstack.Questions{ShareTypes: true})
		s.cloud.SetFault(fakeopenstack.Manila, tc.fault)
		for i, want := range tc.want {
			wait := s.Tick(t.Context())
			if wait > want || wait < want-time.Second {
				t.Errorf("%s: pause %d is %s, want %s", name, i, wait, want)
			}
			s.clock.pass(wait)
		}
	}
}

func TestRotatedCredentialsAreUsedAtOnce(t *testing.T) {
	s := newScene(t, openstack.Questions{ShareTypes: true})
	s.run(3 * time.Minute)
	user := s.cloud.User()
	user.Password = "another-p4ssword"
	s.cloud.SetUser(user)
	s.cloud.ExpireTokens()
	s.run(5 * time.Minute)
	facts := s.Facts()
	if openstack.ReasonOf(facts.Err) != openstack.CredentialsRejected || !strings.Contains(facts.Err.Error(), "renew the Secret") {
		t.Fatalf("with the old password: %v", facts.Err)
	}
	s.clouds = s.cloud.CloudsYAML(false)
	s.Tick(t.Context())
	if s.Facts().Err == nil {
		t.Fatal("nobody said yet that the Secret is another one")
	}
	s.SetInputs("second")
	s.cloud.Reset()
	if s.Tick(t.Context()); s.Facts().Err != nil || s.cloud.AllRequests() != 2 {
		t.Errorf("with the new password: %d requests, %v", s.cloud.AllRequests(), s.Facts().Err)
	}
	hidesSecrets(t, s.cloud, s.log.String()+facts.Problem())
	if strings.Contains(s.log.String(), "p4ssw0rd-of-the-user") {
		t.Error("the old password is in the log")
	}
}

// Keystone may lock a user after several failed logins, also for clients with the right password.
func TestRefusedCredentialsAreTriedOnceAnIntervalWhateverElseChanges(t *testing.T) {
	s := newScene(t, everything)
	right := s.cloud.User()
	changed := right
	changed.Password = "another-p4ssword"
	s.cloud.SetUser(changed)
	for i, change := range []func(){
		func() {}, func() { s.SetInputs("another CA") }, func() { s.SetInputs(""); s.Tick(t.Context()) }, func() { s.SetInputs("the same again") },
		func() { s.clock.pass(time.Minute) },
	} {
		change()
		s.Tick(t.Context())
		if logins := s.cloud.Requests(fakeopenstack.Keystone); logins != 1 || openstack.ReasonOf(s.Facts().Err) != openstack.CredentialsRejected {
			t.Errorf("step %d: %d log-ins, %v", i, logins, s.Facts().Err)
		}
	}
	s.cloud.Reset()
	if s.run(time.Hour); s.cloud.Requests(fakeopenstack.Keystone) > 12 || s.woken != 1 {
		t.Errorf("%d log-ins in an hour, %d wakes", s.cloud.Requests(fakeopenstack.Keystone), s.woken)
	}
	s.clouds = s.cloud.CloudsYAML(false)
	s.SetInputs("the right one")
	if s.Tick(t.Context()); s.Facts().Err != nil {
		t.Error(s.Facts().Err)
	}
}

func TestTheAnswersOfAPollAreBoundedTogether(t *testing.T) {
	s := newScene(t, everything)
	long := strings.Repeat(" ", 7<<20)
	zones := fakeopenstack.Fault{Body: `{"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": true}}]` + long + "}"}
	s.cloud.SetFault(fakeopenstack.Nova, zones)
	s.cloud.SetFault(fakeopenstack.Cinder, zones)
	s.cloud.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{Body: `{"share_types": []` + long + "}"})
	s.clock.pass(s.Tick(t.Context()))
	if err := s.Facts().Err; err == nil || !strings.Contains(err.Error(), "list the share types of Manila") || !strings.Contains(err.Error(), "of one poll together are too long") {
		t.Errorf("%v", err)
	}
	s.cloud.SetFault(fakeopenstack.Cinder, fakeopenstack.Fault{})
	s.cloud.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{})
	if s.Tick(t.Context()); s.Facts().Err != nil {
		t.Errorf("the poll after: %v", s.Facts().Err)
	}
}

func TestNewCredentialsMakeNoNewBudget(t *testing.T) {
	s := newScene(t, everything)
	var spent bool
	for i := range 30 {
		s.SetInputs(strings.Repeat("x", i+2))
		s.Tick(t.Context())
		spent = spent || openstack.ReasonOf(s.Facts().Err) == openstack.BudgetSpent && s.Facts().Err != nil
	}
	if got := s.cloud.AllRequests(); got != openstack.DefaultBudget || !spent {
		t.Errorf("%d requests within one moment, want %d; %v", got, openstack.DefaultBudget, s.Facts().Err)
	}
	if !s.Facts().Known() {
		t.Error("what was known is lost")
	}
	s.clock.pass(poll.Interval)
	if s.run(time.Minute); s.Facts().Err != nil {
		t.Errorf("afterwards: %v", s.Facts().Err)
	}
}

func TestWithoutCredentialsNobodyIsAsked(t *testing.T) {
	s := newScene(t, everything)
	s.SetInputs("")
	s.run(time.Hour)
	if s.cloud.AllRequests() != 0 || s.reads != 0 || s.Facts().Known() {
		t.Errorf("%d requests, %d reads", s.cloud.AllRequests(), s.reads)
	}
	s.SetInputs("first")
	if s.Tick(t.Context()); !s.Facts().Known() {
		t.Errorf("with credentials: %v", s.Facts().Err)
	}
	// The types disappear and return.
	s.SetInputs("")
	s.Tick(t.Context())
	if !s.Facts().Known() {
		t.Error("what was known is lost")
	}
	s.SetInputs("first")
	s.cloud.Reset()
	if s.Tick(t.Context()); s.cloud.AllRequests() == 0 {
		t.Error("the credentials are back, and nobody is asked")
	}
}

func TestASecretThatCannotBeReadIsSaidWithoutItsContent(t *testing.T) {
	s := newScene(t, everything)
	s.clouds = bytes.Replace(s.clouds, []byte("username"), []byte("user"), 1)
	s.run(3 * time.Minute)
	reason, message := string(openstack.ReasonOf(s.Facts().Err)), s.Facts().Problem()
	if reason != string(openstack.InvalidCredentials) || !strings.Contains(message, "auth.username: the user is missing: correct the Secret") {
		t.Errorf("%s: %s", reason, message)
	}
	hidesSecrets(t, s.cloud, message+s.log.String())
	s.Source = func(context.Context) (openstack.Credentials, []byte, error) {
		return openstack.Credentials{}, nil, errors.New("API server away")
	}
	s.SetInputs("other")
	s.Tick(t.Context())
	if reason := openstack.ReasonOf(s.Facts().Err); reason != openstack.InvalidCredentials || !strings.Contains(s.Facts().Err.Error(), "API server away") {
		t.Errorf("%s: %v", reason, s.Facts().Err)
	}
}

func TestHalfAnAnswerIsNone(t *testing.T) {
	s := newScene(t, everything)
	s.run(2 * time.Minute)
	s.cloud.SetZones([]fakeopenstack.Zone{{Name: "other"}}, []fakeopenstack.Zone{{Name: "other"}})
	s.cloud.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{Status: http.StatusInternalServerError})
	s.run(6 * time.Minute)
	if facts := s.Facts(); facts.Err == nil || facts.ComputeZones[0] != "nova" || !facts.HasManila {
		t.Errorf("%+v", facts)
	}
}

func TestATypeThatVanishesIsSoonAskedForAgain(t *testing.T) {
	s := newScene(t, openstack.Questions{ShareTypes: true})
	s.cloud.SetShareTypes(fakeopenstack.ShareType{Name: "gold"}, fakeopenstack.ShareType{Name: "slow"})
	s.run(2 * time.Minute)
	s.cloud.SetShareTypes(fakeopenstack.ShareType{Name: "slow"})
	s.clock.pass(poll.Interval)
	woken := s.woken
	wait := s.Tick(t.Context())
	if wait != time.Minute || goldIsGone(s.Facts()) || names(s.Facts().ShareTypes) != "gold slow" || s.woken != woken {
		t.Errorf("lacked once: wait %s, gone %t, %v", wait, goldIsGone(s.Facts()), s.Facts().ShareTypes)
	}
	s.clock.pass(wait)
	if wait = s.Tick(t.Context()); wait != poll.Interval || !goldIsGone(s.Facts()) || s.woken != woken+1 {
		t.Errorf("lacked twice: wait %s, gone %t, %d wakes", wait, goldIsGone(s.Facts()), s.woken-woken)
	}
}

func TestThePollerRunsUntilItsContextEnds(t *testing.T) {
	cloud := start(t)
	woken := make(chan struct{}, 10)
	poller := &openstack.Poller{
		Ask: everything, Now: time.Now, Wake: func() { woken <- struct{}{} },
		Source: func(context.Context) (openstack.Credentials, []byte, error) {
			credentials, err := openstack.Parse(cloud.CloudsYAML(true))
			return credentials, cloud.CA, err
		},
	}
	if !poller.NeedLeaderElection() {
		t.Error("every copy of the operator would ask")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- poller.Start(ctx) }()
	poller.SetInputs("now")
	select {
	case <-woken:
	case <-time.After(2 * time.Minute):
		t.Fatal("it was not asked")
	}
	cancel()
	if err := <-ended; err != nil || !poller.Facts().Known() {
		t.Errorf("%v, %+v", err, poller.Facts())
	}
}

func TestMetricsSayHowTheCloudAnswersInFewSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := openstack.NewMetrics(registry, "manila.csi.openstack.org")
	must(t, err)
	s := newScene(t, everything)
	s.Metrics = metrics
	s.run(time.Minute)
	for _, status := range []int{401, 403, 413, 429, 500, 503, 599, 302, 404} {
		s.cloud.SetFault(fakeopenstack.Nova, fakeopenstack.Fault{Status: status})
		s.run(10 * time.Minute)
	}
	s.cloud.Away()
	s.run(10 * time.Minute)
	series, answered := 0, 0.0
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		series += len(family.GetMetric())
		if family.GetName() == poll.MetricAnswered {
			answered = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if answered != float64(s.Facts().Answered.Unix()) || series < 8 || series > 4*7+1 {
		t.Errorf("%d series, answered at %.0f", series, answered)
	}
}

func TestRequestsToTheCloudAreCountedByServiceAndOutcome(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := openstack.NewMetrics(registry, "manila.csi.openstack.org")
	must(t, err)
	metrics.Answered(time.Unix(1000, 0))
	for _, status := range []int{413, 429, 500, 503} {
		metrics.Count("nova", status)
	}
	const calls = "csi_operator_cloud_calls_total manila.csi.openstack.org"
	want := map[string]float64{
		"csi_operator_cloud_answer_timestamp_seconds manila.csi.openstack.org": 1000, calls + " limited nova": 2, calls + " failed nova": 2,
	}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Error(diff)
	}
}
