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
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
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
	classes := disk()
	classes.StorageClass = ""
	for what, tc := range map[string]struct {
		driver driver.Driver
		want   string
	}{
		"get Deployment disk-controller": {disk(), "read Deployment disk-controller: no route"},
		"get DaemonSet disk-node":        {disk(), "read DaemonSet disk-node: no route"},
		"get Secret disk-keys":           {disk(), "read Secret disk-keys: no route"},
		"list CredentialsRequest":        {disk(), "list CredentialsRequests: no route"},
		"get StorageClass disk-sc":       {disk(), "get StorageClass disk-sc: no route"},
		"list StorageClass":              {classes, "list StorageClasses: no route"},
		"list VolumeSnapshotClass":       {classes, "list VolumeSnapshotClasses: no route"},
	} {
		t.Run(what, func(t *testing.T) {
			trip := newTrip(t, tc.driver)
			trip.Kinds[driver.VolumeSnapshotClassKind()] = true
			trip.cluster.Refuse(errors.New("no route"), what)
			if _, err := trip.readLive(t.Context()); err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
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
	keys := secret(map[string][]byte{"credentials": []byte("x")})
	trip := newTrip(t, disk(), infrastructure(), bundle("certificates"), ours(deployment()), ours(daemonSet()), keys, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-node-keys"}, Data: keys.Data,
	})
	cr, _ := healthy()
	found, err := trip.observe(t.Context(), cr, trip.found(t))
	if err != nil || found.migration.Blocked() || found.config.Migrating || len(found.holds) > 0 || found.again != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if found.config.InfrastructureID != "cluster-x1" || found.config.DependencyHashes[driver.Controller]["disk-keys"] == "" {
		t.Errorf("the configuration is not complete: %+v", found.config)
	}
	trip = newTrip(t, disk(), infrastructure())
	trip.cluster.Refuse(errors.New("no route"), "get CSIDriver disk.example.com")
	if _, err := trip.observe(t.Context(), cr, trip.found(t)); err == nil || err.Error() != "read CSIDriver disk.example.com: no route" {
		t.Errorf("what predecessors have left can't be read: %v", err)
	}
}

// Who reads neither writes nor steers: what follows from it is in the value.
func TestObserveChangesNothing(t *testing.T) {
	d := clouded()
	d.Predecessors = []driver.Predecessor{{DaemonSet: "old-disk-node"}}
	trip := newTrip(t, d, infrastructure(), typed("gold"), ours(deployment()), ours(daemonSet()), secret(map[string][]byte{"credentials": []byte("x")}))
	asked, resources := &cannedCloud{facts: driver.CloudFacts{Known: true, ShareTypes: []string{"gold"}}}, &canned.Resources{}
	trip.Derived.Cloud, trip.Derived.CloudResources = asked, resources
	before := *trip.applier
	cr, _ := healthy()
	for range 2 {
		found, err := trip.observe(t.Context(), cr, trip.found(t))
		if err != nil || found.cloudInputs == nil || *found.cloudInputs == "" || !found.managesCloud || found.keepAlive == nil {
			t.Fatalf("%+v, %v", found, err)
		}
		if gold := func(subject apply.Subject) bool { return subject.Name == "gold" }; !slices.ContainsFunc(found.inventory, gold) {
			t.Errorf("the class is not in the inventory: %v", found.inventory)
		}
	}
	if diff := cmp.Diff(before.Inventory, trip.applier.Inventory); diff != "" || trip.applier.KeepAlive != nil {
		t.Errorf("the applier is another one: %v, -want +got:\n%s", trip.applier.KeepAlive, diff)
	}
	if len(trip.cluster.Writes)+len(asked.inputs)+len(resources.Asked) > 0 {
		t.Errorf("wrote %v, inputs %q, asked for %v", trip.cluster.Sent(), asked.inputs, resources.Asked)
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
	found, err := trip.observe(t.Context(), cr, trip.found(t))
	if err != nil || !found.migration.Blocked() || found.again == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	blocker := found.migration.Blocker
	if diff := cmp.Diff(driver.Holds{driver.Controller: blocker, driver.Node: blocker}, found.holds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result := trip.apply(t.Context(), cr, trip.found(t))
	if result.err != nil || len(result.changes) > 0 || len(trip.cluster.Writes) > 0 {
		t.Errorf("it is applied all the same: %+v, sent %v", result, trip.cluster.Sent())
	}
}

// The driver of the payload serves before its operator is there. Its pods are the evidence: a new cluster costs no request.
func TestWorkloadsOfAPredecessorAreReportedWhileOursAreHeld(t *testing.T) {
	pods := map[driver.Workload]bool{driver.Controller: true, driver.Node: true}
	for name, tc := range map[string]struct {
		removable             bool
		objects               []client.Object
		pods                  map[driver.Workload]bool
		deployment, daemonSet bool
		asks                  int
	}{
		"both":                       {false, []client.Object{deployment(), daemonSet()}, pods, true, true, 2},
		"the controller":             {false, []client.Object{deployment()}, pods, true, false, 2},
		"only the controller's pods": {false, []client.Object{deployment(), daemonSet()}, map[driver.Workload]bool{driver.Controller: true}, true, false, 1},
		"no pods":                    {false, []client.Object{deployment(), daemonSet()}, nil, false, false, 0},
		"a driver that is removable": {true, []client.Object{deployment(), daemonSet()}, pods, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable = tc.removable
			trip, cluster := newTrip(t, d), newCluster(t, tc.objects...)
			trip.Live = cluster
			cr, _ := healthy()
			found := live{pods: tc.pods}
			if err := trip.addPredecessors(t.Context(), cr, &found); err != nil {
				t.Fatal(err)
			}
			if (found.deployment != nil) != tc.deployment || (found.daemonSet != nil) != tc.daemonSet || len(cluster.Reads) != tc.asks {
				t.Errorf("Deployment %v, DaemonSet %v, reads %v", found.deployment, found.daemonSet, cluster.Reads)
			}
		})
	}
	trip := newTrip(t, func() driver.Driver { d := disk(); d.Removable = false; return d }())
	trip.cluster.Refuse(errors.New("no route"), "get DaemonSet disk-node")
	cr, _ := healthy()
	err := trip.addPredecessors(t.Context(), cr, &live{pods: pods})
	if err == nil || err.Error() != "look for disk-node of a predecessor: no route" {
		t.Error(err)
	}
}

// Their pods serve until ours are applied, however many reconciles a hold takes, and although the CSIDriver is ours from the first one on.
func TestAHoldKeepsAPredecessorsDriverAvailable(t *testing.T) {
	for name, tc := range map[string]struct {
		driver  driver.Driver
		objects []client.Object
		refuse  string
		hold    string
	}{
		"keys are missing":                       {driver: disk(), hold: waitForKeys},
		"a Secret of ours can't be applied":      {deriving(), []client.Object{cloudConfig("a"), diskKeys()}, "apply Secret", "Secret storage-system/disk-config can't be applied"},
		"a Secret of ours waits for a ConfigMap": {driver: deriving(), objects: []client.Object{diskKeys()}, hold: "ConfigMap openshift-config/cloud, which configures"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.driver.Removable = false
			trip := newTrip(t, tc.driver, append(tc.objects, infrastructure(), bundle("x"), driverPod("disk-controller", "n1", ""), driverPod("disk-node", "n1", ""))...)
			if tc.refuse != "" {
				trip.cluster.Refuse(errors.New("no room"), tc.refuse)
			}
			live := newCluster(t, append(tc.objects, deployment(), daemonSet())...)
			trip.Live, trip.Derived.Live = live, live
			cr, _ := healthy()
			for reconcile := range 3 {
				all, _, _ := trip.reporter.conditions(cr, trip.act(t.Context(), cr))
				const controller = "DiskDriverControllerServiceController"
				for _, kind := range []string{controller + status.Available, "DiskDriverNodeServiceControllerAvailable"} {
					if found := status.Find(all, kind); found == nil || found.Status != operatorv1.ConditionTrue {
						t.Errorf("reconcile %d: %s is %+v", reconcile+1, kind, found)
					}
				}
				if found := status.Find(all, controller+status.Progressing); !strings.HasPrefix(found.Message, tc.hold) {
					t.Errorf("reconcile %d: the hold reaches no condition: %+v", reconcile+1, found)
				}
			}
			if !slices.ContainsFunc(trip.cluster.Sent(), func(sent string) bool { return strings.HasPrefix(sent, "apply CSIDriver "+diskName) }) {
				t.Errorf("the CSIDriver is not adopted: %v", trip.cluster.Sent())
			}
		})
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
			if tc.ours.daemonSet != nil {
				trip = newTrip(t, disk(), old, ours(deployment()), ours(daemonSet()))
				trip.cluster.Refuse(errors.New("no route"), "get Infrastructure")
			}
			result := trip.inspect(t.Context(), cr, trip.found(t))
			if result.err == nil || result.seen.live.predecessors != tc.want {
				t.Errorf("without a configuration it is a predecessor's: %t, error %v", result.seen.live.predecessors, result.err)
			}
		})
	}
}
