package clustercsidriver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Each case says which conditions differ from those of a driver that runs.
func TestConditionsFollowFromWhatWasSeenAndDone(t *testing.T) {
	type change func(cr *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner)
	state := func(state operatorv1.ManagementState) change {
		return func(cr *operatorv1.ClusterCSIDriver, _ *outcome, _ *conditioner) { cr.Spec.ManagementState = state }
	}
	err := func(err error) change {
		return func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) { o.err = err }
	}
	changes := func(changes ...apply.Change) change {
		return func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) { o.changes = changes }
	}
	did := func(did func(o *outcome)) change {
		return func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) { did(o) }
	}
	dropped := func(annotation string) change {
		return func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Annotations = map[string]string{driver.SchedulingAnnotation: annotation}
			o.changes = apply.ChangeSet{{
				Subject: apply.Subject{GroupVersionKind: schema.GroupVersionKind{Kind: "CSIDriver"}}, Action: apply.Unchanged,
				Dropped: []string{driver.SchedulingField},
			}}
		}
	}
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: "Role"}, "r", nil)
	for name, tc := range map[string]struct {
		change change
		want   map[string]string
	}{
		"no management state": {state(""), map[string]string{}},
		"unmanaged": {state(operatorv1.Unmanaged), map[string]string{
			"ManagementStateDegraded": "False Unmanaged: the operator changes nothing while spec.managementState is Unmanaged",
		}},
		"a management state that is not known": {state("Off"), map[string]string{
			"Degraded":                "True Unknown: ManagementState: spec.managementState \"Off\" is unknown: the operator changes nothing until you set it to Managed, Unmanaged or Removed",
			"ManagementStateDegraded": "True Unknown: spec.managementState \"Off\" is unknown: the operator changes nothing until you set it to Managed, Unmanaged or Removed",
		}},
		"what other controllers report": {func(cr *operatorv1.ClusterCSIDriver, _ *outcome, _ *conditioner) {
			cr.Status.Conditions = []operatorv1.OperatorCondition{
				status.Condition("DiskCheckUpgradeable", false, "HostVersion", "too old"), status.Condition("DiskCheckDegraded", true, "Login", "refused"),
				status.Condition("DiskCheckWarning", true, "Login", "for people"),
				// These are its own of before, and a predecessor's.
				status.Condition("DiskDriverCloudDegraded", true, "CloudFailed", ""), status.Condition("Upgradeable", true, "", ""),
				status.Condition("DiskOldControllerDegraded", true, "Old", ""),
			}
		}, map[string]string{
			"Degraded":    "True Login: DiskCheck: refused",
			"Upgradeable": "False HostVersion: DiskCheck: too old",
		}},
		"removed, of which nothing is done yet": {state(operatorv1.Removed), map[string]string{
			"ManagementStateDegraded": "False Removed",
		}},
		"removed, but part of the cluster": {func(cr *operatorv1.ClusterCSIDriver, _ *outcome, c *conditioner) {
			cr.Spec.ManagementState, c.driver.Removable = operatorv1.Removed, false
		}, map[string]string{
			"Degraded":                "True Removed: ManagementState: disk.example.com is part of the cluster and can't be removed: set spec.managementState to Managed, or to Unmanaged to change the driver by hand",
			"ManagementStateDegraded": "True Removed: disk.example.com is part of the cluster and can't be removed: set spec.managementState to Managed, or to Unmanaged to change the driver by hand",
		}},
		"not wanted, but it stays": {did(func(o *outcome) { o.unwanted = removalWish{message: "it stays"} }), map[string]string{
			"ManagementStateDegraded": "False NotWanted: it stays",
		}},
		"not wanted and removed, but it stays": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner) {
			cr.Spec.ManagementState, c.driver.Removable, o.unwanted = operatorv1.Removed, false, removalWish{message: "it stays"}
		}, map[string]string{
			"Degraded":                "True Removed: ManagementState: disk.example.com is part of the cluster and can't be removed: set spec.managementState to Managed, or to Unmanaged to change the driver by hand",
			"ManagementStateDegraded": "True Removed: disk.example.com is part of the cluster and can't be removed: set spec.managementState to Managed, or to Unmanaged to change the driver by hand",
		}},
		"an error that may pass": {err(errors.New("no route")), withoutKeys(map[string]string{
			"ConfigObservationDegraded": "False Retrying: no route",
		})},
		"a write conflict": {err(apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("z"))), withoutKeys(map[string]string{})},
		"an error that stays": {err(reconcile.TerminalError(errors.New("wrong flag"))), withoutKeys(map[string]string{
			"ConfigObservationDegraded": "True SyncError: wrong flag",
			"Degraded":                  "True SyncError: ConfigObservation: wrong flag",
		})},
		"configuration that can't be followed": {did(func(o *outcome) { o.seen.problems = []string{"one", "two"} }), map[string]string{
			"ConfigObservationDegraded": "True NotFollowed: one; two",
			"Degraded":                  "True NotFollowed: ConfigObservation: one; two",
		}},
		"a field that the API server drops": {dropped("true"), map[string]string{
			"ConfigObservationDegraded": "True NotFollowed: annotation operator.openshift.io/prevent-pod-scheduling-if-missing=\"true\" of this ClusterCSIDriver has no effect: the API server drops spec.preventPodSchedulingIfMissing of the CSIDriver, because its feature gate VolumeLimitScaling is off: enable the gate, or remove the annotation",
			"Degraded":                  "True NotFollowed: ConfigObservation: annotation operator.openshift.io/prevent-pod-scheduling-if-missing=\"true\" of this ClusterCSIDriver has no effect: the API server drops spec.preventPodSchedulingIfMissing of the CSIDriver, because its feature gate VolumeLimitScaling is off: enable the gate, or remove the annotation",
		}},
		"a field that the API server drops, and that no annotation asks for": {dropped(""), map[string]string{}},
		"settings of another cloud": {func(cr *operatorv1.ClusterCSIDriver, _ *outcome, _ *conditioner) {
			cr.Spec.DriverConfig.DriverType = operatorv1.GCPDriverType
		}, map[string]string{
			"ConfigObservationDegraded": "False NotFollowed: spec.driverConfig is ignored: its driverType is GCP, but driver disk.example.com needs driverType AWS",
		}},
		"both": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Spec.DriverConfig.DriverType, o.seen.problems = operatorv1.GCPDriverType, []string{"one"}
		}, map[string]string{
			"ConfigObservationDegraded": "True NotFollowed: one; spec.driverConfig is ignored: its driverType is GCP, but driver disk.example.com needs driverType AWS",
			"Degraded":                  "True NotFollowed: ConfigObservation: one; spec.driverConfig is ignored: its driverType is GCP, but driver disk.example.com needs driverType AWS",
		}},
		"a Deployment that is refused for the moment": {changes(failed("Deployment", here, "disk-controller", errors.New("timeout"))), map[string]string{
			"ControllerDegraded": "False Retrying: Deployment storage-system/disk-controller: timeout",
		}},
		"a DaemonSet that is refused": {changes(failed("DaemonSet", here, "disk-node", refused)), map[string]string{
			"Degraded":      "True SyncError: Nodes: DaemonSet storage-system/disk-node: Role \"r\" is invalid",
			"NodesDegraded": "True SyncError: DaemonSet storage-system/disk-node: Role \"r\" is invalid",
		}},
		"an object of the namespace that is refused": {changes(failed("Role", here, "r", refused)), map[string]string{
			"Degraded":       "True SyncError: Inside: Role storage-system/r: Role \"r\" is invalid",
			"InsideDegraded": "True SyncError: Role storage-system/r: Role \"r\" is invalid",
		}},
		"objects of the cluster that are refused": {
			changes(failed("ClusterRole", "", "a", refused), failed("ClusterRole", "", "b", errors.New("timeout"))), map[string]string{
				"Degraded":           "True SyncError: Everywhere: ClusterRole a: Role \"r\" is invalid\nClusterRole b: timeout",
				"EverywhereDegraded": "True SyncError: ClusterRole a: Role \"r\" is invalid\nClusterRole b: timeout",
			},
		},
		"a CredentialsRequest that is refused": {changes(failed("CredentialsRequest", "openshift-cloud-credential-operator", "disk-request", refused)), map[string]string{
			"Degraded":     "True SyncError: Keys: CredentialsRequest openshift-cloud-credential-operator/disk-request: Role \"r\" is invalid",
			"KeysDegraded": "True SyncError: CredentialsRequest openshift-cloud-credential-operator/disk-request: Role \"r\" is invalid",
		}},
		"an object that is being deleted": {changes(func() apply.Change {
			change := failed("ServiceAccount", here, "sa", fmt.Errorf("is being deleted"))
			change.Action = apply.Terminating
			return change
		}()), map[string]string{
			"InsideDegraded": "False Retrying: ServiceAccount storage-system/sa: is being deleted",
		}},
		"an object of somebody else": {changes(changed(apply.LeftAlone, "StorageClass", "", "disk-sc")), map[string]string{
			"Available": "True AsExpected: StorageClass disk-sc was not created by this operator and stays unchanged",
		}},
		"kinds that the cluster lacks": {func(_ *operatorv1.ClusterCSIDriver, _ *outcome, c *conditioner) {
			c.kinds = allKinds()
			delete(c.kinds, driver.ServiceMonitorKind())
			delete(c.kinds, driver.CredentialsRequestKind())
		}, map[string]string{
			"Available": "True AsExpected: This cluster does not serve CredentialsRequest.cloudcredential.openshift.io, " +
				"ServiceMonitor.monitoring.coreos.com: the operator leaves out all features that need these kinds. Restart the operator after the cluster serves them",
		}},
		"nothing installed yet": {did(func(o *outcome) { o.seen.live.deployment, o.seen.live.daemonSet = nil, nil }), map[string]string{
			"Available":             "False NotFound: Controller: the controller Deployment does not exist yet\nNodes: the node DaemonSet does not exist yet",
			"ControllerAvailable":   "False NotFound: the controller Deployment does not exist yet",
			"ControllerProgressing": "True Deploying: the controller Deployment does not exist yet",
			"NodesAvailable":        "False NotFound: the node DaemonSet does not exist yet",
			"NodesProgressing":      "True Deploying: the node DaemonSet does not exist yet",
			"Progressing":           "True Deploying: Controller: the controller Deployment does not exist yet\nNodes: the node DaemonSet does not exist yet",
		}},
		"a controller pod that is lost": {did(func(o *outcome) {
			o.seen.live.deployment.Status.AvailableReplicas = 1
			o.seen.live.unready[driver.Controller] = []string{"node-1 (NotReady)"}
		}), map[string]string{
			"Available":             "True AsExpected: 1 of 2 controller pods not ready: node-1 (NotReady)",
			"ControllerAvailable":   "True AsExpected: 1 of 2 controller pods not ready: node-1 (NotReady)",
			"ControllerProgressing": "True Deploying: 1 of 2 controller pods not ready: node-1 (NotReady)",
			"Progressing":           "True Deploying: Controller: 1 of 2 controller pods not ready: node-1 (NotReady)",
		}},
		"a node that has not registered the driver": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.seen.live.unregistered = "on node-3"
		}, map[string]string{
			"Degraded": "True NotRegistered: Nodes: on node-3", "NodesDegraded": "True NotRegistered: on node-3",
		}},
		"a node pod that is lost": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.seen.live.daemonSet.Status.NumberAvailable = 2
			o.seen.live.unready[driver.Node] = []string{"node-3 (CrashLoopBackOff)"}
			cr.Status.Generations = generations("disk-node", "daemonset-1")
		}, map[string]string{
			"Available":      "True AsExpected: 1 of 3 nodes not ready: node-3 (CrashLoopBackOff)",
			"NodesAvailable": "True AsExpected: 1 of 3 nodes not ready: node-3 (CrashLoopBackOff)",
		}},
		"a node pod that is lost of a DaemonSet that was made anew": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.seen.live.daemonSet.Status.NumberAvailable = 2
			cr.Status.Generations = generations("disk-node", "daemonset-0")
		}, map[string]string{
			"Available":        "True AsExpected: 1 of 3 nodes not ready",
			"NodesAvailable":   "True AsExpected: 1 of 3 nodes not ready",
			"NodesProgressing": "True Deploying: 1 of 3 nodes not ready",
			"Progressing":      "True Deploying: Nodes: 1 of 3 nodes not ready",
		}},
		"a roll-out": {did(func(o *outcome) {
			o.seen.live.deployment.Generation, o.seen.live.daemonSet.Generation = 2, 2
			o.seen.live.daemonSet.Status.ObservedGeneration, o.seen.live.daemonSet.Status.UpdatedNumberScheduled = 2, 1
		}), map[string]string{
			"ControllerProgressing": "True Deploying: waiting for the Deployment controller to observe the newest version",
			"NodesProgressing":      "True Deploying: 1 of 3 nodes have the newest version",
			"Progressing":           "True Deploying: Controller: waiting for the Deployment controller to observe the newest version\nNodes: 1 of 3 nodes have the newest version",
		}},
		"the controller is held": {did(func(o *outcome) { o.seen.holds = driver.Holds{driver.Controller: "waiting for Secret a/b"} }), map[string]string{
			"ControllerProgressing": "True Waiting: waiting for Secret a/b",
			"Progressing":           "True Waiting: Controller: waiting for Secret a/b",
		}},
		"the node pods are held before their first start": {did(func(o *outcome) {
			o.seen.holds, o.seen.live.daemonSet = driver.Holds{driver.Node: "waiting for Secret a/b"}, nil
		}), map[string]string{
			"Available":        "False Waiting: Nodes: waiting for Secret a/b",
			"NodesAvailable":   "False Waiting: waiting for Secret a/b",
			"NodesProgressing": "True Waiting: waiting for Secret a/b",
			"Progressing":      "True Waiting: Nodes: waiting for Secret a/b",
		}},
		"a predecessor is in the way": {did(func(o *outcome) {
			o.seen.migration.Blocker, o.seen.holds = "stop it", driver.Holds{driver.Controller: "stop it", driver.Node: "stop it"}
			o.seen.live, o.changes = live{credentials: credential.Found{Requests: o.seen.live.credentials.Requests}}, nil
			delete(o.seen.live.credentials.Requests, "disk-request")
		}), map[string]string{
			"Available":             "False Multiple: Keys: stop it; until then, the operator requests no credentials\nController: stop it\nNodes: stop it",
			"ControllerAvailable":   "False Waiting: stop it",
			"ControllerProgressing": "True Waiting: stop it",
			"KeysAvailable":         "False CredentialsNotProvisionedYet: stop it; until then, the operator requests no credentials",
			"NodeKeysAvailable":     "True SecretMissing: stop it; until then, the operator requests no credentials",
			"NodesAvailable":        "False Waiting: stop it",
			"NodesProgressing":      "True Waiting: stop it",
			"Progressing":           "True Waiting: Controller: stop it\nNodes: stop it",
		}},
		"node pods of a predecessor are replaced": {did(func(o *outcome) {
			o.moved = migration.Moved{Message: "2 of 3 nodes", Serving: 1}
			o.seen.live.daemonSet.Status.NumberAvailable = 0
		}), map[string]string{
			"NodesProgressing": "True TakingOver: 2 of 3 nodes",
			"Progressing":      "True TakingOver: Nodes: 2 of 3 nodes",
		}},
		"no node pod of a predecessor serves": {did(func(o *outcome) {
			o.moved = migration.Moved{Message: "2 of 3 nodes"}
			o.seen.live.daemonSet.Status.NumberAvailable = 0
		}), map[string]string{
			"Available":        "False Deploying: Nodes: 3 of 3 nodes not ready; look at the pods and their events in namespace storage-system",
			"NodesAvailable":   "False Deploying: 3 of 3 nodes not ready; look at the pods and their events in namespace storage-system",
			"NodesProgressing": "True TakingOver: 2 of 3 nodes",
			"Progressing":      "True TakingOver: Nodes: 2 of 3 nodes",
		}},
		"node pods are replaced": {did(func(o *outcome) {
			o.rolled = nodes.Progress{Reason: nodes.NodesInUse, Message: "1 of 3 nodes"}
		}), map[string]string{
			"NodesProgressing": "True NodesInUse: 1 of 3 nodes",
			"Progressing":      "True NodesInUse: Nodes: 1 of 3 nodes",
		}},
		"a canary fails": {did(func(o *outcome) {
			o.rolled = nodes.Progress{Reason: nodes.TryingCanary, Message: "tried on a", Failed: "no image"}
		}), map[string]string{
			"Degraded":         "True CanaryFailed: Nodes: no image",
			"NodesDegraded":    "True CanaryFailed: no image",
			"NodesProgressing": "True TryingCanary: tried on a",
			"Progressing":      "True TryingCanary: Nodes: tried on a",
		}},
		"a predecessor's driver goes on unmanaged": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Spec.ManagementState, o.seen.live.predecessors = operatorv1.Unmanaged, true
		}, map[string]string{
			"Available":               "True AsExpected: A predecessor still runs the driver: set spec.managementState to Managed to migrate it",
			"ManagementStateDegraded": "False Unmanaged: the operator changes nothing while spec.managementState is Unmanaged",
		}},
		"pods use volumes, so that the removal waits": {did(func(o *outcome) { o.removal = removal{inUse: "these: a/b", blocking: 1} }), map[string]string{
			"NodesProgressing": "True VolumesInUse: these: a/b",
			"Progressing":      "True VolumesInUse: Nodes: these: a/b",
		}},
		"the driver is being removed": {did(func(o *outcome) {
			o.removal = removal{removing: true, waiting: "waiting for the removal of DaemonSet x", remaining: 2}
		}), withoutKeys(map[string]string{
			"Available":             "False Removing: Controller: the driver is being removed\nNodes: the driver is being removed",
			"ControllerAvailable":   "False Removing: the driver is being removed",
			"ControllerProgressing": "True Removing: waiting for the removal of DaemonSet x",
			"NodesAvailable":        "False Removing: the driver is being removed",
			"NodesProgressing":      "True Removing: waiting for the removal of DaemonSet x",
			"Progressing":           "True Removing: Controller: waiting for the removal of DaemonSet x\nNodes: waiting for the removal of DaemonSet x",
		})},
		"the driver is removed": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Spec.ManagementState, o.removal = operatorv1.Removed, removal{removed: true}
		}, withoutKeys(map[string]string{
			"Available":               "False Removed: Controller: the driver is removed; set spec.managementState to Managed to install it\nNodes: the driver is removed; set spec.managementState to Managed to install it",
			"ControllerAvailable":     "False Removed: the driver is removed; set spec.managementState to Managed to install it",
			"ControllerProgressing":   "False Removed",
			"ManagementStateDegraded": "False Removed",
			"NodesAvailable":          "False Removed: the driver is removed; set spec.managementState to Managed to install it",
			"NodesProgressing":        "False Removed",
		})},
		"the driver is removed, being one of another cloud": {did(func(o *outcome) {
			o.unwanted, o.removal = removalWish{remove: true, message: "another cloud"}, removal{removed: true}
		}), withoutKeys(map[string]string{
			"Available":               "False Removed: Controller: the driver is removed: another cloud\nNodes: the driver is removed: another cloud",
			"ControllerAvailable":     "False Removed: the driver is removed: another cloud",
			"ControllerProgressing":   "False Removed",
			"ManagementStateDegraded": "False NotWanted: another cloud",
			"NodesAvailable":          "False Removed: the driver is removed: another cloud",
			"NodesProgressing":        "False Removed",
			"Progressing":             "False Removed: another cloud",
		})},
		"the removal fails": {did(func(o *outcome) {
			o.err, o.removal = errors.New("no route"), removal{removing: true, waiting: "waiting for pods"}
		}), withoutKeys(map[string]string{
			"Available":                 "False Removing: Controller: the driver is being removed\nNodes: the driver is being removed",
			"ConfigObservationDegraded": "False Retrying: no route",
			"ControllerAvailable":       "False Removing: the driver is being removed",
			"ControllerProgressing":     "True Removing: waiting for pods",
			"NodesAvailable":            "False Removing: the driver is being removed",
			"NodesProgressing":          "True Removing: waiting for pods",
			"Progressing":               "True Removing: Controller: waiting for pods\nNodes: waiting for pods",
		})},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := clocked()
			cr, result := healthy()
			tc.change(cr, &result, &c)
			all, _, _ := c.conditions(cr, result)
			if diff := cmp.Diff(tc.want, differing(all)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// withoutKeys adds that there are no conditions about credentials.
func withoutKeys(want map[string]string) map[string]string {
	for _, kind := range []string{"Available", "Progressing", "Degraded"} {
		want["Keys"+kind], want["NodeKeys"+kind] = "", ""
	}
	return want
}
