package nodes

import (
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Only what a recent report says keeps a pod: nodes of which nothing is known are absent.
func TestNodesWhoseMountsHangKeepTheirPod(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.use("a")
	o.use("b")
	hanging := map[string]int{"a": 1, "b": 2, "elsewhere": 1}
	o.Hanging = func() (map[string]int, bool) { return hanging, false }
	if made := o.deletes(t, 0, ""); made.Reason != Paused || !strings.Contains(made.Message, "because mounts hang there: a, b.") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
	hanging = map[string]int{"a": 1}
	o.deletes(t, surveyInterval, "b")
	o.replaced(true, "b")
	hanging = nil
	// The pods on b have the time to become unready.
	o.deletes(t, 2*time.Second, "")
	o.deletes(t, mostSettle, "a")
}

// Mounts can remain on a node without pods that use volumes.
func TestAnIdleNodeWhoseMountsHangKeepsItsPod(t *testing.T) {
	o := operate("a", "b", "c")
	awaited := true
	o.Hanging = func() (map[string]int, bool) { return map[string]int{"a": 1}, awaited }
	// Node a comes first, but is no canary. That is known although not all nodes have answered.
	o.deletes(t, 0, "b")
	awaited = false
	o.replaced(true, "b")
	o.deletes(t, surveyInterval, "c")
	o.replaced(true, "c")
	if made := o.deletes(t, surveyInterval, ""); made.Reason != Paused || !strings.Contains(made.Message, "because mounts hang there: a.") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
}

// An operator that has just started knows nothing of the mounts that its predecessor knew. It waits for the first answer, and not for ever.
func TestNodesInUseWaitForTheFirstAnswerAboutMounts(t *testing.T) {
	for name, tc := range map[string]struct {
		first map[string]int
		// then is what the operator replaces once the wait has ended, and says.
		then, says string
	}{
		"mounts hang":    {map[string]int{"a": 1, "b": 1}, "", "because mounts hang there: a, b."},
		"one node hangs": {map[string]int{"a": 1}, "b", "because mounts hang there: a."},
		"nothing hangs":  {map[string]int{}, "a", ""},
		"no answer":      {nil, "a", "it is unknown whether mounts hang on nodes in use"},
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b", "c", "d")
			o.replaced(true, "d")
			o.use("a")
			o.use("b")
			hanging, awaited := map[string]int(nil), true
			o.Hanging = func() (map[string]int, bool) { return hanging, awaited }
			// An idle node does not wait.
			if made := o.deletes(t, 0, "c"); made.Reason != ReplacingPods || !strings.Contains(made.Message, "wait up to two minutes for Prometheus") {
				t.Errorf("%s: %s", made.Reason, made.Message)
			}
			o.replaced(true, "c")
			if made := o.deletes(t, surveyInterval, ""); made.Reason != ReplacingPods || made.Again == 0 || made.Again > settleInterval {
				t.Errorf("%s, again in %s: %s", made.Reason, made.Again, made.Message)
			}
			hanging, awaited = tc.first, false
			if made := o.deletes(t, settleInterval, tc.then); !strings.Contains(made.Message, tc.says) || strings.Contains(made.Message, "Prometheus") {
				t.Error(made.Message)
			}
		})
	}
}

// A broken node pod and an administrator do not wait.
func TestTheFirstAnswerAboutMountsHoldsNothingThatAStallWouldNotHold(t *testing.T) {
	awaits := func(p *Plan) { p.Reports = reportsAwaited }
	for nodes, want := range map[string]string{"a:old,used,broken": "a", "a:old": "a", "a:old,used": ""} {
		plan := planOf(driver.IdleFirst, nodes)
		awaits(&plan)
		if got := strings.Join(plan.Next(), " "); got != want {
			t.Errorf("%s: next is %q, want %q", nodes, got, want)
		}
	}
	plan := planOf(driver.IdleFirst, "a:old,used")
	awaits(&plan)
	plan.Now = true
	if got := plan.Next(); len(got) != 1 {
		t.Errorf("next is %q, although an administrator wants it now", got)
	}
}
