package storage

import (
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/openshift"
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
			if !strings.Contains(done.removal.message, "set its spec.managementState to Managed") {
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
