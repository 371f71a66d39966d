package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers stands for the cluster. It keeps what is sent, and answers with the next version or with an error.
type answers struct {
	client.SubResourceWriter
	sent    []string
	err     error
	version int
}

func (a *answers) Status() client.SubResourceWriter { return a }

func (a *answers) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	set := client.SubResourcePatchOptions{}
	set.ApplyOptions(options)
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return a.answer(object, fmt.Sprintf("%s %s %s", patch.Type(), set.FieldManager, data))
}

func (a *answers) Apply(_ context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	set := client.SubResourceApplyOptions{}
	set.ApplyOpts(options)
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	target, ok := object.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	return a.answer(target, fmt.Sprintf("apply %s force=%v %s", set.FieldManager, *set.Force, data))
}

func (a *answers) answer(object client.Object, sent string) error {
	a.sent = append(a.sent, sent)
	if a.err == nil {
		a.version++
		object.SetResourceVersion(fmt.Sprint(100 + a.version))
	}
	return a.err
}

func target() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "one", "uid": "1-2"},
	}}
}

// writing has a Writer, its cluster and its clock.
type writing struct {
	*Writer
	cluster *answers
	now     time.Time
}

func newWriting() *writing {
	w := &writing{cluster: &answers{}, now: time.Unix(1000, 0)}
	w.Writer = &Writer{Client: w.cluster, Owner: "us", Now: func() time.Time { return w.now }}
	return w
}

// report writes, and returns the wait and what was sent.
func (w *writing) report(t *testing.T, report Report) (time.Duration, []string) {
	t.Helper()
	w.cluster.sent = nil
	if report.Target == nil {
		report.Target = target()
	}
	wait, err := w.Write(t.Context(), report)
	if err != nil {
		t.Fatal(err)
	}
	return wait, w.cluster.sent
}

func TestAStatusIsAppliedToOneObjectByItsFieldManager(t *testing.T) {
	w := newWriting()
	var remembered *unstructured.Unstructured
	w.Remember = func(answer *unstructured.Unstructured) { remembered = answer }
	_, sent := w.report(t, Report{
		Have: &operatorv1.OperatorStatus{}, Want: &operatorv1.OperatorStatus{ObservedGeneration: 3}, Without: []string{"readyReplicas"},
	})
	want := []string{`apply us force=true {"apiVersion":"v1","kind":"Thing","metadata":{"name":"one","uid":"1-2"},"status":{"observedGeneration":3}}`}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error(diff)
	}
	if remembered == nil || remembered.GetResourceVersion() != "101" {
		t.Errorf("the answer is not remembered: %v", remembered)
	}
	w = newWriting()
	_, sent = w.report(t, Report{Have: map[string]any{"a": "b"}, Want: map[string]any{}})
	if len(sent) != 1 || !strings.HasSuffix(sent[0], `"status":{}}`) {
		t.Errorf("when nothing is left to report: %v", sent)
	}
}

