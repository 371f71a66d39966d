package vspherehealth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	driverName = "csi.vsphere.vmware.com"
	operator   = "vmware-vsphere-csi-driver-operator"
	statusOf   = "apply status ClusterCSIDriver csi.vsphere.vmware.com"
)

// answers is a Source that says what a test wants.
type answers struct {
	snapshot vsphere.Snapshot
	asked    int
}

func (a *answers) Snapshot() vsphere.Snapshot         { return a.snapshot }
func (a *answers) Changed() <-chan event.GenericEvent { return nil }
func (a *answers) PollSoon()                          { a.asked++ }

// counted is a queue that counts what is to be done later.
type counted struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added int
}

func (c *counted) AddAfter(reconcile.Request, time.Duration) { c.added++ }

func clusterCSIDriver(state operatorv1.ManagementState, have ...operatorv1.OperatorCondition) *operatorv1.ClusterCSIDriver {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName, UID: "1-2", ResourceVersion: "1"}}
	cr.Spec.ManagementState, cr.Status.Conditions = state, have
	return cr
}

func infrastructure() *configv1.Infrastructure {
	made := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	made.Status.InfrastructureName = "dev-x"
	in := healthy()
	made.Spec.PlatformSpec.VSphere = &configv1.VSpherePlatformSpec{FailureDomains: in.want.FailureDomains, VCenters: in.cluster.vCenters}
	return made
}

func nodeObject(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon().Add(-time.Hour))}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}
}

func ours() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName, Labels: map[string]string{"app.kubernetes.io/managed-by": operator}}}
}

// trip is a reconciler in the cluster that healthy describes.
type trip struct {
	*Reconciler
	cluster *canned.Cluster
	source  *answers
	events  *canned.Events
	woken   int
	time    time.Time
}

