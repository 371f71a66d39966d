package clustercsidriver

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// An API server that restarts raises no alert. What lasts does, and tells when it is to be looked at again.
func TestAnErrorDegradesAfterTwoMinutes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(o *outcome)
		kind   string
		want   string
	}{
		"outside of the changes": {func(o *outcome) { o.err = errors.New("no route") }, "ConfigObservationDegraded", "SyncError: no route"},
		"of a workload": {func(o *outcome) {
			o.changes = apply.ChangeSet{failed("DaemonSet", here, "disk-node", errors.New("no route"))}
		}, "NodesDegraded", "SyncError: DaemonSet storage-system/disk-node: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := clocked()
			cr, result := healthy()
			tc.change(&result)
			for _, step := range []struct {
				at    time.Duration
				again time.Duration
				state string
			}{
				{0, 2 * time.Minute, "False Retrying"},
				{90 * time.Second, 30 * time.Second, "False Retrying"},
				{2 * time.Minute, 0, "True " + tc.want},
			} {
				*now = began.Add(step.at)
				all, _, again := c.conditions(cr, result)
				got := texts(all)[tc.kind]
				if len(got) < len(step.state) || got[:len(step.state)] != step.state || again != step.again {
					t.Errorf("after %s: %s, and it looks again in %s; want %s, %s", step.at, got, again, step.state, step.again)
				}
			}
			_, fine := healthy()
			if all, _, again := c.conditions(cr, fine); texts(all)[tc.kind] != "False AsExpected" || again != 0 {
				t.Errorf("when it is over: %s, looks again in %s", texts(all)[tc.kind], again)
			}
			*now = now.Add(time.Hour)
			if all, _, _ := c.conditions(cr, result); texts(all)[tc.kind][:5] != "False" {
				t.Errorf("the next error has no patience: %s", texts(all)[tc.kind])
			}
		})
	}
}

