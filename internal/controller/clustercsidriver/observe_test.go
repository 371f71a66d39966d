package clustercsidriver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestWhatThereIsOfTheDriver(t *testing.T) {
	elsewhere := driverPod("disk-node", "n9", "Evicted")
	elsewhere.Namespace = "elsewhere"
	objects := []client.Object{
		ours(deployment()), ours(daemonSet()), elsewhere, driverPod("disk-controller", "n1", "Evicted"), driverPod("disk-node", "n1", ""),
		driverPod("disk-node", "n2", "Evicted"), driverPod("other", "n1", "Evicted"), request("disk-request"), request("other"),
		secret(map[string][]byte{"credentials": []byte("x")}),
	}
	trip := newTrip(t, disk(), objects...)
	found, err := trip.readLive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.deployment == nil || found.daemonSet == nil || found.deployment.UID != "deployment-1" || found.predecessors {
		t.Errorf("workloads: %+v", found)
	}
	want := map[driver.Workload][]string{driver.Controller: {"n1 (Evicted)"}, driver.Node: {"n2 (Evicted)"}}
	if diff := cmp.Diff(want, found.unready); diff != "" {
		t.Errorf("pods that are not ready -want +got:\n%s", diff)
	}
	if len(found.credentials.Requests) != 2 || found.credentials.Requests["disk-request"] == nil || len(found.credentials.Secrets) != 1 || found.credentials.Secrets["disk-keys"].Hash == "" {
		t.Errorf("requests %v, secrets %v", found.credentials.Requests, found.credentials.Secrets)
	}
	delete(trip.Kinds, driver.CredentialsRequestKind())
	if found, err = trip.readLive(t.Context()); err != nil || len(found.credentials.Requests) > 0 {
		t.Errorf("a kind that is not served is read: %v, %v", found.credentials.Requests, err)
	}
	trip = newTrip(t, disk())
	if found, err = trip.readLive(t.Context()); err != nil || found.deployment != nil || found.daemonSet != nil || len(found.credentials.Secrets) > 0 {
		t.Errorf("where there is nothing: %+v, %v", found, err)
	}
}

