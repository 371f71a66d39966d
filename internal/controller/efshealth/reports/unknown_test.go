package reports

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
)

func TestAfterARestartTheConditionStaysUntilPrometheusAnswersOrTheWaitEnds(t *testing.T) {
	from := &scripted{err: errors.New("no route")}
	s := start(t, from)
	s.condition = &operatorv1.OperatorCondition{Type: "AWSEFSMountsStalled", Status: operatorv1.ConditionTrue, Reason: "MountsStalled", Message: "old"}
	for range patience / retryInterval {
		s.expect(t, retryInterval, operatorv1.ConditionTrue, "MountsStalled", "old")
		if hanging, _, awaited := s.Hanging(); hanging != nil || !awaited {
			t.Errorf("nodes hang by a condition that is not checked: %v, awaited: %t", hanging, awaited)
		}
	}
	s.expect(t, retryInterval, operatorv1.ConditionUnknown, "NoAnswer", "it is unknown whether mounts of EFS hang: no route")
	if s.hanging(t) != nil {
		t.Errorf("nodes hang without an answer: %v", s.hanging(t))
	}
	// Prometheus answers a roll-out that no longer waits.
	*from = *healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1, "node", "a")}
	s.after(t, interval)
	if s.hanging(t)["a"] != 1 {
		t.Errorf("nodes hang: %v", s.hanging(t))
	}
}

// The controller of the driver can ask before the controller that configures the Watch, and also if that one fails for ever.
func TestTheWaitForTheFirstAnswerEndsWithoutAConfiguration(t *testing.T) {
	s := start(t, healthy())
	for pause, want := range map[time.Duration]bool{0: true, patience - time.Second: true, patience: false, time.Hour: false} {
		s.Watch = &Watch{Now: s.Now}
		began := s.now
		s.Hanging()
		s.now = began.Add(pause)
		if hanging, _, awaited := s.Hanging(); hanging != nil || awaited != want {
			t.Errorf("after %s: %v, awaited: %t, want %t", pause, hanging, awaited, want)
		}
		// The first configuration comes late, and does not extend the wait.
		s.Configure(true)
		if _, _, awaited := s.Hanging(); awaited != want {
			t.Errorf("configured after %s: awaited: %t, want %t", pause, awaited, want)
		}
	}
}

// A configuration in between does not extend the wait, and a driver that is installed again gets one of its own.
func TestEachInstallationWaitsOnce(t *testing.T) {
	s := start(t, &scripted{err: errors.New("no route")})
	s.after(t, 0)
	s.now = s.now.Add(patience)
	s.Configure(true)
	if _, _, awaited := s.Hanging(); awaited {
		t.Error("the wait begins anew without a reason")
	}
	s.Configure(false)
	if _, _, awaited := s.Hanging(); awaited {
		t.Error("an answer is awaited although no node reports")
	}
	s.Configure(true)
	if _, _, awaited := s.Hanging(); !awaited {
		t.Error("the second installation does not wait")
	}
}

// A pod without an address is no target of Prometheus, which then knows nothing of the node.
func TestANodeWithoutATargetIsUnknown(t *testing.T) {
	s := start(t, healthy(), pluginOn("a"), pluginOn("b"), pluginOn(""))
	s.expect(t, 0, operatorv1.ConditionFalse, "AsExpected", "")
	add := func(nodes ...string) {
		for _, node := range nodes {
			s.Objects = append(s.Objects, pluginOn(node))
		}
	}
	remove := func(node string) {
		s.Objects = slices.DeleteFunc(s.Objects, func(object client.Object) bool { return object.GetName() == "plugin-"+node })
	}
	// A node may just have come, or restarts.
	add("new", "dark")
	s.expect(t, interval, operatorv1.ConditionFalse, "AsExpected", "")
	s.expect(t, longSilence-interval, operatorv1.ConditionFalse, "AsExpected", "")
	remove("new")
	add("later")
	s.expect(t, interval, operatorv1.ConditionUnknown, "NodesDoNotReport", "it is unknown whether mounts of EFS hang on 1 nodes, because their pods "+
		"of DaemonSet aws-efs-node-health do not report: dark")
	// A node that left is not unknown.
	remove("later")
	remove("dark")
	s.expect(t, interval, operatorv1.ConditionFalse, "AsExpected", "")
}

// After a restart of the operator, it is open at first for how long a node has been silent. What was said before stays.
func TestTheFirstAnswersDoNotMakeUnknownNodesHealthy(t *testing.T) {
	s := start(t, healthy(), pluginOn("a"), pluginOn("b"), pluginOn("dark"))
	if got := s.after(t, 0); got != nil {
		t.Errorf("one answer is enough for %+v", got)
	}
	const unknown = "it is unknown whether mounts of EFS hang on 1 nodes, because their pods of DaemonSet aws-efs-node-health do not report: dark"
	s.expect(t, longSilence, operatorv1.ConditionUnknown, "NodesDoNotReport", unknown)
	again := start(t, healthy(), pluginOn("a"), pluginOn("b"), pluginOn("dark"))
	again.condition = s.condition
	for range 2 * longSilence / interval {
		again.expect(t, interval, operatorv1.ConditionUnknown, "NodesDoNotReport", unknown)
	}
}