func TestAStatusIsWrittenOnlyIfSomethingIsNew(t *testing.T) {
	one := func(state operatorv1.ConditionStatus, reason, message string) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: "Available", Status: state, Reason: reason, Message: message}
	}
	have := func(change func(*operatorv1.OperatorStatus)) *operatorv1.OperatorStatus {
		state := &operatorv1.OperatorStatus{
			ObservedGeneration: 1, Version: "1", ReadyReplicas: 2,
			Generations: []operatorv1.GenerationStatus{{Name: "x", LastGeneration: 1}},
			Conditions:  []operatorv1.OperatorCondition{one("True", "AsExpected", "a"), {Type: "Other", Status: "False"}},
		}
		if change != nil {
			change(state)
		}
		return state
	}
	for name, tc := range map[string]struct {
		change func(*operatorv1.OperatorStatus)
		want   difference
	}{
		"nothing": {nil, same},
		"the order of conditions": {func(s *operatorv1.OperatorStatus) {
			s.Conditions[0], s.Conditions[1] = s.Conditions[1], s.Conditions[0]
		}, same},
		"a transition time":   {func(s *operatorv1.OperatorStatus) { s.Conditions[0].LastTransitionTime.Time = time.Unix(5, 0) }, same},
		"a message":           {func(s *operatorv1.OperatorStatus) { s.Conditions[0].Message = "b" }, otherTexts},
		"a number of pods":    {func(s *operatorv1.OperatorStatus) { s.ReadyReplicas = 1 }, otherTexts},
		"a status":            {func(s *operatorv1.OperatorStatus) { s.Conditions[0].Status = "False" }, otherOutcome},
		"a reason":            {func(s *operatorv1.OperatorStatus) { s.Conditions[0].Reason = "Else" }, otherOutcome},
		"a status and a text": {func(s *operatorv1.OperatorStatus) { s.Conditions[0] = one("False", "Else", "b") }, otherOutcome},
		"a new condition": {func(s *operatorv1.OperatorStatus) {
			s.Conditions = append(s.Conditions, operatorv1.OperatorCondition{Type: "New"})
		}, otherOutcome},
		"a condition less":     {func(s *operatorv1.OperatorStatus) { s.Conditions = s.Conditions[:1] }, otherOutcome},
		"no condition at all":  {func(s *operatorv1.OperatorStatus) { s.Conditions = nil }, otherOutcome},
		"a generation":         {func(s *operatorv1.OperatorStatus) { s.Generations[0].LastGeneration = 2 }, otherOutcome},
		"no generation":        {func(s *operatorv1.OperatorStatus) { s.Generations = nil }, otherOutcome},
		"the spec that counts": {func(s *operatorv1.OperatorStatus) { s.ObservedGeneration = 2 }, otherOutcome},
		"a version":            {func(s *operatorv1.OperatorStatus) { s.Version = "2" }, otherOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := fieldsOf(have(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			after, err := fieldsOf(have(tc.change), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := compare(before, after); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			_, sent := newWriting().report(t, Report{Have: have(nil), Want: have(tc.change)})
			if wrote := len(sent) > 0; wrote != (tc.want != same) {
				t.Errorf("sent %v", sent)
			}
		})
	}
}

func TestTextsAreWrittenMoreRarelyThanVerdicts(t *testing.T) {
	state := func(reason, message string) *operatorv1.OperatorStatus {
		return &operatorv1.OperatorStatus{Conditions: []operatorv1.OperatorCondition{{Type: "A", Reason: reason, Message: message}}}
	}
	for name, tc := range map[string]struct {
		after time.Duration
		want  *operatorv1.OperatorStatus
		kind  Report
		wait  time.Duration
	}{
		"a text at once":         {0, state("x", "2"), Report{}, textInterval},
		"a text soon":            {2 * time.Second, state("x", "2"), Report{}, 3 * time.Second},
		"a text in time":         {textInterval, state("x", "2"), Report{}, 0},
		"a verdict at once":      {0, state("y", "2"), Report{}, writeInterval},
		"a verdict soon":         {writeInterval - time.Millisecond, state("y", "2"), Report{}, time.Millisecond},
		"a verdict in time":      {writeInterval, state("y", "2"), Report{}, 0},
		"progress soon":          {textInterval, state("y", "2"), Report{Gradual: true}, progressInterval - textInterval},
		"progress in time":       {progressInterval, state("y", "2"), Report{Gradual: true}, 0},
		"an urgent one at once":  {0, state("x", "2"), Report{Urgent: true}, 0},
		"the clock was set back": {-time.Minute, state("y", "2"), Report{Urgent: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriting()
			if wait, sent := w.report(t, Report{Have: state("", ""), Want: state("x", "1")}); wait != 0 || len(sent) != 1 {
				t.Fatalf("the first report waits for %s, sent %v", wait, sent)
			}
			w.now = w.now.Add(tc.after)
			tc.kind.Have, tc.kind.Want = state("x", "1"), tc.want
			wait, sent := w.report(t, tc.kind)
			if wait != tc.wait || (wait == 0) != (len(sent) == 1) {
				t.Errorf("waits for %s, want %s; sent %v", wait, tc.wait, sent)
			}
			other := target()
			other.SetName("other")
			if wait, sent := w.report(t, Report{Target: other, Have: state("", ""), Want: state("x", "1")}); wait != 0 || len(sent) != 1 {
				t.Errorf("another object waits for %s, sent %v", wait, sent)
			}
		})
	}
}

func TestStaleConditionsAreDroppedBeforeTheStatusIsWritten(t *testing.T) {
	w := newWriting()
	all := []operatorv1.OperatorCondition{{Type: "Ours"}, {Type: "Old"}}
	state := &operatorv1.OperatorStatus{Conditions: all[:1]}
	report := Report{
		Have: state, Want: state, Without: []string{"readyReplicas"}, Conditions: all,
		Stale: func(condition operatorv1.OperatorCondition) bool { return condition.Type == "Old" },
	}
	_, sent := w.report(t, report)
	want := []string{
		`application/json-patch+json us [{"op":"test","path":"/status/conditions/1/type","value":"Old"},{"op":"remove","path":"/status/conditions/1"}]`,
		`apply us force=true {"apiVersion":"v1","kind":"Thing","metadata":{"name":"one","uid":"1-2"},` +
			`"status":{"conditions":[{"lastTransitionTime":null,"status":"","type":"Ours"}]}}`,
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error(diff)
	}
	if wait, _ := w.report(t, report); wait != writeInterval {
		t.Errorf("waits for %s", wait)
	}
	report.Conditions = all[:1]
	if wait, sent := w.report(t, report); wait != 0 || len(sent) != 0 {
		t.Errorf("without any: waits for %s, sent %v", wait, sent)
	}
	w.cluster.err = errors.New("no")
	report.Conditions, report.Urgent, report.Target = all, true, target()
	if _, err := w.Write(t.Context(), report); err == nil || err.Error() != "drop stale conditions of Thing one: no" {
		t.Errorf("error %v", err)
	}
}

func TestAnObjectThatHasGoneNeedsNoReport(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	uid := errors.New("Precondition failed: UID in precondition: 1-2, UID in object meta: 3-4")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"deleted":                  {apierrors.NewNotFound(things, "one"), ""},
		"deleted and made anew":    {apierrors.NewConflict(things, "one", uid), ""},
		"somebody else's write":    {apierrors.NewConflict(things, "one", errors.New("x")), "write status of Thing here/one: "},
		"refused by an API server": {errors.New("no"), "write status of Thing here/one: no"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriting()
			w.cluster.err = tc.err
			w.Remember = func(*unstructured.Unstructured) { t.Error("remembers what was not written") }
			one := target()
			one.SetNamespace("here")
			_, err := w.Write(t.Context(), Report{Target: one, Have: map[string]any{}, Want: map[string]any{"a": "b"}})
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.Is(err, tc.err) || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if wait := w.Behind(one); wait != 0 {
				t.Errorf("waits %s for a write that was none", wait)
			}
		})
	}
}