func TestWhatCantBeReadIsAnError(t *testing.T) {
	for what, want := range map[string]string{
		"get Deployment disk-controller": "read Deployment disk-controller: no route",
		"get DaemonSet disk-node":        "read DaemonSet disk-node: no route",
		"get Secret disk-keys":           "read Secret disk-keys: no route",
		"list CredentialsRequest":        "list CredentialsRequests: no route",
	} {
		t.Run(what, func(t *testing.T) {
			trip := newTrip(t, disk())
			trip.cluster.Refuse(errors.New("no route"), what)
			if _, err := trip.readLive(t.Context()); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

func TestTheHashesWithWhichAWorkloadWasMade(t *testing.T) {
	found := live{deployment: deployment(), daemonSet: daemonSet()}
	want := map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	if diff := cmp.Diff(want, live{}.inputsOf()) + cmp.Diff(want, found.inputsOf()); diff != "" {
		t.Errorf("without any -want +got:\n%s", diff)
	}
	found.deployment.Spec.Template.Annotations = map[string]string{driver.DependencyHashAnnotation + "keys": "a", "other": "b"}
	found.daemonSet.Spec.Template.Annotations = map[string]string{driver.DependencyHashAnnotation + "bundle": "c"}
	want[driver.Controller]["keys"], want[driver.Node]["bundle"] = "a", "c"
	if diff := cmp.Diff(want, found.inputsOf()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestObserveReadsAllThatATripNeeds(t *testing.T) {
	trip := newTrip(t, disk(), infrastructure(), bundle("certificates"))
	cr, result := healthy()
	found, err := trip.observe(t.Context(), cr, result.seen.live)
	if err != nil || found.migration.Blocked() || found.config.Migrating || len(found.holds) > 0 || found.again != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if found.config.InfrastructureID != "cluster-x1" || found.config.DependencyHashes[driver.Controller]["disk-keys"] != "a" {
		t.Errorf("the configuration is not complete: %+v", found.config)
	}
	trip.cluster.Refuse(errors.New("no route"), "get CSIDriver disk.example.com")
	result.seen.live.daemonSet = nil
	if _, err := trip.observe(t.Context(), cr, result.seen.live); err == nil || err.Error() != "read CSIDriver disk.example.com: no route" {
		t.Errorf("what predecessors have left can't be read: %v", err)
	}
}

// Node pods of somebody else without a DaemonSet of ours would share sockets with ours.
func TestBothWorkloadsAreHeldByWhatIsInTheWay(t *testing.T) {
	stray := driverPod("disk-node", "n1", "")
	stray.Namespace = "elsewhere"
	stray.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/disk.example.com/"},
	}}}
	foreign := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}}
	trip := newTrip(t, disk(), infrastructure(), foreign, stray)
	cr, _ := healthy()
	found, err := trip.observe(t.Context(), cr, live{})
	if err != nil || !found.migration.Blocked() || found.again == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	blocker := found.migration.Blocker
	if diff := cmp.Diff(driver.Holds{driver.Controller: blocker, driver.Node: blocker}, found.holds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result := trip.apply(t.Context(), cr, live{})
	if result.err != nil || len(result.changes) > 0 || len(trip.cluster.Writes) > 0 {
		t.Errorf("it is applied all the same: %+v, sent %v", result, trip.cluster.Sent())
	}
}

// The driver of the payload serves before its operator is there. Its pods are the evidence: a new cluster costs no request.
func TestWorkloadsOfAPredecessorAreReportedWhileOursAreHeld(t *testing.T) {
	both := driver.Holds{driver.Controller: "wait", driver.Node: "wait"}
	pods := map[driver.Workload]bool{driver.Controller: true, driver.Node: true}
	for name, tc := range map[string]struct {
		removable             bool
		objects               []client.Object
		holds                 driver.Holds
		pods                  map[driver.Workload]bool
		deployment, daemonSet bool
		asks                  int
	}{
		"both":                       {false, []client.Object{deployment(), daemonSet()}, both, pods, true, true, 2},
		"the controller":             {false, []client.Object{deployment()}, both, pods, true, false, 2},
		"none is held":               {false, []client.Object{deployment(), daemonSet()}, nil, pods, false, false, 0},
		"the node pods are held":     {false, []client.Object{deployment(), daemonSet()}, driver.Holds{driver.Node: "wait"}, pods, false, true, 1},
		"only the controller's pods": {false, []client.Object{deployment(), daemonSet()}, both, map[driver.Workload]bool{driver.Controller: true}, true, false, 1},
		"no pods":                    {false, []client.Object{deployment(), daemonSet()}, both, nil, false, false, 0},
		"a driver that is removable": {true, []client.Object{deployment(), daemonSet()}, both, pods, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable = tc.removable
			trip, cluster := newTrip(t, d), newCluster(t, tc.objects...)
			trip.Live = cluster
			cr, _ := healthy()
			found := seen{live: live{pods: tc.pods}, holds: tc.holds}
			if err := trip.addPredecessors(t.Context(), cr, &found); err != nil {
				t.Fatal(err)
			}
			if (found.live.deployment != nil) != tc.deployment || (found.live.daemonSet != nil) != tc.daemonSet || len(cluster.Reads) != tc.asks {
				t.Errorf("Deployment %v, DaemonSet %v, reads %v", found.live.deployment, found.live.daemonSet, cluster.Reads)
			}
		})
	}
	trip := newTrip(t, func() driver.Driver { d := disk(); d.Removable = false; return d }())
	trip.cluster.Refuse(errors.New("no route"), "get DaemonSet disk-node")
	cr, _ := healthy()
	err := trip.addPredecessors(t.Context(), cr, &seen{live: live{pods: pods}, holds: both})
	if err == nil || err.Error() != "look for disk-node of a predecessor: no route" {
		t.Error(err)
	}
}

// Their pods serve until ours are applied, however many reconciles a hold takes, and although the CSIDriver is ours from the first one on.
func TestAHoldKeepsAPredecessorsDriverAvailable(t *testing.T) {
	d := disk()
	d.Removable = false
	trip := newTrip(t, d, infrastructure(), driverPod("disk-controller", "n1", ""), driverPod("disk-node", "n1", ""))
	trip.Live = newCluster(t, deployment(), daemonSet())
	cr, _ := healthy()
	for reconcile := range 3 {
		live, err := trip.readLive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, _, _ := trip.reporter.conditions(cr, trip.follow(t.Context(), cr, live))
		for _, kind := range []string{"DiskDriverControllerServiceControllerAvailable", "DiskDriverNodeServiceControllerAvailable"} {
			if found := status.Find(all, kind); found == nil || found.Status != operatorv1.ConditionTrue {
				t.Errorf("reconcile %d: %s is %+v", reconcile+1, kind, found)
			}
		}
	}
	if !slices.ContainsFunc(trip.cluster.Sent(), func(sent string) bool { return strings.HasPrefix(sent, "apply CSIDriver "+diskName) }) {
		t.Errorf("the CSIDriver is not adopted: %v", trip.cluster.Sent())
	}
}

func TestAPredecessorsDriverIsReportedWhileNothingIsTouched(t *testing.T) {
	old := daemonSet()
	old.Name, old.Spec.Template.Spec.Volumes = "old-disk-node", []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/disk.example.com"},
	}}}
	for name, tc := range map[string]struct {
		state operatorv1.ManagementState
		ours  live
		want  bool
	}{
		"unmanaged":                   {operatorv1.Unmanaged, live{}, true},
		"managed":                     {operatorv1.Managed, live{}, false},
		"unmanaged, with one of ours": {operatorv1.Unmanaged, live{daemonSet: daemonSet(), deployment: deployment()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), old, deployment(), driverPod("old-disk-node", "n1", "Evicted"))
			trip.Migration.Predecessors = []*migration.Predecessor{{
				Predecessor: driver.Predecessor{Title: "the old operator", DaemonSet: "old-disk-node", Operator: "old-operator"},
				Reader:      trip.cluster, Driver: disk(), Namespace: here,
			}}
			cr, _ := healthy()
			cr.Spec.ManagementState = tc.state
			tc.ours.unready = map[driver.Workload][]string{}
			found := tc.ours
			if err := trip.addUnmanaged(t.Context(), cr, &found); err != nil {
				t.Fatal(err)
			}
			if found.predecessors != tc.want {
				t.Errorf("it is a predecessor's: %t", found.predecessors)
			}
			if tc.want && (found.daemonSet.Name != "old-disk-node" || found.deployment == nil || len(found.unready[driver.Node]) != 1) {
				t.Errorf("%+v", found)
			}
			if tc.ours.daemonSet != nil && found.daemonSet.Name != "disk-node" {
				t.Errorf("it replaces ours: %s", found.daemonSet.Name)
			}
			// What is wrong with the configuration of the cluster stops no pod.
			trip.cluster.Refuse(errors.New("no route"), "get Infrastructure")
			result := trip.look(t.Context(), cr, tc.ours)
			if result.err == nil || result.seen.live.predecessors != tc.want {
				t.Errorf("without a configuration it is a predecessor's: %t, error %v", result.seen.live.predecessors, result.err)
			}
		})
	}
}