// The first answer lacked a node, and no other answer comes.
func TestWithoutAnswersAPartialAnswerHidesNothing(t *testing.T) {
	from := healthy()
	s := start(t, from, pluginOn("a"), pluginOn("b"), pluginOn("dark"))
	for _, from.err = range []error{nil, errors.New("no route")} {
		if got := s.after(t, retryInterval); got != nil {
			t.Errorf("the condition is %+v", got)
		}
	}
	s.expect(t, retryInterval, operatorv1.ConditionUnknown, "NoAnswer", "it is unknown whether mounts of EFS hang: no route")
}

// A roll-out waits for nodes that do not report yet, and not for ever. Later, it waits for no node.
func TestARollOutWaitsForAnAnswerOfAllNodes(t *testing.T) {
	from := healthy()
	from.silent = []string{"a"}
	s := start(t, from)
	for pause, left := retryInterval, patience; left > pause; left -= pause {
		s.after(t, pause)
		if byNode, _, awaited := s.Hanging(); !awaited || byNode == nil {
			t.Errorf("%s before the end of the wait: %v, awaited: %t", left, byNode, awaited)
		}
	}
	s.after(t, 2*retryInterval)
	s.hanging(t)
	from.silent = nil
	s.after(t, interval)
	from.silent = []string{"a"}
	s.after(t, interval)
	s.hanging(t)
}

// A release of the operator replaces the pod that reports, while mounts hang. The node must not look healthy meanwhile, nor for ever hang.
func TestANodeThatBecomesSilentHangsUntilItsReportIsOld(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(2, "node", "a")}
	from.values[queryNames] = []prometheus.Sample{sample(60, "node", "a", "volume", "pv", "pod_uid", uidWeb, "problem", "stalled")}
	s := start(t, from, volumeOn("pv", "fs-11111111"), podOn("a", "web", uidWeb))
	const hangs = "node a: at least 2 mounts of EFS hang, such as file system fs-11111111 in pod my-project/web (PersistentVolume pv, the server does " +
		"not answer): do not unmount by force, find out why they hang"
	s.expect(t, 0, operatorv1.ConditionTrue, "MountsStalled", hangs)
	from.silent, from.values[queryNames] = []string{"a"}, nil
	for range longSilence / interval {
		s.expect(t, interval, operatorv1.ConditionTrue, "MountsStalled", hangs)
		// The roll-out does not wait that long.
		if byNode := s.hanging(t); (byNode["a"] == 2) != (s.now.Sub(s.state.stalls["a"].at) <= lasting) {
			t.Errorf("%s after the report, mounts hang: %v", s.now.Sub(s.state.stalls["a"].at), byNode)
		}
	}
	s.expect(t, interval, operatorv1.ConditionUnknown, "NodesDoNotReport", "it is unknown whether mounts of EFS hang on 1 nodes, because their pods of "+
		"DaemonSet aws-efs-node-health do not report: a")
	// A node that reports again, or left the cluster, does not hang.
	for _, targets := range [][]string{{"a", "b"}, {"b"}} {
		from.targets, from.silent, from.values[queryHanging] = []string{"a", "b"}, nil, []prometheus.Sample{sample(2, "node", "a")}
		s.after(t, interval)
		from.targets, from.values[queryHanging] = targets, nil
		if s.after(t, interval); len(s.hanging(t)) > 0 {
			t.Errorf("mounts hang: %v", s.hanging(t))
		}
	}
}

// The answers after a restart lack a node. What was said before stays only while it may still be true of that node.
func TestTheFirstAnswersEndWhatWasSaidOfNodesThatReport(t *testing.T) {
	const hangs = "node %: at least 2 mounts of EFS hang, such as file system fs-1 in pod shop/web (PersistentVolume pv): do not unmount by force"
	for name, tc := range map[string]struct {
		before string
		stays  bool
	}{
		"of the silent node":             {strings.ReplaceAll(hangs, "%", "worker-1.example.com"), true},
		"of the silent node and another": {strings.ReplaceAll(hangs, "%", "a") + "\n" + strings.ReplaceAll(hangs, "%", "worker-1.example.com"), true},
		"in a list":                      {silence([]string{"b", "worker-1.example.com"}), true},
		"of a node that reports":         {strings.ReplaceAll(hangs, "%", "a"), false},
		"of a node with a similar name":  {strings.ReplaceAll(hangs, "%", "worker-1.example.com.eu"), false},
		"of no node":                     {"it is unknown whether mounts of EFS hang: no route", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, healthy(), pluginOn("a"), pluginOn("b"), pluginOn("worker-1.example.com"))
			s.condition = &operatorv1.OperatorCondition{Type: "AWSEFSMountsStalled", Status: operatorv1.ConditionTrue, Reason: "MountsStalled", Message: tc.before}
			if tc.stays {
				s.expect(t, 0, operatorv1.ConditionTrue, "MountsStalled", tc.before)
				return
			}
			s.expect(t, 0, operatorv1.ConditionFalse, "AsExpected", "")
		})
	}
}