func TestARolloutThatStandsStillDegradesItsWorkloadOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(o *outcome)
		want   map[string]string
	}{
		"of the controller": {func(o *outcome) { o.seen.live.deployment.Status.UpdatedReplicas = 1 }, map[string]string{
			"ControllerDegraded":    "True RolloutStuck: the roll-out has made no progress for 15m0s: 1 of 2 controller pods have the newest version; look at the pods and their events in namespace storage-system",
			"Degraded":              "True RolloutStuck: Controller: the roll-out has made no progress for 15m0s: 1 of 2 controller pods have the newest version; look at the pods and their events in namespace storage-system",
			"ControllerProgressing": "True Deploying: 1 of 2 controller pods have the newest version",
			"Progressing":           "True Deploying: Controller: 1 of 2 controller pods have the newest version",
		}},
		"of the node pods": {func(o *outcome) { o.seen.live.daemonSet.Status.UpdatedNumberScheduled = 2 }, map[string]string{
			"NodesDegraded":    "True RolloutStuck: the roll-out has made no progress for 15m0s: 2 of 3 nodes have the newest version; look at the pods and their events in namespace storage-system",
			"Degraded":         "True RolloutStuck: Nodes: the roll-out has made no progress for 15m0s: 2 of 3 nodes have the newest version; look at the pods and their events in namespace storage-system",
			"NodesProgressing": "True Deploying: 2 of 3 nodes have the newest version",
			"Progressing":      "True Deploying: Nodes: 2 of 3 nodes have the newest version",
		}},
		"of node pods that replace a predecessor's": {func(o *outcome) {
			o.moved = migration.Moved{Message: "waiting for node-7", Serving: 2, Stalled: true}
		}, map[string]string{
			"NodesDegraded":    "True RolloutStuck: the roll-out has made no progress for 15m0s: waiting for node-7; look at the pods and their events in namespace storage-system",
			"Degraded":         "True RolloutStuck: Nodes: the roll-out has made no progress for 15m0s: waiting for node-7; look at the pods and their events in namespace storage-system",
			"NodesProgressing": "True TakingOver: waiting for node-7",
			"Progressing":      "True TakingOver: Nodes: waiting for node-7",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := clocked()
			cr, result := healthy()
			tc.change(&result)
			all, _, again := c.conditions(cr, result)
			if texts(all)["Degraded"] != "False AsExpected" || again != status.StuckAfter {
				t.Errorf("at first: %s, looks again in %s", texts(all)["Degraded"], again)
			}
			*now = now.Add(status.StuckAfter)
			all, _, _ = c.conditions(cr, result)
			if diff := cmp.Diff(tc.want, differing(all)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// An error says more than that nothing goes on.
func TestAnErrorOfAWorkloadIsNotCalledStuck(t *testing.T) {
	c, now := clocked()
	cr, result := healthy()
	result.seen.live.daemonSet.Status.UpdatedNumberScheduled = 2
	result.changes = apply.ChangeSet{failed("DaemonSet", here, "disk-node", errors.New("refused"))}
	c.conditions(cr, result)
	*now = now.Add(status.StuckAfter)
	all, _, _ := c.conditions(cr, result)
	if got := texts(all)["NodesDegraded"]; got != "True SyncError: DaemonSet storage-system/disk-node: refused" {
		t.Error(got)
	}
}

func TestARemovalThatStandsStillDegradesTheNodes(t *testing.T) {
	c, now := clocked()
	cr, result := healthy()
	result.removal = removal{removing: true, waiting: "waiting for the removal of DaemonSet x", remaining: 2}
	c.conditions(cr, result)
	*now = now.Add(status.StuckAfter)
	all, _, _ := c.conditions(cr, result)
	found := texts(all)
	const want = "the removal of the driver has made no progress for 15m0s: waiting for the removal of DaemonSet x"
	if found["NodesDegraded"] != "True RemovalStuck: "+want || found["Degraded"] != "True RemovalStuck: Nodes: "+want {
		t.Errorf("%s; %s", found["NodesDegraded"], found["Degraded"])
	}
	result.removal.remaining = 1
	if all, _, again := c.conditions(cr, result); texts(all)["NodesDegraded"] != "False AsExpected" || again != status.StuckAfter {
		t.Errorf("after progress: %s, looks again in %s", texts(all)["NodesDegraded"], again)
	}
}

// Secrets are made anew when they are rotated; pods have read the old one.
func TestCredentialsThatAreMadeAnewStayAvailableForTwoMinutes(t *testing.T) {
	c, now := clocked()
	cr, result := healthy()
	before, _, _ := c.conditions(cr, result)
	cr.Status.Conditions = before
	delete(result.seen.live.credentials.Secrets, "disk-keys")
	const missing = "mint mode: Secret storage-system/disk-keys is missing, waiting for the cloud-credential-operator to recreate it"
	all, _, again := c.conditions(cr, result)
	if found := texts(all); found["KeysAvailable"] != "True SecretMissing: "+missing || found["KeysProgressing"] != "True SecretMissing: "+missing {
		t.Errorf("at once: %s; %s", found["KeysAvailable"], found["KeysProgressing"])
	}
	if again != status.FailureWindow {
		t.Errorf("looks again in %s", again)
	}
	*now = now.Add(status.FailureWindow)
	if all, _, _ = c.conditions(cr, result); texts(all)["KeysAvailable"] != "False SecretMissing: "+missing {
		t.Errorf("later: %s", texts(all)["KeysAvailable"])
	}
}

func TestCredentialsThatWereNeverThereAreNotAvailable(t *testing.T) {
	c, _ := clocked()
	cr, result := healthy()
	result.seen.live.credentials.Secrets = nil
	result.seen.live.credentials.Requests = map[string]*cloudcredentialv1.CredentialsRequest{}
	all, _, _ := c.conditions(cr, result)
	if got := texts(all)["KeysAvailable"]; got[:5] != "False" {
		t.Error(got)
	}
}

// What could not be read changes no condition about credentials.
func TestConditionsAboutCredentialsStayWhileNothingCanBeRead(t *testing.T) {
	c, _ := clocked()
	cr, result := healthy()
	cr.Status.Conditions = []operatorv1.OperatorCondition{
		status.Condition("DiskCredentialsControllerAvailable", false, "Before", "as it was"),
		status.Condition("DiskNodeCredentialsControllerDegraded", true, "Before", "as it was"),
	}
	result.err = errors.New("no route")
	all, _, _ := c.conditions(cr, result)
	want := map[string]string{
		"ConfigObservationDegraded": "False Retrying: no route",
		"KeysAvailable":             "False Before: as it was", "KeysProgressing": "", "KeysDegraded": "",
		"NodeKeysAvailable": "", "NodeKeysProgressing": "", "NodeKeysDegraded": "True Before: as it was",
		"Available": "False Before: Keys: as it was", "Degraded": "True Before: NodeKeys: as it was",
	}
	if diff := cmp.Diff(want, differing(all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Nothing of a predecessor is watched, and its DaemonSet has generations of its own.
func TestAPredecessorsDriverIsLookedAtAgain(t *testing.T) {
	c, _ := clocked()
	cr, result := healthy()
	result.seen.live.predecessors = true
	if _, stable, again := c.conditions(cr, result); stable != 0 || again != status.MostPause {
		t.Errorf("remembers generation %d and looks again in %s", stable, again)
	}
}
