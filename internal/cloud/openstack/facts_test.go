package openstack_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
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
		if got := names(facts.ShareTypes); got != tc.types || goldIsGone(facts) != tc.gone {
			t.Errorf("%s: types %q, gone %t; want %q, %t", name, got, goldIsGone(facts), tc.types, tc.gone)
		}
	}
}

func TestErrorsKeepWhatIsKnown(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	facts := openstack.Merge(openstack.Facts{}, openstack.Answer{HasManila: true, ComputeZones: []string{"a"}}, begin)
	var first string
	for _, after := range []time.Duration{5 * time.Minute, 6 * time.Minute, 8 * time.Minute} {
		facts = openstack.Merge(facts, openstack.Answer{Err: errors.New("no answer")}, begin.Add(after))
		first = cmp.Or(first, facts.Problem())
		if facts.FailingSince != begin.Add(5*time.Minute) || !facts.HasManila || len(facts.ComputeZones) != 1 || !facts.Known() || facts.Problem() != first {
			t.Errorf("after %s: %q, %+v", after, facts.Problem(), facts)
		}
	}
	if facts.Failures != 3 || openstack.ReasonOf(facts.Err) != openstack.Unreachable || !strings.Contains(first, "The last answer, of 2026-05-01T10:00:00Z") {
		t.Errorf("%d failures, %q", facts.Failures, first)
	}
	facts = openstack.Merge(facts, openstack.Answer{HasManila: true}, begin.Add(21*time.Minute))
	if facts.Err != nil || facts.Problem() != "" || facts.Failures != 0 || !facts.FailingSince.IsZero() {
		t.Errorf("after an answer: %+v", facts)
	}
}

// Pods are restarted when zones are others, and a driver without its service is degraded. A cloud that restarts a part of itself may leave
// something out of one answer.
func TestAChangeCountsWhenTheSecondAnswerHasIt(t *testing.T) {
	answer := func(compute string) openstack.Answer {
		return openstack.Answer{ComputeZones: strings.Fields(compute), VolumeZones: []string{"a", "b"}, HasManila: compute != ""}
	}
	failure := openstack.Answer{Err: errors.New("no answer")}
	for name, tc := range map[string]struct {
		answers  []openstack.Answer
		zones    string
		repeated bool
		manila   bool
	}{
		"nothing is known":              {},
		"the first answer":              {answers: []openstack.Answer{answer("a b")}, zones: "a b", manila: true},
		"the same again":                {answers: []openstack.Answer{answer("a b"), answer("a b")}, zones: "a b", repeated: true, manila: true},
		"one lacks a zone":              {answers: []openstack.Answer{answer("a b"), answer("a")}, zones: "a b", manila: true},
		"one lacks a zone, then not":    {answers: []openstack.Answer{answer("a b"), answer("a"), answer("a b")}, zones: "a b", manila: true},
		"one in two lacks it":           {answers: []openstack.Answer{answer("a b"), answer("a"), answer("a b"), answer("a")}, zones: "a b", manila: true},
		"two lack a zone":               {answers: []openstack.Answer{answer("a b"), answer("a"), answer("a")}, zones: "a", repeated: true, manila: true},
		"two lack a zone, error beside": {answers: []openstack.Answer{answer("a b"), answer("a"), failure, answer("a")}, zones: "a", repeated: true, manila: true},
		"the first one lacks a zone":    {answers: []openstack.Answer{answer("a"), answer("a b"), answer("a b")}, zones: "a b", repeated: true, manila: true},
		"another one each time":         {answers: []openstack.Answer{answer("a b"), answer("a"), answer("b")}, zones: "a b", manila: true},
		"one lacks all":                 {answers: []openstack.Answer{answer("a b"), answer("")}, zones: "a b", manila: true},
		"two lack all":                  {answers: []openstack.Answer{answer("a b"), answer(""), answer("")}, repeated: true},
		"all are back":                  {answers: []openstack.Answer{answer(""), answer("a b")}, manila: true},
	} {
		facts := openstack.Facts{}
		for _, one := range tc.answers {
			facts = openstack.Merge(facts, one, time.Now())
		}
		if got := strings.Join(facts.ComputeZones, " "); got != tc.zones || facts.ZonesRepeated() != tc.repeated || facts.HasManila != tc.manila {
			t.Errorf("%s: zones %q, repeated %t, Manila %t", name, got, facts.ZonesRepeated(), facts.HasManila)
		}
	}
}
