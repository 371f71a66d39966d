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
	o.Hanging = func() (map[string]int, []string, bool) { return hanging, []string{"b", "c", "elsewhere"}, false }
	if made := o.deletes(t, 0, ""); made.Reason != Paused || !strings.Contains(made.Message, "because mounts hang there: a, b.") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
	hanging = map[string]int{"a": 1}
	if made := o.deletes(t, surveyInterval, "b"); !strings.Contains(made.Message, "nodes in use that do not report, and they do not wait for that: b;") {
		t.Error(made.Message)
	}
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
	o.Hanging = func() (map[string]int, []string, bool) { return map[string]int{"a": 1}, nil, awaited }
	// A removal that an administrator cancelled has reset the Updater.
	o.Reset()
	// Node a comes first, but is no canary. That is known although not all nodes have answered.
	if made := o.deletes(t, 0, "b"); !strings.Contains(made.Message, "because mounts hang there: a.") || strings.Contains(made.Message, "Prometheus") {
		t.Error(made.Message)
	}
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
			o.Hanging = func() (map[string]int, []string, bool) { return hanging, nil, awaited }
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

// TestWhatARolloutSaysOfMounts lists the nodes of which each text is true.
func TestWhatARolloutSaysOfMounts(t *testing.T) {
	const (
		hang = "; nodes keep their node pod, because mounts hang there: a. Find out why: the operator continues when the mounts work, or after you drain " +
			"and restart the node. Or force it"
		awaited = "; nodes in use wait up to two minutes for Prometheus to answer whether mounts hang there"
		unknown = "; it is unknown whether mounts hang on nodes in use, and they do not wait for that"
		silent  = "; it is unknown whether mounts hang on nodes in use that do not report, and they do not wait for that: "
	)
	for name, tc := range map[string]struct {
		policy driver.RolloutPolicy
		nodes  string
		known  knowledge
		want   string
	}{
		"nothing":                           {driver.IdleFirst, "a:old b:old,used", reportsKnown, ""},
		"an idle node hangs":                {driver.IdleFirst, "a:old,hanging", reportsKnown, hang},
		"it hangs with another policy":      {driver.WhenDrained, "a:old,hanging", reportsKnown, hang},
		"all are awaited":                   {driver.IdleFirst, "a:old,used b:old", reportsAwaited, awaited},
		"only idle nodes are awaited":       {driver.IdleFirst, "a:old b:old", reportsAwaited, ""},
		"awaited, and an idle node hangs":   {driver.IdleFirst, "a:old,hanging b:old", reportsAwaited, hang},
		"awaited, and a node in use hangs":  {driver.IdleFirst, "a:old,used,hanging b:old", reportsAwaited, hang},
		"one is awaited, and another hangs": {driver.IdleFirst, "a:old,used,hanging b:old,used", reportsAwaited, hang + awaited},
		"a broken node pod does not wait":   {driver.IdleFirst, "a:old,used,broken", reportsAwaited, ""},
		"awaited with another policy":       {driver.WhenDrained, "a:old,used", reportsAwaited, ""},
		"unknown":                           {driver.IdleFirst, "a:old,used", reportsUnknown, unknown},
		"unknown on idle nodes":             {driver.IdleFirst, "a:old", reportsUnknown, ""},
		"silent nodes in use":               {driver.IdleFirst, "a:old,used,silent b:old,used,silent c:old,used", reportsKnown, silent + "a, b"},
		"silent idle nodes":                 {driver.IdleFirst, "a:old,silent", reportsKnown, ""},
		"a silent node has its pod":         {driver.IdleFirst, "a:new,used,silent b:old", reportsKnown, ""},
		"a silent node is awaited":          {driver.IdleFirst, "a:old,used,silent", reportsAwaited, awaited},
		"silent with another policy":        {driver.WhenDrained, "a:old,used,silent", reportsKnown, ""},
		"a silent node hung just before":    {driver.IdleFirst, "a:old,used,silent,hanging b:old,used,silent", reportsKnown, hang + silent + "b"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(tc.policy, tc.nodes)
			plan.Reports = tc.known
			if got := plan.hangText(". Or force it"); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

// Idle nodes whose mounts hang do not get the new pod next, so they neither count as such nor hide what the roll-out waits for.
func TestIdleNodesWhoseMountsHangHideNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes   string
		pulling []string
		reason  string
		says    string
		hides   string
	}{
		"nodes pull":             {"a:old,hanging b:old,used c:new", []string{"b"}, PullingImages, "1 nodes in use pull the images", "idle nodes wait"},
		"an idle node goes, too": {"a:old,hanging b:old,used c:old", []string{"b"}, ReplacingPods, "; 1 idle nodes wait; ", "2 idle nodes wait"},
		"the time":               {"a:old,hanging b:old,used,hanging c:old,used d:old", nil, ReplacingPods, "this takes about 2 minutes", "2 idle nodes wait"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(driver.IdleFirst, tc.nodes)
			plan.Pulling = tc.pulling
			made := plan.progress("d", "7", time.Minute)
			if made.Reason != tc.reason || !strings.Contains(made.Message, tc.says) || strings.Contains(made.Message, tc.hides) {
				t.Errorf("%s: %s", made.Reason, made.Message)
			}
			// The metric counts all nodes that wait.
			if made.Idle != strings.Count(tc.nodes, ":old")-strings.Count(tc.nodes, "used") {
				t.Errorf("%d idle nodes wait", made.Idle)
			}
		})
	}
}
