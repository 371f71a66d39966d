package storage

import (
	"errors"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// odd are the conditions that are not as they are if all is well, as "Type=Status Reason: message" without what the types of Plain begin with.
func odd(conditions []operatorv1.OperatorCondition) []string {
	var all []string
	for _, one := range conditions {
		if one.Reason != status.AsExpected {
			all = append(all, strings.TrimPrefix(one.Type, "PlainCSIDriverOperator")+"="+string(one.Status)+" "+one.Reason+": "+one.Message)
		}
	}
	return all
}

func TestWhatTheDeploymentOfAnOperatorLacksIsSaidInFull(t *testing.T) {
	const name = "Deployment openshift-cluster-csi-drivers/plain-operator of the operator of Plain: "
	const hint = ": look at its pods and their events"
	said := func(kind appsv1.DeploymentConditionType, is corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: kind, Status: is, Reason: reason, Message: "as the test says"}
	}
	with := func(done bool, change func(*appsv1.Deployment), conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
		made := deployment(done)
		made.Status.Conditions = conditions
		if change != nil {
			change(made)
		}
		return made
	}
	none := func(made *appsv1.Deployment) { made.Status.AvailableReplicas = 0 }
	const half = "0 of 1 pods have the newest version; 1 of 1 pods not ready"
	for what, tc := range map[string]struct {
		deployment *appsv1.Deployment
		later      time.Duration
		again      time.Duration
		want       []string
	}{
		"it is there":        {deployment: deployment(true)},
		"none":               {want: []string{"DeploymentProgressing=True Deploying: " + name + "it does not exist yet"}},
		"none for long":      {later: time.Hour, want: []string{"DeploymentProgressing=True Deploying: " + name + "it does not exist yet"}},
		"rolling out":        {deployment: with(false, nil), again: status.StuckAfter, want: []string{"DeploymentProgressing=True Deploying: " + name + half}},
		"nearly for long":    {deployment: with(false, nil), later: status.StuckAfter - time.Second, again: time.Second, want: []string{"DeploymentProgressing=True Deploying: " + name + half}},
		"for long":           {deployment: with(false, nil), later: status.StuckAfter, want: []string{"DeploymentProgressing=True Deploying: " + name + half, "DeploymentDegraded=True SyncError: " + name + "the roll-out has made no progress for 15m0s: " + half + hint}},
		"its pod is lost":    {deployment: with(true, none, said(appsv1.DeploymentProgressing, "True", "NewReplicaSetAvailable")), again: status.FailureWindow, want: []string{"DeploymentDegraded=False Retrying: " + name + "no pod is ready" + hint}},
		"and stays lost":     {deployment: with(true, none, said(appsv1.DeploymentProgressing, "True", "NewReplicaSetAvailable")), later: time.Hour, want: []string{"DeploymentDegraded=True SyncError: " + name + "no pod is ready" + hint}},
		"no pod can be made": {deployment: with(true, nil, said(appsv1.DeploymentReplicaFailure, "True", "FailedCreate")), want: []string{"DeploymentDegraded=True SyncError: " + name + "FailedCreate: as the test says" + hint}},
		"one could be made":  {deployment: with(true, nil, said(appsv1.DeploymentReplicaFailure, "False", "FailedCreate"))},
		"it takes too long":  {deployment: with(true, nil, said(appsv1.DeploymentProgressing, "False", "ProgressDeadlineExceeded")), want: []string{"DeploymentDegraded=True SyncError: " + name + "ProgressDeadlineExceeded: as the test says" + hint}},
	} {
		t.Run(what, func(t *testing.T) {
			now := at
			clock := func() time.Time { return now }
			m := &memory{failures: &status.Failures{Now: clock}, rollouts: &status.Rollouts{Now: clock}, waits: &status.Waits{Now: clock}}
			done := &result{choice: choice{entry: entries()[0]}, deployment: tc.deployment}
			conditions, again := m.deploymentConditions(done)
			if tc.later > 0 {
				now = at.Add(tc.later)
				conditions, again = m.deploymentConditions(done)
			}
			if diff := cmp.Diff(tc.want, odd(conditions), cmpopts.EquateEmpty()); diff != "" || again != tc.again {
				t.Errorf("again in %s, want %s (-want +got):\n%s", again, tc.again, diff)
			}
		})
	}
}

