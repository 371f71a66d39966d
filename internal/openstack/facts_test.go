package openstack_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/openstack"
)

func offers(types ...string) openstack.Answer {
	answer := openstack.Answer{HasManila: true}
	for _, name := range types {
		answer.ShareTypes = append(answer.ShareTypes, openstack.ShareType{Name: name, ID: name})
	}
	return answer
}

func TestAShareTypeIsGoneAfterTwoAnswersLackIt(t *testing.T) {
	failure := openstack.Answer{Err: errors.New("no answer")}
	none := openstack.Answer{}
	for name, tc := range map[string]struct {
		answers []openstack.Answer
		types   string
		gone    bool
	}{
		"nothing is known":             {},
		"only errors":                  {answers: []openstack.Answer{failure, failure, failure}},
		"there":                        {answers: []openstack.Answer{offers("a", "gold")}, types: "a gold"},
		"one answer since the start":   {answers: []openstack.Answer{offers("a")}, types: "a"},
		"two answers since the start":  {answers: []openstack.Answer{offers("a"), offers("a")}, types: "a", gone: true},
		"lacked once":                  {answers: []openstack.Answer{offers("a", "gold"), offers("a")}, types: "a gold"},
		"lacked once, then errors":     {answers: []openstack.Answer{offers("a", "gold"), offers("a"), failure, failure}, types: "a gold"},
		"lacked twice":                 {answers: []openstack.Answer{offers("a", "gold"), offers("a"), offers("a")}, types: "a", gone: true},
		"lacked twice, errors between": {answers: []openstack.Answer{offers("a", "gold"), offers("a"), failure, offers("a")}, types: "a", gone: true},
		"lacked, back, lacked":         {answers: []openstack.Answer{offers("gold"), offers(), offers("gold"), offers()}, types: "gold"},
		"back":                         {answers: []openstack.Answer{offers("gold"), offers(), offers(), offers("gold")}, types: "gold"},
		"no Manila":                    {answers: []openstack.Answer{offers("gold"), none, none, none}, types: "gold"},
		"lacked around no Manila":      {answers: []openstack.Answer{offers("gold"), offers(), none, offers()}, types: "", gone: true},
		"an empty list, twice":         {answers: []openstack.Answer{offers("gold"), offers(), offers()}, gone: true},
	} {
		facts, now := openstack.Facts{}, time.Now()
		for _, answer := range tc.answers {
			facts = openstack.Merge(facts, answer, now)
			now = now.Add(time.Minute)
		}
		if got := names(facts.ShareTypes); got != tc.types || facts.Gone("gold") != tc.gone {
			t.Errorf("%s: types %q, gone %t; want %q, %t", name, got, facts.Gone("gold"), tc.types, tc.gone)
		}
	}
}

func TestErrorsDegradeAfterTwoMinutesAndKeepWhatIsKnown(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	facts := openstack.Merge(openstack.Facts{}, openstack.Answer{HasManila: true, ComputeZones: []string{"a"}}, begin)
	for _, after := range []time.Duration{5 * time.Minute, 6 * time.Minute, 6*time.Minute + 59*time.Second} {
		facts = openstack.Merge(facts, openstack.Answer{Err: errors.New("no answer")}, begin.Add(after))
		if reason, _ := facts.Degraded(begin.Add(after)); reason != "" || !facts.HasManila || len(facts.ComputeZones) != 1 || !facts.Known() {
			t.Errorf("after %s: reason %q, %+v", after, reason, facts)
		}
	}
	if facts.Failures != 3 || facts.DegradedAt() != begin.Add(7*time.Minute) {
		t.Errorf("%d failures, degraded at %s", facts.Failures, facts.DegradedAt())
	}
	reason, first := facts.Degraded(begin.Add(7 * time.Minute))
	facts = openstack.Merge(facts, openstack.Answer{Err: errors.New("no answer")}, begin.Add(8*time.Minute))
	_, second := facts.Degraded(begin.Add(20 * time.Minute))
	if reason != string(openstack.Unreachable) || first != second || !strings.Contains(first, "The last answer is of 2026-05-01T10:00:00Z") {
		t.Errorf("reason %s: %q, later %q", reason, first, second)
	}
	facts = openstack.Merge(facts, openstack.Answer{HasManila: true}, begin.Add(21*time.Minute))
	if reason, message := facts.Degraded(begin.Add(time.Hour)); reason != "" || message != "" || facts.Problem() != "" || !facts.DegradedAt().IsZero() {
		t.Errorf("after an answer: %s %s", reason, message)
	}
}