func newTrip(t *testing.T, objects ...client.Object) *trip {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	healthy := healthy()
	made := &trip{cluster: canned.New(scheme, objects...), source: &answers{snapshot: healthy.snapshot}, events: &canned.Events{}, time: noon().Add(-time.Second)}
	now := func() time.Time { return made.time }
	made.Reconciler = &Reconciler{
		Client: made.cluster, Recorder: made.events, Driver: driver.Driver{Name: driverName, Operator: operator, DaemonSet: "vmware-vsphere-csi-driver-node"},
		Namespace: "here", Source: made.source, Config: func() cloudconfig.Config { return healthy.config }, Wake: func() { made.woken++ }, Now: now,
	}
	made.writer = &status.Writer{Client: made.cluster, Owner: made.owner(), Now: now}
	if made.metrics, err = newMetrics(prometheus.NewRegistry(), driverName); err != nil {
		t.Fatal(err)
	}
	made.followAll(nil)
	made.nodes.Queue, made.volumes.Queue, made.csiNodes.Queue = &counted{}, &counted{}, &counted{}
	var nodes, volumes, csiNodes []any
	for _, name := range []string{"dc1-1", "dc1-2", "dc2-1", "dc2-2"} {
		nodes = append(nodes, nodeObject(name, "vsphere://"+strings.ToUpper(name)))
	}
	for _, object := range objects {
		switch object.(type) {
		case *corev1.Node:
			nodes = append(nodes, object)
		case *corev1.PersistentVolume:
			volumes = append(volumes, object)
		case *storagev1.CSINode:
			csiNodes = append(csiNodes, object)
		}
	}
	if err := errors.Join(made.nodes.Replace(nodes, "1"), made.volumes.Replace(volumes, "1"), made.csiNodes.Replace(csiNodes, "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := made.Want(t.Context()); err != nil {
		t.Fatal(err)
	}
	made.time = noon()
	return made
}

// run reconciles once, and returns the conditions that it has written, and when it comes again.
func (r *trip) run(t *testing.T) ([]string, time.Duration) {
	t.Helper()
	r.cluster.Writes, r.cluster.Bodies, r.events.Said = nil, nil, nil
	result, err := r.Reconcile(t.Context(), r.request())
	if err != nil {
		t.Fatal(err)
	}
	if cr := canned.Written[operatorv1.ClusterCSIDriver](t, r.cluster, statusOf); cr != nil {
		return brief(cr.Status.Conditions), result.RequeueAfter
	}
	return nil, result.RequeueAfter
}

// next lets the cache show what was written, and time pass.
func (r *trip) next(t *testing.T) {
	t.Helper()
	if written := canned.Written[operatorv1.ClusterCSIDriver](t, r.cluster, statusOf); written != nil {
		for _, object := range r.cluster.Objects {
			if cr, is := object.(*operatorv1.ClusterCSIDriver); is {
				cr.Status.Conditions = written.Status.Conditions
			}
		}
	}
	r.time = r.time.Add(10 * time.Second)
}

func allWell() []string {
	return []string{
		"VMwareVSphereControllerUpgradeable=True/AsExpected", "VMwareVSphereOperatorCheckDegraded=False/AsExpected",
		"VMwareVSphereOperatorCheckWarning=False/AsExpected",
	}
}

func TestAHostThatIsTooOldIsToldAndItsRecovery(t *testing.T) {
	r := newTrip(t, clusterCSIDriver(operatorv1.Managed), infrastructure(), ours())
	told, again := r.run(t)
	diff(t, allWell(), told)
	if again != 0 || len(r.events.Said) > 0 {
		t.Errorf("again in %s, events %v", again, r.events.Said)
	}
	r.next(t)
	if told, _ := r.run(t); told != nil {
		t.Errorf("without a change, written %v", told)
	}
	r.source.snapshot.VCenters[0].Hosts[0].APIVersion = "6.7.0"
	told, _ = r.run(t)
	const message = "vCenter vc1: ESXi of hosts esx1.dc1 (6.7.0) is too old: the driver needs 6.7.3. Upgrade the hosts to 7.0.2 or newer"
	diff(t, []string{
		"VMwareVSphereControllerUpgradeable=False/HostVersion HostVersion: " + message, "VMwareVSphereOperatorCheckDegraded=True/HostVersion HostVersion: " + message,
		"VMwareVSphereOperatorCheckWarning=False/AsExpected",
	}, told)
	diff(t, []string{"Warning HostVersion: " + message}, r.events.Said)
	r.next(t)
	if told, _ := r.run(t); told != nil || len(r.events.Said) > 0 {
		t.Errorf("once more: written %v, events %v", told, r.events.Said)
	}
	// A text that changes right after another is written some time, and is no news.
	r.source.snapshot.VCenters[0].Hosts[0].APIVersion = "6.7.1"
	r.run(t)
	r.source.snapshot.VCenters[0].Hosts[1].APIVersion, r.source.snapshot.VCenters[0].VMs[0].DiskUUID = "6.7.1", false
	r.time = r.time.Add(100 * time.Millisecond)
	if told, again := r.run(t); told != nil || again != 900*time.Millisecond || len(r.events.Said) > 0 {
		t.Errorf("at once: written %v, again in %s, events %v", told, again, r.events.Said)
	}
	r.source.snapshot.VCenters[0].VMs[0].DiskUUID, r.source.snapshot.VCenters[0].Hosts[1].APIVersion = true, "8.0.2"
	r.next(t)
	r.source.snapshot.VCenters[0].Hosts[0].APIVersion = "8.0.2"
	told, _ = r.run(t)
	diff(t, allWell(), told)
	diff(t, []string{"Normal HostVersionMended: resolved: " + message}, r.events.Said)
}

func TestAVCenterIsGivenTwoMinutes(t *testing.T) {
	old := conditions([]finding{{check: hostVersion, severity: blockUpgrade, server: "vc1", message: "vCenter vc1: old hosts"}})
	r := newTrip(t, clusterCSIDriver(operatorv1.Managed, old...), infrastructure(), ours())
	vc := &r.source.snapshot.VCenters[0]
	vc.Err, vc.FailingSince = failing("vc1", vsphere.Timeout), noon().Add(-30*time.Second)
	if told, again := r.run(t); told != nil || again != 90*time.Second || len(r.events.Said) > 0 {
		t.Errorf("written %v, again in %s, events %v", told, again, r.events.Said)
	}
	r.time = noon().Add(90 * time.Second)
	told, again := r.run(t)
	const down = "VCenterConnection: vCenter vc1: log in: the cause"
	diff(t, []string{
		"VMwareVSphereControllerUpgradeable=False/Multiple HostVersion: vCenter vc1: old hosts | " + down,
		"VMwareVSphereOperatorCheckDegraded=True/VCenterConnection " + down, "VMwareVSphereOperatorCheckWarning=False/AsExpected",
	}, told)
	diff(t, []string{"Warning VCenterConnection: vCenter vc1: log in: the cause"}, r.events.Said)
	if again != 0 {
		t.Errorf("again in %s", again)
	}
}

func TestNothingIsSaidBeforeAnybodyKnows(t *testing.T) {
	old := conditions([]finding{{check: hostVersion, severity: degrade, server: "vc1", message: "vCenter vc1: old hosts"}})
	r := newTrip(t, clusterCSIDriver(operatorv1.Managed, old...), infrastructure(), ours())
	r.source.snapshot = vsphere.Snapshot{}
	if told, _ := r.run(t); told != nil || r.Facts().Known {
		t.Errorf("before the first poll: written %v, facts %+v", told, r.Facts())
	}
	// A node has come since the vCenters were asked.
	r.source.snapshot = healthy().snapshot
	if err := r.nodes.Add(nodeObject("new", "vsphere://new")); err != nil {
		t.Fatal(err)
	}
	if told, again := r.run(t); told != nil || r.source.asked != 1 || r.Facts().Known || again != 30*time.Second {
		t.Errorf("to other questions: written %v, asked again %d times, again in %s", told, r.source.asked, again)
	}
	// They are asked, and have not answered yet; then they answer that there is no such VM.
	r.time = noon().Add(time.Minute)
	want, err := r.Want(t.Context())
	if err != nil || !slices.Contains(want.UUIDs, "new") {
		t.Fatalf("want %v, error %v", want, err)
	}
	if told, _ := r.run(t); told != nil {
		t.Errorf("while they are asked: written %v", told)
	}
	r.source.snapshot.Taken = noon().Add(2 * time.Minute)
	r.time = noon().Add(2 * time.Minute)
	told, _ := r.run(t)
	if len(told) != 3 || !strings.Contains(told[1], "NodeVM: no vCenter has VMs with the UUIDs of nodes new (new)") || strings.Contains(told[1], "old hosts") {
		t.Errorf("written %v", told)
	}
	diff(t, []string{"Warning NodeVM", "Normal HostVersionMended"}, reasons(r.events.Said))
	// The Secret goes, and a node comes that nobody can ask about.
	r.source.snapshot = vsphere.Snapshot{}
	if err := r.nodes.Add(nodeObject("newer", "vsphere://newer")); err != nil {
		t.Fatal(err)
	}
	if told, again := r.run(t); told != nil || again != 0 || r.source.asked != 2 || !r.Facts().Known {
		t.Errorf("without an answer: written %v, again in %s, asked again %d times, facts %+v", told, again, r.source.asked, r.Facts())
	}
}

func reasons(said []string) []string {
	var all []string
	for _, one := range said {
		reason, _, _ := strings.Cut(one, ":")
		all = append(all, reason)
	}
	return all
}

func TestTheStateThatIsWantedIsFollowed(t *testing.T) {
	old := conditions(nil)
	for name, test := range map[string]struct {
		cr    client.Object
		wrote bool
		known bool
	}{
		"managed":   {clusterCSIDriver(operatorv1.Managed), true, true},
		"unmanaged": {clusterCSIDriver(operatorv1.Unmanaged), true, true},
		"removed":   {clusterCSIDriver(operatorv1.Removed, old...), true, false},
		"being deleted": {func() client.Object {
			cr := clusterCSIDriver(operatorv1.Managed, old...)
			cr.DeletionTimestamp = &metav1.Time{Time: noon()}
			return cr
		}(), false, false},
		"absent": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{infrastructure(), ours()}
			if test.cr != nil {
				objects = append(objects, test.cr)
			}
			r := newTrip(t, objects...)
			told, _ := r.run(t)
			if (len(r.cluster.Writes) > 0) != test.wrote || r.Facts().Known != test.known {
				t.Errorf("writes %v, facts %+v", r.cluster.Writes, r.Facts())
			}
			if name == "removed" && told != nil {
				t.Errorf("conditions %v stay", told)
			}
		})
	}
}