func TestARemovalThatDoesNotGoOnIsReportedInFull(t *testing.T) {
	now := at
	clock := func() time.Time { return now }
	m := &memory{failures: &status.Failures{Now: clock}, rollouts: &status.Rollouts{Now: clock}, waits: &status.Waits{Now: clock}}
	done := unneeded(entries()[0])
	const why = ", because the platform of the cluster is None"
	for _, step := range []struct {
		later time.Duration
		left  int
		again time.Duration
		want  []string
	}{
		{0, 3, status.StuckAfter, nil},
		{status.StuckAfter - time.Second, 3, time.Second, nil},
		{time.Second, 2, status.StuckAfter, nil},
		{status.StuckAfter, 2, 0, []string{"RemovalDegraded=True RemovalStuck: the removal has made no progress for 15m0s: waiting for pods"}},
		// More than there were is no progress.
		{time.Second, 3, 0, []string{"RemovalDegraded=True RemovalStuck: the removal has made no progress for 15m0s: waiting for pods"}},
		{time.Second, 1, status.StuckAfter, nil},
	} {
		now = now.Add(step.later)
		done.removal = removal{left: step.left, message: "waiting for pods"}
		conditions, again := m.conditionsOf(release(), done)
		want := append([]string{"RemovalProgressing=True Removing: waiting for pods" + why}, step.want...)
		if diff := cmp.Diff(want, odd(conditions)); diff != "" || again != step.again {
			t.Errorf("after %s again in %s, want %s (-want +got):\n%s", now.Sub(at), again, step.again, diff)
		}
	}
}

