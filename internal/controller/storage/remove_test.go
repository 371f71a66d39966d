package storage

import (
	"errors"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// others is an entry that this program removes itself, and unneeded that it is to do so.
func others() catalogue.Entry {
	entry := entries()[1]
	entry.Workloads = []catalogue.Workload{{Kind: "DaemonSet", Namespace: "drivers", Name: "node"}}
	return entry
}

func unneeded(entry catalogue.Entry) *result {
	return &result{choice: choice{entry: entry, decision: unwanted, why: "the platform of the cluster is None"}}
}

func aWorld() *seen {
	return &seen{Cluster: openshift.Cluster{Infrastructure: infrastructure("None")}}
}

func TestVolumesCountUntilTheDriverHasGone(t *testing.T) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: others().Name}
	node := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "node"}}
	for name, tc := range map[string]struct {
		objects []client.Object
		seen    time.Duration
		waits   bool
	}{
		"a part of the driver is left":            {[]client.Object{volume, node}, time.Second, true},
		"nothing of it is left":                   {[]client.Object{volume}, time.Second, false},
		"nothing of it is left, counted long ago": {[]client.Object{volume}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			entry := others()
			r := reconcilerOf(newCluster(t, tc.objects...), entry)
			r.volumes[entry.Name] = volumes{seen: at.Add(-tc.seen)}
			done := unneeded(entry)
			r.remove(t.Context(), aWorld(), done)
			if done.removal.waits != tc.waits || done.removal.done == tc.waits {
				t.Errorf("removal %+v, error %v", done.removal, done.err)
			}
			// No event tells this program that a volume has gone.
			if again := done.again == volumesInterval; again != tc.waits {
				t.Errorf("the next look is in %s", done.again)
			}
		})
	}
}

func TestADriverThatIsUnmanagedIsNotRemoved(t *testing.T) {
	for _, entry := range []catalogue.Entry{entries()[0], others()} {
		t.Run(entry.Title, func(t *testing.T) {
			r := reconcilerOf(newCluster(t), entry)
			done := unneeded(entry)
			done.driver, done.deployment = driver("2"), deployment(true)
			done.driver.Spec.ManagementState = operatorv1.Unmanaged
			r.remove(t.Context(), aWorld(), done)
			if !done.removal.waits || done.deployment == nil || done.driver.Annotations[openshift.NotWantedAnnotation] != "" {
				t.Errorf("removal %+v", done.removal)
			}
			if !strings.Contains(done.removal.message, "Set its spec.managementState to Managed") {
				t.Errorf("it says %q", done.removal.message)
			}
			conditions, _ := newMemory().removalConditions(done)
			want := "Progressing=False/Unmanaged Degraded=False/AsExpected"
			if diff := cmp.Diff(want, short(conditions, entry.Condition+removalConditions)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff("Unmanaged", done.state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARemovalIsMarkedBeforeTheOperatorGoes(t *testing.T) {
	for name, tc := range map[string]struct {
		operator bool
		want     []string
	}{
		"the operator is there": {true, []string{"apply ClusterCSIDriver " + others().Name}},
		// Else it would come back as soon as it is deleted, which is the last step.
		"nothing is left": {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			done := unneeded(others())
			if tc.operator {
				done.deployment = deployment(true)
			}
			reconcilerOf(c, done.entry).remove(t.Context(), aWorld(), done)
			if diff := cmp.Diff(tc.want, c.Writes); diff != "" || done.err != nil {
				t.Errorf("ClusterCSIDrivers that were made: %s; error %v", diff, done.err)
			}
		})
	}
}

// waitingDriver is one of ours whose operator has to remove it, with what it says.
func waitingDriver(conditions ...operatorv1.OperatorCondition) *operatorv1.ClusterCSIDriver {
	made := driver("2", conditions...)
	made.Name = entries()[0].Name
	return made
}

func TestARemovalSaysForWhatItWaits(t *testing.T) {
	volume := func(name string) client.Object {
		made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		made.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: entries()[0].Name}
		return made
	}
	const waits, why = "waiting for Deployment plain-operator to remove the driver: see ClusterCSIDriver plain.example", "because the platform of the cluster is None"
	for name, tc := range map[string]struct {
		driver  *operatorv1.ClusterCSIDriver
		objects []client.Object
		want    removal
	}{
		"unmanaged": {&operatorv1.ClusterCSIDriver{Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: "Unmanaged"}}}, nil,
			removal{waits: true, reason: "Unmanaged", message: "Plain is no longer needed, " + why + ", but ClusterCSIDriver plain.example is Unmanaged. Set its spec.managementState to Managed to let the operator remove the driver. Or delete the driver's objects yourself, and then the ClusterCSIDriver"}},
		"volumes": {waitingDriver(), []client.Object{volume("b"), volume("a")}, removal{waits: true, reason: "VolumesExist",
			message: "Plain is no longer needed, " + why + ", but it still has 2 PersistentVolumes: a, b. Delete them to let the operator remove the driver"}},
		"an operator that is silent": {waitingDriver(), nil, removal{left: 1, message: waits}},
		"an operator that removes":   {waitingDriver(said("XProgressing", true, "3 pods are left")), nil, removal{left: 1, message: waits + ": X: 3 pods are left"}},
		"no ClusterCSIDriver":        {nil, nil, removal{left: 1, message: waits}},
	} {
		t.Run(name, func(t *testing.T) {
			entry := entries()[0]
			r := reconcilerOf(newCluster(t, tc.objects...), entry)
			done := unneeded(entry)
			done.driver = tc.driver
			r.remove(t.Context(), aWorld(), done)
			if diff := cmp.Diff(tc.want, done.removal, cmp.AllowUnexported(removal{})); diff != "" {
				t.Errorf("removal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARemovalThatCannotLookDoesNothing(t *testing.T) {
	for request, want := range map[string]string{
		"get DaemonSet":         "check whether DaemonSet drivers/node still exists: read: out of order",
		"list PersistentVolume": "list PersistentVolumes of driver gated.example: out of order",
	} {
		c := newCluster(t)
		c.Refuse(errors.New("out of order"), request)
		done := unneeded(others())
		reconcilerOf(c, done.entry).remove(t.Context(), aWorld(), done)
		if done.err == nil || done.err.Error() != want || len(c.Writes) > 0 || done.removal != (removal{}) {
			t.Errorf("error %v, removal %+v, writes %v", done.err, done.removal, c.Writes)
		}
	}
}