func TestTheCacheIsWaitedForUntilItShowsTheLastWrite(t *testing.T) {
	w := newWriting()
	cached := target()
	cached.SetResourceVersion("100")
	if wait := w.Behind(cached); wait != 0 {
		t.Errorf("before any write it waits for %s", wait)
	}
	w.report(t, Report{Have: map[string]any{}, Want: map[string]any{"a": "b"}})
	written := w.now
	for _, tc := range []struct {
		version   string
		age, want time.Duration
	}{
		{"100", 0, staleAfter},
		{"100", 10 * time.Second, 20 * time.Second},
		{"101", 0, 0},
		{"102", 0, 0},
		// After etcd was restored, the resource version of the last write never comes back.
		{"100", staleAfter, 0},
		{"100", time.Hour, 0},
	} {
		cached.SetResourceVersion(tc.version)
		w.now = written.Add(tc.age)
		if got := w.Behind(cached); got != tc.want {
			t.Errorf("version %s after %s: waits for %s, want %s", tc.version, tc.age, got, tc.want)
		}
	}
	w.now = written
	spec := target()
	spec.SetResourceVersion("105")
	w.Wrote(spec)
	cached.SetResourceVersion("104")
	if got := w.Behind(cached); got != staleAfter {
		t.Errorf("another write than that of the status is waited for %s", got)
	}
	w.Evict(client.ObjectKeyFromObject(cached))
	if got := w.Behind(cached); got != 0 {
		t.Errorf("what has gone is waited for %s", got)
	}
}