func TestTheEndOfAnOperatorOfOLMIsReportedInFull(t *testing.T) {
	common := []string{"OLMOperatorRemovalAvailable=True RemovingOLMOperator: "}
	for name, tc := range map[string]struct {
		done result
		want []string
	}{
		"it has just begun": {result{}, []string{"OLMOperatorRemovalProgressing=True RemovingOLMOperator: removing the operator of Plain that OLM installed"}},
		"it goes on":        {result{olmRemoval: olm.State{Message: "waiting for a pod"}}, []string{"OLMOperatorRemovalProgressing=True RemovingOLMOperator: waiting for a pod"}},
		"it fails": {result{olmErr: errors.New("refused")}, []string{
			"OLMOperatorRemovalDegraded=False Retrying: refused", "OLMOperatorRemovalProgressing=True RemovingOLMOperator: removing the operator of Plain that OLM installed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.done.entry, tc.done.removingOLM = entries()[0], true
			conditions, _ := newMemory().conditionsOf(release(), &tc.done)
			var got []string
			for _, one := range odd(conditions) {
				got = append(got, strings.TrimPrefix(one, "Plain"))
			}
			want := append(append([]string{}, tc.want...), common...)
			want = append(want, "CRAvailable=True RemovingOLMOperator: ", "CRProgressing=False RemovingOLMOperator: ")
			if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatKeepsDriversFromBeingJudgedIsSaidInFull(t *testing.T) {
	const missing = "Infrastructure cluster is missing: restore it. Until then, the operator starts and removes no driver"
	const nameless = "Infrastructure/cluster has no platform in status.platformStatus.type: until it has one, the operator starts and removes no driver"
	const unknown = "can't tell whether feature gate Feature is enabled: "
	const noGates = unknown + "FeatureGate cluster is missing: restore it"
	const lateGates = unknown + `FeatureGate cluster does not list the gates of release "2" yet`
	const noGate = "this release does not know feature gate Feature"
	release1 := &configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{{Version: "1"}}}}
	release2 := &configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{{Version: "2"}}}}
	for name, tc := range map[string]struct {
		infrastructure *configv1.Infrastructure
		gates          *configv1.FeatureGate
		tls            string
		want           string
	}{
		"no Infrastructure":        {nil, release2, "", "Retrying: " + missing},
		"no platform":              {infrastructure(""), release2, "", "Retrying: " + nameless},
		"no FeatureGate":           {infrastructure("AWS"), nil, "", "Retrying: Gated: " + noGates},
		"gates of another release": {infrastructure("AWS"), release1, "", "Retrying: Gated: " + lateGates},
		"a gate that is not there": {infrastructure("AWS"), release2, "", "Retrying: Gated: " + noGate},
		"another platform":         {infrastructure("Azure"), nil, "", "AsExpected: "},
		"a TLS profile":            {infrastructure("Azure"), nil, "correct it", "NotFollowed: correct it"},
		"both":                     {infrastructure("AWS"), nil, "correct it", "Retrying: Gated: " + noGates},
	} {
		t.Run(name, func(t *testing.T) {
			w := release()
			w.Infrastructure, w.FeatureGate, w.TLS.Problem = tc.infrastructure, tc.gates, tc.tls
			conditions, again := newMemory().starterConditions(w, choose(entries(), w.facts(entries())))
			degraded := status.Find(conditions, "CSIDriverStarterDegraded")
			if diff := cmp.Diff(tc.want, degraded.Reason+": "+degraded.Message); diff != "" || (again > 0) != strings.HasPrefix(tc.want, "Retrying") {
				t.Errorf("again in %s (-want +got):\n%s", again, diff)
			}
			// None of it keeps a cluster from an update, which may be what mends it.
			if upgradeable := status.Find(conditions, "CSIDriverStarterUpgradeable"); upgradeable.Status != operatorv1.ConditionTrue {
				t.Errorf("it says %+v", upgradeable)
			}
		})
	}
	// The same of several drivers is told of each, and once.
	w := release()
	w.Infrastructure = infrastructure("AWS")
	one, two := choice{entry: entries()[1], problem: "b"}, choice{entry: entries()[0], problem: "a"}
	conditions, _ := newMemory().starterConditions(w, []choice{one, two, one})
	if diff := cmp.Diff("Gated: b; Plain: a", status.Find(conditions, "CSIDriverStarterDegraded").Message); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAManagementStateThatIsNotFollowedIsReportedInFull(t *testing.T) {
	for state, want := range map[operatorv1.ManagementState]string{
		"Managed": "False AsExpected: ",
		"Removed": "True Removed: the cluster's storage can't be removed; the operator changes nothing while spec.managementState of Storage cluster is " +
			"Removed: set it to Managed, or to Unmanaged to manage storage by hand",
		"Force": `True Unknown: spec.managementState "Force" of Storage cluster is unknown: the operator changes nothing until you set it to Managed, Unmanaged or Removed`,
	} {
		made := managementCondition(state)
		if diff := cmp.Diff(want, string(made.Status)+" "+made.Reason+": "+made.Message); diff != "" || made.Type != "ManagementStateDegraded" {
			t.Errorf("%s (-want +got):\n%s", made.Type, diff)
		}
	}
}

// An object that waits for its finalizers is no success, though nothing has failed.
func TestWhatFailsToBeAppliedIsReportedWithItsDriver(t *testing.T) {
	change := func(action apply.Action, name, text string) apply.Change {
		return apply.Change{Action: action, Err: errors.New(text), Subject: apply.Subject{GroupVersionKind: schema.GroupVersionKind{Kind: "Role"}, ObjectKey: client.ObjectKey{Namespace: "x", Name: name}}}
	}
	done := &result{choice: choice{entry: entries()[0], decision: wanted}, err: errors.New("late"), changes: apply.ChangeSet{
		change(apply.Failed, "a", "refused"), change(apply.Terminating, "b", "is being deleted"), change(apply.Created, "c", "of no interest"),
	}, driver: driver("2", said("XAvailable", true, "")), deployment: deployment(true)}
	conditions, again := newMemory().conditionsOf(release(), done)
	want := []string{"StaticControllerDegraded=False Retrying: late\nRole x/a: refused\nRole x/b: is being deleted"}
	if diff := cmp.Diff(want, odd(conditions)); diff != "" || again != status.FailureWindow {
		t.Errorf("again in %s (-want +got):\n%s", again, diff)
	}
	done.thirdParty = "somebody's"
	conditions, _ = newMemory().conditionsOf(release(), done)
	if diff := cmp.Diff([]string{"StaticControllerDegraded=True ForeignCSIDriver: somebody's"}, odd(conditions)); diff != "" || len(conditions) != 1 {
		t.Errorf("of somebody else's driver (-want +got):\n%s", diff)
	}
}
