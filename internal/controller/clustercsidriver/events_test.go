package clustercsidriver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestAnEventTellsWhatHappened(t *testing.T) {
	const nodes = "DiskDriverNodeServiceControllerProgressing"
	type conditions = []operatorv1.OperatorCondition
	is := func(kind string, value bool, reason, message string) operatorv1.OperatorCondition {
		return status.Condition(kind, value, reason, message)
	}
	up, down := is("Available", true, "", ""), is("Available", false, "Deploying", "Nodes: 3 of 3 nodes not ready")
	removed := is("Available", false, removedReason, "the driver is removed")
	disabled := is("DiskDriverDisabled", true, derived.Disabled, "the cloud has no shares")
	moving := is(nodes, true, migration.TakingOver, "2 of 3 nodes still have a pod")
	for name, tc := range map[string]struct {
		before, after conditions
		changes       apply.ChangeSet
		want          []string
	}{
		"nothing":                   {conditions{up}, conditions{up}, nil, nil},
		"the first report":          {nil, conditions{down}, nil, nil},
		"it is available":           {conditions{down}, conditions{up}, nil, []string{"Normal DriverAvailable: driver disk.example.com is available"}},
		"it is available at once":   {nil, conditions{up}, nil, []string{"Normal DriverAvailable: driver disk.example.com is available"}},
		"it is not available":       {conditions{up}, conditions{down}, nil, []string{"Warning DriverUnavailable: Nodes: 3 of 3 nodes not ready"}},
		"it is removed":             {conditions{down}, conditions{removed}, nil, []string{"Normal DriverRemoved: driver disk.example.com is removed"}},
		"it is removed at once":     {conditions{up}, conditions{removed}, nil, []string{"Normal DriverRemoved: driver disk.example.com is removed"}},
		"it is still removed":       {conditions{removed}, conditions{removed}, nil, nil},
		"it is installed once more": {conditions{removed}, conditions{up}, nil, []string{"Normal DriverAvailable: driver disk.example.com is available"}},
		"it is disabled":            {nil, conditions{up, disabled}, nil, []string{"Normal DriverDisabled: the cloud has no shares"}},
		"it is disabled no more": {
			conditions{up, disabled}, conditions{up}, nil, []string{"Normal DriverAvailable: driver disk.example.com is available"},
		},
		"its removal begins": {
			conditions{up, is("Progressing", false, "", ""), is(nodes, false, "", "")},
			conditions{down, is("Progressing", true, removingReason, ""), is(nodes, true, removingReason, "")},
			nil, []string{"Normal DriverRemoving: removing driver disk.example.com"},
		},
		"its removal is held up": {
			conditions{up}, conditions{up, is(nodes, true, inUseReason, "pods use it: a/b")}, nil, []string{"Warning RemovalBlocked: pods use it: a/b"},
		},
		"its removal is held up by others": {
			conditions{up, is(nodes, true, inUseReason, "pods use it: a/b")}, conditions{up, is(nodes, true, inUseReason, "pods use it: c/d")}, nil, nil,
		},
		"a migration begins":    {conditions{up}, conditions{up, moving}, nil, []string{"Normal TakingOver: 2 of 3 nodes still have a pod"}},
		"a migration goes on":   {conditions{up, moving}, conditions{up, is(nodes, true, migration.TakingOver, "1 of 3")}, nil, nil},
		"a migration ends":      {conditions{up, moving}, conditions{up, is(nodes, false, "", "")}, nil, []string{"Normal TakenOver: all nodes have this operator's node pod"}},
		"a roll-out follows it": {conditions{up, moving}, conditions{up, is(nodes, true, status.Deploying, "")}, nil, nil},
		"a roll-out pauses": {
			conditions{up, is(nodes, true, "ReplacingPods", "")}, conditions{up, is(nodes, true, "RolloutPaused", "shop/web is not ready")}, nil,
			[]string{"Warning RolloutPaused: shop/web is not ready"},
		},
		"something fails": {
			conditions{up}, conditions{up, is("Degraded", true, "SyncError", "Nodes: refused")}, nil, []string{"Warning DriverDegraded: Nodes: refused"},
		},
		"something else fails": {
			conditions{up, is("Degraded", true, "SyncError", "Nodes: refused")}, conditions{up, is("Degraded", true, "SyncError", "Keys: refused")}, nil, nil,
		},
		"it is well again": {
			conditions{up, is("Degraded", true, "SyncError", "")}, conditions{up, is("Degraded", false, "", "")}, nil,
			[]string{"Normal DriverRecovered: the driver is no longer degraded"},
		},
		"objects of a driver that is not available yet": {
			conditions{down}, conditions{down}, apply.ChangeSet{changed(apply.Created, "Role", here, "r")}, nil,
		},
		"objects are created, changed and deleted": {
			conditions{up}, conditions{up},
			apply.ChangeSet{
				changed(apply.Created, "Role", here, "new"), changed(apply.Configured, "ClusterRole", "", "other"), changed(apply.Deleted, "Role", here, "old"),
				changed(apply.Unchanged, "Role", here, "same"),
			},
			[]string{
				"Normal ObjectsCreated (Role new): created: Role storage-system/new",
				"Normal DriverUpdated (ClusterRole other): updated to match the configuration: ClusterRole other",
				"Normal DriverUpdated (Role old): updated to match the configuration: Role storage-system/old",
			},
		},
		"a change is undone": {
			conditions{up}, conditions{up}, apply.ChangeSet{{Subject: changed("", "Role", here, "r").Subject, Action: apply.Configured, Drift: true}},
			[]string{"Normal ObjectsRestored (Role r): reverted external changes to: Role storage-system/r"},
		},
		"many objects": {
			conditions{up}, conditions{up},
			apply.ChangeSet{
				changed(apply.Created, "Role", here, "d"), changed(apply.Created, "Role", here, "c"), changed(apply.Created, "Role", here, "b"),
				changed(apply.Created, "ClusterRole", "", "a"),
			},
			[]string{"Normal ObjectsCreated: created: ClusterRole a, Role storage-system/b, Role storage-system/c, Role storage-system/d"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			cr, _ := healthy()
			trip.reporter.emit(cr, tc.before, tc.after, tc.changes)
			if diff := cmp.Diff(tc.want, trip.events.Said); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestARolloutTellsWhereItBeginsAndThatItEnds(t *testing.T) {
	trip := newTrip(t, disk())
	cr, _ := healthy()
	for _, rolled := range []nodes.Progress{{}, {Canary: "node-7"}, {Message: "1 of 3"}, {Ended: true}, {}} {
		trip.reporter.emitRollout(cr, rolled)
	}
	want := []string{"Normal TryingCanary: trying the new node pod on node node-7", "Normal NodePodsReplaced: all nodes have the new node pod"}
	if diff := cmp.Diff(want, trip.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An event holds 1024 bytes; the API server refuses a longer one.
func TestALongEventIsCutOff(t *testing.T) {
	trip := newTrip(t, disk())
	cr, _ := healthy()
	trip.reporter.record(cr, "Normal", "Long", strings.Repeat("long ", 300))
	if said := fmt.Sprint(trip.events.Said); len(said) > 1024 || !strings.HasSuffix(said, "...]") {
		t.Errorf("%d bytes: %s", len(said), said)
	}
}