func TestFactsWakeTheTripWhenTheyChange(t *testing.T) {
	r := newTrip(t, clusterCSIDriver(operatorv1.Managed), infrastructure())
	r.run(t)
	if diff := cmp.Diff(driver.CloudFacts{Known: true, ManyVolumes: true}, r.Facts()); diff != "" || r.woken != 1 {
		t.Errorf("woken %d times (-want +got):\n%s", r.woken, diff)
	}
	r.next(t)
	r.run(t)
	r.source.snapshot.VCenters[1].VMs[0].Hardware = 13
	r.next(t)
	r.run(t)
	if facts := r.Facts(); r.woken != 2 || !strings.HasPrefix(facts.Refused, "NodeHardwareVersion: vCenter vc2: ") {
		t.Errorf("woken %d times, facts %+v", r.woken, facts)
	}
	// What was known stays while a vCenter does not answer.
	r.source.snapshot.VCenters[0].Err, r.source.snapshot.VCenters[0].FailingSince = failing("vc1", vsphere.Timeout), noon()
	r.next(t)
	r.run(t)
	if r.woken != 2 || r.Facts().Refused == "" {
		t.Errorf("woken %d times, facts %+v", r.woken, r.Facts())
	}
}

func TestFailedReadsAndWritesAreErrors(t *testing.T) {
	for request, want := range map[string]string{
		"get ClusterCSIDriver": "read ClusterCSIDriver " + driverName, "list StorageClass": "list StorageClasses", "get Infrastructure": "read Infrastructure cluster",
		"get CSIDriver": "read CSIDriver " + driverName, "get DaemonSet": "read DaemonSet here/vmware-vsphere-csi-driver-node", "apply": "write status",
	} {
		r := newTrip(t, clusterCSIDriver(operatorv1.Managed), infrastructure())
		r.source.snapshot.VCenters[0].Hosts[0].APIVersion = "6.7.0"
		r.cluster.Refuse(errors.New("no"), request)
		if _, err := r.Reconcile(t.Context(), r.request()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v", request, err)
		}
		if len(r.events.Said) > 0 {
			t.Errorf("%s: events %v", request, r.events.Said)
		}
	}
}

func TestANewNodeIsLookedAtAgainWhenItIsNoNewOne(t *testing.T) {
	young := nodeObject("young", "")
	young.CreationTimestamp = metav1.NewTime(noon().Add(-time.Minute))
	r := newTrip(t, clusterCSIDriver(operatorv1.Managed), infrastructure(), young)
	if told, again := r.run(t); again != 4*time.Minute || cmp.Diff(allWell(), told) != "" {
		t.Errorf("again in %s, told %v", again, told)
	}
}

func TestWantWaitsForTheCluster(t *testing.T) {
	r := newTrip(t, infrastructure())
	r.followAll(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Want(ctx); err == nil {
		t.Error("it knows the nodes before they are listed")
	}
}
